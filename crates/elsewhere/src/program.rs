//! The program that is carried to another machine.

use std::env;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use nix::libc;
use reveille_kernel::{Error, Result};
use sha2::{Digest, Sha256};

/// This program, as another machine may have it, and as it can be carried there.
pub struct Program {
    /// Hashes of programs that are the same as this one.
    same: Vec<String>,
    carried: Option<Vec<u8>>,
}

/// Where `make static` puts it, as seen from the program in cargo's folder, and where it is beside an installed one.
const PLACES: [&str; 2] = ["../static/reveille", "../lib/reveille/static"];

impl Program {
    /// This program, and the static one beside it; this one itself if it is static.
    ///
    /// # Errors
    /// If this program cannot be read.
    pub fn find() -> Result<Self> {
        let this = Path::new("/proc/self/exe");
        let own = fs::read(this).map_err(Error::at(this))?;
        let mut same = vec![hash(&own)];
        let carried = match is_static(&own) {
            true => Some(own),
            false => beside().into_iter().find_map(|path| fs::read(path).ok()),
        };
        let carried = carried.filter(|program| is_static(program));
        same.extend(carried.as_deref().map(hash));
        Ok(Self { same, carried })
    }

    /// Whether a program with this SHA-256 is this one.
    pub(crate) fn is(&self, hash: &str) -> bool {
        self.same.iter().any(|same| same == hash)
    }

    /// To carry to a machine that `uname` describes with these words.
    ///
    /// # Errors
    /// In words, without the host: another architecture, or no static program.
    pub(crate) fn for_machine(
        &self,
        system: &str,
        machine: &str,
    ) -> std::result::Result<&[u8], String> {
        let here = env::consts::ARCH;
        if (system, machine) != ("Linux", here) {
            return Err(format!(
                "{system} on {machine}, and this program is for Linux on {here}; nothing was changed there"
            ));
        }
        self.carried.as_deref().ok_or_else(|| {
            "this version of reveille is not there, and there is no static program here to carry over; \
             `make static` builds one, or install this version there"
                .to_owned()
        })
    }
}

fn beside() -> Vec<PathBuf> {
    let this = env::current_exe().unwrap_or_default();
    let folder = this.parent().unwrap_or(Path::new(""));
    PLACES.iter().map(|place| folder.join(place)).collect()
}

fn hash(program: &[u8]) -> String {
    let mut text = String::new();
    for byte in Sha256::digest(program) {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// Whether it is an ELF file of 64 bits that needs no dynamic linker (elf(5)).
fn is_static(program: &[u8]) -> bool {
    let number = |at: usize, bytes: usize| {
        let field = program.get(at..at.checked_add(bytes)?)?;
        let mut number = [0; 8];
        number[..bytes].copy_from_slice(field);
        Some(u64::from_le_bytes(number))
    };
    let needs_a_linker = || {
        let (start, size, count) = (number(32, 8)?, number(54, 2)?, number(56, 2)?);
        let mut kinds = (0..count).map(|place| {
            let at = start.checked_add(place * size)?;
            number(usize::try_from(at).ok()?, 4)
        });
        let interpreter = Some(u64::from(libc::PT_INTERP));
        Some(kinds.any(|kind| kind == interpreter || kind.is_none()))
    };
    // 64 bits, the least significant byte first, as all machines that this program is built for.
    program.starts_with(b"\x7fELF\x02\x01") && needs_a_linker() == Some(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_with_a_dynamic_linker_is_not_static() {
        // A test is linked as the program is.
        let own = fs::read("/proc/self/exe").unwrap();
        let maps = fs::read_to_string("/proc/self/maps").unwrap();
        assert_eq!(is_static(&own), !maps.contains("/ld-linux"));
        for bad in [b"".as_slice(), &own[..64], b"#!/bin/sh\n"] {
            assert!(!is_static(bad));
        }
    }

    #[test]
    fn nothing_is_carried_to_another_architecture() {
        let program = Program {
            same: vec!["ab".into()],
            carried: Some(vec![1]),
        };
        assert!(program.is("ab") && !program.is("-"));
        let here = env::consts::ARCH;
        assert_eq!(program.for_machine("Linux", here), Ok(&[1][..]));
        let refused = program.for_machine("Linux", "riscv32").unwrap_err();
        assert!(refused.starts_with("Linux on riscv32, "), "{refused}");
        assert!(program.for_machine("FreeBSD", here).is_err());
        let nothing = Program {
            same: Vec::new(),
            carried: None,
        };
        let refused = nothing.for_machine("Linux", here).unwrap_err();
        assert!(refused.contains("make static"), "{refused}");
    }
}
