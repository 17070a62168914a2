//! What only the program `reveille-services` does, and how `reveille` becomes it.

#[cfg(feature = "services")]
pub mod here;

use std::ffi::{CString, OsString};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;

use crate::exit::Failure;
use crate::{govern, stage};

/// The program's name.
const NAME: &str = "reveille-services";

/// What `reveille-services` does.
pub struct Serving {
    /// Holds latency by rules, until a signal ends it.
    pub govern: fn(govern::Serve) -> anyhow::Result<ExitCode>,
    /// Serves, or compares.
    pub stage: fn(stage::Args) -> anyhow::Result<ExitCode>,
    /// Has the service hold a bound on these CPUs (`None`: all), in µs, for that reason.
    pub hold: fn(Option<&[u32]>, u32, &str) -> reveille_kernel::Result<OwnedFd>,
}

/// Becomes `reveille-services` with the same arguments: the same process, with its signals, its descriptors and
/// what systemd told it. Returns only if that fails.
///
/// It is looked for beside this program, where it is built, and in libexec, where it is installed, and nowhere else:
/// root must not run what PATH names.
pub fn replace() -> anyhow::Error {
    let program = match find() {
        Ok(program) => program,
        Err(error) => return error,
    };
    let words: Vec<CString> = std::env::args_os().filter_map(of_system).collect();
    let path = of_system(program.clone().into_os_string()).expect("a path has no 0");
    let Err(error) = nix::unistd::execv(&path, &words);
    Failure::cannot(format!("{}: {error}", program.display()))
}

fn of_system(word: OsString) -> Option<CString> {
    CString::new(word.into_vec()).ok()
}

fn find() -> anyhow::Result<PathBuf> {
    let own = std::env::current_exe().context("/proc/self/exe")?;
    let beside = own.parent().unwrap_or(Path::new("/"));
    let libexec = beside.parent().unwrap_or(beside).join("libexec");
    let mut places = [beside, &libexec]
        .map(|folder| folder.join(NAME))
        .into_iter();
    places.find(|place| place.is_file()).ok_or_else(|| {
        Failure::cannot(format!(
            "this needs the program {NAME}, which is neither in {} nor in {}; `make build` builds it",
            beside.display(),
            libexec.display()
        ))
    })
}
