//! Timer slack: by how much the kernel may delay the end of a thread's sleep, so that one interrupt ends several.
//!
//! It applies to sleeps and to waits with a time-out (nanosleep, select, poll, epoll_wait, futex), not to timerfd,
//! POSIX timers and real-time threads. A child inherits it, and takes it for its own default, which
//! nobody else can change: it is what the child gets back from `prctl(PR_SET_TIMERSLACK, 0)`, and when it stops being a
//! real-time thread.
//!
//! What is raised is lowered by value: threads that run when the slack is lowered may not have existed when it was raised.
//! So each run has a value of its own ([`unique`]), and only threads that have the kernel's [`DEFAULT_NS`] get it: a
//! program that chose another one meant it.

use std::collections::{BTreeSet, HashSet};
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use nix::errno::Errno;

use crate::pm_qos::FIRST_PID_NAMESPACE;
use crate::{Error, Result, Root};

/// What a thread has that nobody changed, ns.
/// Source: init/init_task.c, `INIT_TASK`.
pub const DEFAULT_NS: u64 = 50_000;

/// A value below this one, by a microsecond or a thousandth of it at most, that no thread has.
///
/// # Errors
/// If /proc cannot be read, or there is none.
pub fn unique(root: &Root, wanted_ns: u64) -> Result<u64> {
    let mut taken = BTreeSet::new();
    for file in files(&root.path("proc"))? {
        taken.extend(read(&file)?);
    }
    // Two runs that begin together begin with different ones.
    let first = u64::from(std::process::id());
    let span = (wanted_ns / 1000).max(1000);
    let mut values = (0..span).map(|nth| wanted_ns.saturating_sub(1 + (first + nth) % span));
    let free = values.find(|value| *value > DEFAULT_NS && !taken.contains(value));
    free.ok_or_else(|| Error::Cannot("no timer slack is left that no thread has".to_owned()))
}

/// The journal's name of the setting that this value is somewhere.
pub fn setting(value_ns: u64) -> String {
    format!("/proc/timer_slack@{value_ns}")
}

/// What was done with the threads of a group.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Raised {
    /// Threads that have the value now, or had it already.
    pub raised: usize,
    /// Threads with a value of their own, which keep it; real-time threads are among them, for which none applies.
    pub own: usize,
}

/// Gives the value to these threads, if they have the kernel's default. Threads that ended meanwhile are left out.
///
/// # Errors
/// If a thread's value cannot be read or written.
pub fn raise(root: &Root, threads: &[u32], value_ns: u64) -> Result<Raised> {
    let mut done = Raised::default();
    for thread in threads {
        let file = root.path(&format!("proc/{thread}/timerslack_ns"));
        match change(&file, DEFAULT_NS, value_ns)? {
            Some(true) => done.raised += 1,
            Some(false) => done.own += 1,
            None => {}
        }
    }
    Ok(done)
}

/// Gives the default back to each thread of the machine that has this value.
///
/// # Errors
/// If a thread's value cannot be written, or there are new ones with it all the time.
pub(crate) fn lower(proc: &Path, value_ns: u64) -> Result<()> {
    let started = Instant::now();
    let mut passes = 0;
    lower_while(proc, value_ns, &mut || {
        passes += 1;
        passes <= FEWEST || started.elapsed() < LONGEST
    })
}

/// `goes_on` is asked before each pass over all threads.
fn lower_while(proc: &Path, value_ns: u64, goes_on: &mut dyn FnMut() -> bool) -> Result<()> {
    // A thread that is created meanwhile inherits the value of one that was not looked at yet. One that has it again gave
    // it to itself, as any user may: the value can be read.
    let mut lowered = HashSet::new();
    let mut clean = 0;
    while goes_on() {
        let (mut found, mut ended) = (false, false);
        for file in files(proc)? {
            match read(&file)? {
                Some(present) if present == value_ns => {
                    if lowered.insert(file.clone()) {
                        found = true;
                        change(&file, value_ns, DEFAULT_NS)?;
                    }
                }
                Some(_) => {}
                None => ended = true,
            }
        }
        clean = if found { 0 } else { clean + 1 };
        if clean > 0 && !ended || clean == CLEAN {
            return Ok(());
        }
    }
    Err(Error::Failed(INHERITED.to_owned()))
}

const INHERITED: &str = "new threads inherit a raised timer slack faster than it is lowered";

/// Others wait for the journal meanwhile, and threads that have the value may start others without end.
const LONGEST: Duration = Duration::from_secs(1);

/// So many passes are made, however long they take: enough where threads end all the time.
const FEWEST: usize = CLEAN + 2;

/// A thread that ended before it was read may have had the value, and a child that inherited it. After this number of passes
/// in which no thread has the value, none is assumed to have it.
const CLEAN: usize = 10;

/// Whether /proc has all threads of the machine: in a container it has only its own.
pub(crate) fn sees_all_threads(root: &Root) -> bool {
    let namespace = fs::read_link(root.path("proc/self/ns/pid"));
    namespace.is_ok_and(|it| it.as_os_str() == FIRST_PID_NAMESPACE)
}

/// Whether a thread of the machine has this value.
pub(crate) fn has(proc: &Path, value_ns: u64) -> Result<bool> {
    for _ in 0..CLEAN {
        let mut ended = false;
        for file in files(proc)? {
            match read(&file)? {
                Some(present) if present == value_ns => return Ok(true),
                Some(_) => {}
                None => ended = true,
            }
        }
        if !ended {
            break;
        }
    }
    Ok(false)
}

/// Whether the file has the new value now; `None` if its thread has ended.
fn change(file: &Path, from_ns: u64, to_ns: u64) -> Result<Option<bool>> {
    let Some(present) = read(file)? else {
        return Ok(None);
    };
    if present != from_ns {
        return Ok(Some(present == to_ns));
    }
    match fs::OpenOptions::new()
        .write(true)
        .truncate(true)
        .open(file)
        .and_then(|mut open| std::io::Write::write_all(&mut open, to_ns.to_string().as_bytes()))
    {
        // A real-time thread takes the value and does not use it, or keeps none.
        Ok(()) => Ok(read(file)?.map(|now| now == to_ns)),
        Err(error) if has_ended(&error) => Ok(None),
        Err(error) => Err(Error::at_setting(file)(error)),
    }
}

/// `None` if the thread has ended.
fn read(file: &Path) -> Result<Option<u64>> {
    match fs::read_to_string(file) {
        Ok(text) => Ok(text.trim().parse().ok()),
        Err(error) if has_ended(&error) => Ok(None),
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
            let needs = "the timer slack of other processes: run as root (sudo), or with the capability CAP_SYS_NICE";
            Err(Error::Cannot(needs.to_owned()))
        }
        Err(error) => Err(Error::at_setting(file)(error)),
    }
}

fn has_ended(error: &std::io::Error) -> bool {
    let ended = [Errno::ENOENT, Errno::ESRCH].map(|errno| Some(errno as i32));
    ended.contains(&error.raw_os_error())
}

/// The file of each thread of the machine.
fn files(proc: &Path) -> Result<Vec<std::path::PathBuf>> {
    let mut all = Vec::new();
    for process in fs::read_dir(proc).map_err(Error::at(proc))? {
        let process = process.map_err(Error::at(proc))?;
        let is_number = |name: &std::ffi::OsStr| {
            let name = name.as_encoded_bytes();
            !name.is_empty() && name.iter().all(u8::is_ascii_digit)
        };
        if !is_number(&process.file_name()) {
            continue;
        }
        // Ended meanwhile.
        let Ok(threads) = fs::read_dir(process.path().join("task")) else {
            continue;
        };
        let threads = threads.filter_map(|thread| Some(thread.ok()?.file_name()));
        // Only below /proc itself do threads have this file.
        all.extend(threads.map(|thread| proc.join(thread).join("timerslack_ns")));
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A made-up /proc: processes with their threads and slack.
    fn with(threads: &[(u32, u32, u64)]) -> (tempfile::TempDir, Root) {
        let folder = tempfile::tempdir().unwrap();
        for (process, thread, slack) in threads {
            let proc = folder.path().join("proc");
            fs::create_dir_all(proc.join(format!("{process}/task/{thread}"))).unwrap();
            fs::create_dir_all(proc.join(thread.to_string())).unwrap();
            fs::write(
                proc.join(format!("{thread}/timerslack_ns")),
                slack.to_string(),
            )
            .unwrap();
        }
        let root = Root::at(folder.path());
        (folder, root)
    }

    fn slack(root: &Root, thread: u32) -> u64 {
        root.number(&format!("proc/{thread}/timerslack_ns"))
            .unwrap()
    }

    #[test]
    fn a_value_is_one_that_no_thread_has() {
        let first = {
            let (_folder, root) = with(&[(7, 7, 50_000)]);
            unique(&root, 10_000_000).unwrap()
        };
        assert!((9_990_000..10_000_000).contains(&first), "{first}");
        let (_folder, root) = with(&[(7, 7, first)]);
        assert_ne!(unique(&root, 10_000_000).unwrap(), first);
        let (_folder, root) = with(&[(7, 7, 50_000)]);
        assert!(unique(&root, 50_000).is_err());
    }

    #[test]
    fn a_thread_that_keeps_giving_itself_the_value_is_lowered_once() {
        let (folder, root) = with(&[(7, 7, 99_500)]);
        let file = root.path("proc/7/timerslack_ns");
        let mut passes = 0;
        let lowered = lower_while(&folder.path().join("proc"), 99_500, &mut || {
            fs::write(&file, "99500").unwrap();
            passes += 1;
            passes <= 5
        });
        assert!(lowered.is_ok());
        assert_eq!(passes, 2);
    }

    #[test]
    fn new_threads_that_inherit_the_value_are_not_lowered_for_ever() {
        let (folder, root) = with(&[(7, 7, 99_500)]);
        let mut passes = 0;
        let lowered = lower_while(&folder.path().join("proc"), 99_500, &mut || {
            passes += 1;
            let thread = 100 + passes;
            fs::create_dir_all(root.path(&format!("proc/7/task/{thread}"))).unwrap();
            let file = root.path(&format!("proc/{thread}/timerslack_ns"));
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, "99500").unwrap();
            passes <= 5
        });
        assert!(lowered.is_err());
        assert_eq!(passes, 6);
    }

    #[test]
    fn only_the_default_is_raised_and_only_that_value_is_lowered_wherever_it_went() {
        let (folder, root) = with(&[(7, 7, 50_000), (7, 8, 1), (9, 9, 50_000), (9, 10, 99_000)]);
        let proc = folder.path().join("proc");
        let done = raise(&root, &[7, 8, 4711], 99_500).unwrap();
        assert_eq!(done, Raised { raised: 1, own: 1 });
        assert_eq!(
            [7, 8, 9, 10].map(|one| slack(&root, one)),
            [99_500, 1, 50_000, 99_000]
        );
        assert!(has(&proc, 99_500).unwrap());
        // A child that was never raised has it by inheritance.
        fs::create_dir_all(proc.join("11/task/11")).unwrap();
        fs::write(proc.join("11/timerslack_ns"), "99500\n").unwrap();
        lower(&proc, 99_500).unwrap();
        assert!(!has(&proc, 99_500).unwrap());
        assert_eq!(
            [7, 8, 9, 10, 11].map(|one| slack(&root, one)),
            [50_000, 1, 50_000, 99_000, 50_000]
        );
    }
}
