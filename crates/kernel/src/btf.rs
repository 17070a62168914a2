//! The kernel's BTF: typedefs, functions and enumerators by name.
//!
//! Source of the format: Documentation/bpf/btf.rst of the kernel.

use std::collections::HashMap;

use crate::Root;

const MAGIC: u16 = 0xeb9f;
/// The header up to `str_len`.
const HEADER: usize = 24;

const KIND_INT: u32 = 1;
const KIND_ARRAY: u32 = 3;
const KIND_STRUCT: u32 = 4;
const KIND_UNION: u32 = 5;
const KIND_ENUM: u32 = 6;
const KIND_TYPEDEF: u32 = 8;
const KIND_FUNC: u32 = 12;
const KIND_FUNC_PROTO: u32 = 13;
const KIND_VAR: u32 = 14;
const KIND_DATASEC: u32 = 15;
const KIND_DECL_TAG: u32 = 17;
const KIND_ENUM64: u32 = 19;

/// Names of the kernel's types, each with its type's number.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Btf {
    typedefs: HashMap<String, u32>,
    functions: HashMap<String, u32>,
    /// With the number of their enum.
    enumerators: HashMap<String, u32>,
}

impl Btf {
    /// The BTF of the kernel below `root`; `None` if it is missing or invalid.
    pub fn read(root: &Root) -> Option<Self> {
        Self::parse(&std::fs::read(root.path("sys/kernel/btf/vmlinux")).ok()?)
    }

    /// Reads a BTF section of this machine's byte order; `None` if it is invalid, truncated, or has an
    /// unknown kind of type.
    pub fn parse(data: &[u8]) -> Option<Self> {
        if u16::from_ne_bytes(data.get(..2)?.try_into().ok()?) != MAGIC {
            return None;
        }
        let word = |offset: usize| -> Option<usize> {
            let bytes = data.get(offset..offset.checked_add(4)?)?;
            Some(u32::from_ne_bytes(bytes.try_into().ok()?) as usize)
        };
        let header = word(4)?;
        if header < HEADER {
            return None;
        }
        let section = |offset: usize, length: usize| -> Option<&[u8]> {
            let start = header.checked_add(word(offset)?)?;
            data.get(start..start.checked_add(word(length)?)?)
        };
        let (types, strings) = (section(8, 12)?, section(16, 20)?);
        let mut btf = Self::default();
        let mut types = Words(types);
        // Type 0 is void and not written down.
        let mut number = 0;
        while !types.0.is_empty() {
            number += 1;
            let (name, info, _) = (types.next()?, types.next()?, types.next()?);
            let (kind, members) = ((info >> 24) & 0x1f, (info & 0xffff) as usize);
            match kind {
                KIND_TYPEDEF => insert(&mut btf.typedefs, strings, name, number),
                KIND_FUNC => insert(&mut btf.functions, strings, name, number),
                _ => {}
            }
            // Words that follow the three, once or per member.
            let (words, times) = match kind {
                KIND_INT | KIND_VAR | KIND_DECL_TAG => (1, 1),
                KIND_ARRAY => (3, 1),
                KIND_STRUCT | KIND_UNION | KIND_DATASEC | KIND_ENUM64 => (3, members),
                KIND_ENUM | KIND_FUNC_PROTO => (2, members),
                1..KIND_ENUM64 => (0, 0),
                _ => return None,
            };
            for _ in 0..times {
                let name = types.next()?;
                types.skip(words - 1)?;
                if kind == KIND_ENUM || kind == KIND_ENUM64 {
                    insert(&mut btf.enumerators, strings, name, number);
                }
            }
        }
        Some(btf)
    }

    /// The type of a tracepoint's handler, which the kernel calls `btf_trace_NAME`.
    pub fn tracepoint(&self, name: &str) -> Option<u32> {
        self.typedefs.get(&format!("btf_trace_{name}")).copied()
    }

    /// A function of the kernel that programs can be attached to or call.
    pub fn function(&self, name: &str) -> Option<u32> {
        self.functions.get(name).copied()
    }

    /// Does any enum of the kernel have this value?
    pub(crate) fn has_enumerator(&self, name: &str) -> bool {
        self.enumerators.contains_key(name)
    }
}

/// 32-bit words one after another.
struct Words<'a>(&'a [u8]);

impl Words<'_> {
    fn next(&mut self) -> Option<u32> {
        let (word, rest) = self.0.split_first_chunk::<4>()?;
        self.0 = rest;
        Some(u32::from_ne_bytes(*word))
    }

    fn skip(&mut self, words: usize) -> Option<()> {
        self.0 = self.0.get(words * 4..)?;
        Some(())
    }
}

/// Keeps the first of several types of one name, as the kernel's lookup does.
fn insert(names: &mut HashMap<String, u32>, strings: &[u8], name: u32, number: u32) {
    let Some(rest) = strings.get(name as usize..) else {
        return;
    };
    let end = rest
        .iter()
        .position(|&byte| byte == 0)
        .unwrap_or(rest.len());
    if let (Ok(name), 1..) = (std::str::from_utf8(&rest[..end]), end) {
        names.entry(name.to_owned()).or_insert(number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A BTF with the given type words and the strings "", "x", "btf_trace_nap", "SNORE".
    fn btf(types: &[u32]) -> Vec<u8> {
        let strings = b"\0x\0btf_trace_nap\0SNORE\0";
        let types: Vec<u8> = types.iter().flat_map(|word| word.to_ne_bytes()).collect();
        let header = [
            24,
            0,
            types.len() as u32,
            types.len() as u32,
            strings.len() as u32,
        ];
        let mut data = MAGIC.to_ne_bytes().to_vec();
        data.extend([1, 0]);
        data.extend(header.iter().flat_map(|word| word.to_ne_bytes()));
        data.extend(types);
        data.extend(strings);
        data
    }

    const X: u32 = 1;
    const NAP: u32 = 3;
    const SNORE: u32 = 17;

    #[test]
    fn names_are_found_after_types_of_every_size() {
        let types = [
            [X, KIND_INT << 24, 4].as_slice(),
            &[32],
            &[X, KIND_STRUCT << 24 | 2, 8],
            &[X, 1, 0, X, 1, 32],
            &[0, KIND_ENUM << 24 | 1, 4],
            &[SNORE, 7],
            &[NAP, KIND_TYPEDEF << 24, 1],
            &[X, KIND_FUNC << 24, 1],
        ]
        .concat();
        let btf = Btf::parse(&btf(&types)).unwrap();
        assert_eq!(btf.tracepoint("nap"), Some(4));
        assert_eq!(btf.function("x"), Some(5));
        assert!(btf.has_enumerator("SNORE") && !btf.has_enumerator("x"));
        assert_eq!(btf.tracepoint("x"), None);
    }

    #[test]
    fn truncated_or_unknown_data_is_not_btf() {
        let whole = btf(&[NAP, KIND_TYPEDEF << 24, 1]);
        for length in 0..whole.len() {
            assert_eq!(Btf::parse(&whole[..length]), None, "{length} bytes");
        }
        assert_eq!(Btf::parse(&btf(&[X, 30 << 24, 1])), None, "an unknown kind");
        assert_eq!(
            Btf::parse(&btf(&[X, KIND_ENUM << 24 | 9, 1])),
            None,
            "members are missing"
        );
        assert_eq!(
            Btf::parse(&btf(&[u32::MAX, KIND_TYPEDEF << 24, 1])),
            Some(Btf::default())
        );
    }

    #[test]
    fn this_kernel_describes_itself() {
        match Btf::read(&Root::default()) {
            Some(btf) => assert!(btf.function("schedule").is_some()),
            None => println!("skipped: this kernel has no /sys/kernel/btf/vmlinux"),
        }
    }

    #[test]
    fn an_array_and_a_longer_header_are_skipped() {
        let types = [
            [0, KIND_ARRAY << 24, 0].as_slice(),
            &[1, 2, 3],
            &[NAP, KIND_TYPEDEF << 24, 1],
        ]
        .concat();
        let mut data = btf(&types);
        assert_eq!(Btf::parse(&data).unwrap().tracepoint("nap"), Some(2));
        // The header's own length is its second word.
        for length in [23_u32, 28] {
            data[4..8].copy_from_slice(&length.to_ne_bytes());
            if length == 28 {
                data.splice(24..24, [0; 4]);
            }
            let found = Btf::parse(&data).and_then(|btf| btf.tracepoint("nap"));
            assert_eq!(found, (length == 28).then_some(2), "{length} bytes");
        }
    }

    #[test]
    fn a_machines_types_are_read_from_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        assert_eq!(Btf::read(&root), None);
        let path = root.path("sys/kernel/btf/vmlinux");
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, btf(&[X, KIND_FUNC << 24, 1])).unwrap();
        assert_eq!(Btf::read(&root).unwrap().function("x"), Some(1));
    }
}
