//! Wakers' stacks as folded lines, which flame graphs are drawn from: frames from the outermost to
//! the innermost, and the µs that was waited for what they woke.
//!
//! A process may be gone when its stacks are named, and may have been in a mount namespace of its own,
//! where a path is another file. So the maps of its memory are read while it lives, and the files are
//! opened that it has mapped; names come from their symbols.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use blazesym::symbolize::source::{Elf, Kernel, Source};
use blazesym::symbolize::{Input, Symbolized, Symbolizer};
use nix::libc;
use reveille_kernel::Root;

use super::tallies::{Cause, StackSums};

/// A part of a process's memory that is code of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Mapping {
    start: u64,
    end: u64,
    offset: u64,
    /// As /proc/PID/maps has them: not of one file alone, for btrfs shows the device of all its
    /// subvolumes, and each of these numbers its files by itself.
    device: String,
    inode: u64,
    /// As the process sees it: a name, and no way to the file.
    name: PathBuf,
}

/// What a process has mapped, and that file where it could be opened.
type Opened = (Mapping, Option<Rc<File>>);

/// The code that processes have in memory, as it was seen last.
#[derive(Debug, Default)]
pub struct Maps {
    processes: HashMap<u32, Vec<Opened>>,
    /// Each file once, by the device and inode that stat(2) tells of it.
    files: HashMap<(u64, u64), Rc<File>>,
}

impl Maps {
    /// Reads the maps of processes that live.
    pub fn look(&mut self, root: &Root, processes: &[u32]) {
        for process in processes {
            let text = root.text(&format!("proc/{process}/maps"));
            let mappings: Vec<Mapping> = text
                .iter()
                .flat_map(|t| t.lines())
                .filter_map(mapping)
                .collect();
            // What has ended, or is a kernel thread, has none.
            if mappings.is_empty() {
                continue;
            }
            let before = self.processes.remove(process).unwrap_or_default();
            let opened = |mapping: Mapping| {
                let same = before.iter().find(|(seen, _)| *seen == mapping);
                // What could not be opened is tried again.
                let file = same.and_then(|(_, file)| file.clone());
                let file = file.or_else(|| self.kept(open(root, *process, &mapping)?));
                (mapping, file)
            };
            let opened = mappings.into_iter().map(opened).collect();
            self.processes.insert(*process, opened);
        }
    }

    /// One descriptor for each file, however many processes have mapped it.
    fn kept(&mut self, file: File) -> Option<Rc<File>> {
        let metadata = file.metadata().ok()?;
        let number = (metadata.dev(), metadata.ino());
        let kept = self.files.entry(number).or_insert_with(|| Rc::new(file));
        Some(kept.clone())
    }

    /// How many of the files that processes had mapped at the last look could not be opened: their
    /// functions have no names.
    pub fn unopened(&self) -> usize {
        let mapped = self.processes.values().flatten();
        let unopened = mapped.filter(|(_, file)| file.is_none());
        let names: HashSet<&Path> = unopened
            .map(|(mapping, _)| mapping.name.as_path())
            .collect();
        names.len()
    }

    fn find(&self, process: u32, address: u64) -> Option<&Opened> {
        let mut mappings = self.processes.get(&process)?.iter();
        mappings.find(|(mapping, _)| (mapping.start..mapping.end).contains(&address))
    }
}

/// The file that a process has mapped, whatever its path is here, and though it was removed.
fn open(root: &Root, process: u32, mapping: &Mapping) -> Option<File> {
    let Mapping { start, end, .. } = mapping;
    let mapped = format!("proc/{process}/map_files/{start:x}-{end:x}");
    let regular = |path: &Path| {
        // Whatever the process may have put there: nothing is waited for.
        let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(flags)
            .open(path)
            .ok()?;
        file.metadata().ok()?.is_file().then_some(file)
    };
    // Not for everyone who may follow (CAP_CHECKPOINT_RESTORE), nor in every kernel.
    regular(&root.path(&mapped)).or_else(|| {
        let seen = format!("proc/{process}/root{}", mapping.name.display());
        let file = regular(&root.path(&seen))?;
        (file.metadata().ok()?.ino() == mapping.inode).then_some(file)
    })
}

/// A line of /proc/PID/maps, if it is of code in a file (proc_pid_maps(5)).
fn mapping(line: &str) -> Option<Mapping> {
    let mut fields = line.splitn(6, ' ');
    let (start, end) = fields.next()?.split_once('-')?;
    let access = fields.next()?;
    let offset = fields.next()?;
    let (device, inode) = (fields.next()?, fields.next()?);
    let name = fields.next()?.trim();
    let number = |text| u64::from_str_radix(text, 16).ok();
    (access.contains('x') && name.starts_with('/')).then_some(())?;
    Some(Mapping {
        start: number(start)?,
        end: number(end)?,
        offset: number(offset)?,
        device: device.to_owned(),
        inode: inode.parse().ok()?,
        name: PathBuf::from(name),
    })
}

/// The stacks as folded lines; a frame whose function has no name is called by its file, or by its
/// address.
pub fn fold(stacks: &[StackSums], maps: &Maps) -> String {
    let symbolizer = Symbolizer::new();
    let mut text = String::new();
    for stack in stacks {
        let waker = match stack.pair.cause {
            Cause::Task => stack.pair.waker.clone(),
            Cause::Timer => "[timer]".to_owned(),
            Cause::Device(irq) => format!("[irq {irq}]"),
            Cause::Call => "[another CPU]".to_owned(),
            Cause::Other => "[interrupt]".to_owned(),
        };
        let mut frames = vec![waker];
        let user = stack.user.iter().rev();
        frames.extend(user.map(|address| user_frame(&symbolizer, maps, stack.process, *address)));
        let kernel = stack.kernel.iter().rev();
        let kernel = kernel.map(|address| kernel_frame(&symbolizer, *address));
        frames.extend(kernel.take_while(|frame| !is_ours(frame)));
        frames.push(format!("wakes {}", stack.pair.wakee));
        // A semicolon parts frames, and a space the figure.
        let frames: Vec<String> = frames.iter().map(|frame| frame.replace(';', ":")).collect();
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{} {}", frames.join(";"), stack.waited_ns / 1000);
    }
    text
}

fn user_frame(symbolizer: &Symbolizer, maps: &Maps, process: u32, address: u64) -> String {
    let Some((mapping, file)) = maps.find(process, address) else {
        return format!("{address:#x}");
    };
    let offset = address - mapping.start + mapping.offset;
    // By its descriptor: a path may lead elsewhere here.
    let source = file
        .as_ref()
        .map(|file| Source::Elf(Elf::new(format!("/proc/self/fd/{}", file.as_raw_fd()))));
    let found = source
        .as_ref()
        .map(|source| symbolizer.symbolize_single(source, Input::FileOffset(offset)));
    match found {
        Some(Ok(Symbolized::Sym(symbol))) => symbol.name.into_owned(),
        _ => {
            let name = mapping.name.file_name().unwrap_or_default();
            format!("[{}]", name.to_string_lossy())
        }
    }
}

/// From here on it is the instrument: how the kernel calls its program.
fn is_ours(frame: &str) -> bool {
    frame.starts_with("bpf_trace_run") || frame.starts_with("bpf_prog_")
}

/// Flame graphs colour the kernel's frames by this ending.
fn kernel_frame(symbolizer: &Symbolizer, address: u64) -> String {
    match symbolizer.symbolize_single(&Source::Kernel(Kernel::default()), Input::AbsAddr(address)) {
        Ok(Symbolized::Sym(symbol)) => format!("{}_[k]", symbol.name),
        _ => format!("{address:#x}_[k]"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tallies::Pair;
    use super::*;

    #[test]
    fn code_of_files_is_found_by_its_address() {
        let line = "7f0000001000-7f0000003000 r-xp 00002000 fe:00 1234    /usr/lib/a b.so";
        let found = mapping(line).unwrap();
        assert_eq!(
            (found.start, found.end, found.offset),
            (0x7f0000001000, 0x7f0000003000, 0x2000)
        );
        assert_eq!(found.name, PathBuf::from("/usr/lib/a b.so"));
        assert_eq!((found.device.as_str(), found.inode), ("fe:00", 1234));
        for other in [
            "7f0000001000-7f0000003000 rw-p 00002000 fe:00 1234    /usr/lib/a.so",
            "7ffc00001000-7ffc00003000 r-xp 00000000 00:00 0       [vdso]",
            "7ffc00001000-7ffc00003000 r-xp 00000000 00:00 0 ",
            "",
        ] {
            assert_eq!(mapping(other), None, "{other}");
        }
    }

    #[test]
    fn a_stack_is_a_line_from_the_outermost_frame_to_what_it_wakes() {
        let stack = StackSums {
            pair: Pair {
                waker: "a;b".to_owned(),
                wakee: "worker".to_owned(),
                cause: Cause::Task,
            },
            process: 1,
            place: 0,
            kernel: Vec::new(),
            user: vec![0x20, 0x10],
            wakeups: 3,
            waited_ns: 45_678,
        };
        assert_eq!(
            fold(&[stack], &Maps::default()),
            "a:b;0x10;0x20;wakes worker 45\n"
        );
    }

    #[test]
    fn a_function_of_this_program_has_its_name() {
        let mut maps = Maps::default();
        let this = std::process::id();
        maps.look(&Root::default(), &[this]);
        let address = fold as *const () as u64;
        let frame = user_frame(&Symbolizer::new(), &maps, this, address);
        assert!(frame.contains("fold"), "{frame}");
    }

    /// A recorded process that has this program mapped at its own place, by number 00:27 257.
    fn record(root: &std::path::Path, process: u32, own: &Mapping) {
        let folder = root.join(format!("proc/{process}/map_files"));
        std::fs::create_dir_all(&folder).unwrap();
        let Mapping {
            start, end, offset, ..
        } = own;
        let line = format!("{start:x}-{end:x} r-xp {offset:08x} 00:27 257 /usr/bin/program\n");
        std::fs::write(folder.with_file_name("maps"), line).unwrap();
    }

    fn is_mapped(root: &std::path::Path, process: u32, own: &Mapping, file: &Path) {
        let folder = root.join(format!("proc/{process}/map_files"));
        let name = format!("{:x}-{:x}", own.start, own.end);
        std::os::unix::fs::symlink(file, folder.join(name)).unwrap();
    }

    /// Where this program's own code is, and an address in it.
    fn own_mapping() -> (Mapping, u64) {
        let (mut maps, this) = (Maps::default(), std::process::id());
        maps.look(&Root::default(), &[this]);
        let address = fold as *const () as u64;
        (maps.find(this, address).unwrap().0.clone(), address)
    }

    /// As of two subvolumes of btrfs, of which each has a file 257.
    #[test]
    fn two_files_of_one_number_in_maps_are_two() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        let (own, address) = own_mapping();
        let this = std::env::current_exe().unwrap();
        for (process, file) in [(1, Path::new("/bin/sh")), (2, &this)] {
            record(folder.path(), process, &own);
            is_mapped(folder.path(), process, &own, file);
        }
        let mut maps = Maps::default();
        maps.look(&root, &[1, 2]);
        let frame = |process| user_frame(&Symbolizer::new(), &maps, process, address);
        assert!(frame(2).contains("fold"), "{}", frame(2));
        assert!(!frame(1).contains("fold"), "{}", frame(1));
        assert_eq!(maps.unopened(), 0);
    }

    #[test]
    fn a_file_that_could_not_be_opened_is_tried_again() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        let (own, address) = own_mapping();
        let this = std::env::current_exe().unwrap();
        let mut maps = Maps::default();
        // The one ends before its file is opened; the others have the same one.
        for process in 1..=3 {
            record(folder.path(), process, &own);
        }
        maps.look(&root, &[1, 2]);
        is_mapped(folder.path(), 2, &own, &this);
        is_mapped(folder.path(), 3, &own, &this);
        maps.look(&root, &[2, 3]);
        for process in [2, 3] {
            let frame = user_frame(&Symbolizer::new(), &maps, process, address);
            assert!(frame.contains("fold"), "{process}: {frame}");
        }
        assert_eq!((maps.files.len(), maps.unopened()), (1, 1));
    }

    /// As in a container: what the process has mapped is another file here.
    #[test]
    fn a_function_has_its_name_where_its_file_is_another_one_by_its_path_here() {
        const CHILD: &str = "REVEILLE_TEST_IS_THE_CHILD";
        let test = "a_function_has_its_name_where_its_file_is_another_one_by_its_path_here";
        if std::env::var_os(CHILD).is_some() {
            // Until it is killed, or the other one has ended.
            let _ = std::io::Read::read(&mut std::io::stdin(), &mut [0]);
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let [here, this] = [
            folder.path().join("program"),
            std::env::current_exe().unwrap(),
        ];
        std::fs::copy("/bin/sh", &here).unwrap();
        let child = std::process::Command::new("unshare")
            .args([
                "--mount",
                "sh",
                "-c",
                "mount --bind \"$1\" \"$0\" && exec \"$0\" --exact \"$2\"",
            ])
            .args([&here, &this])
            .arg(format!("cost::stacks::tests::{test}"))
            .env(CHILD, "1")
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::null())
            .spawn();
        let mut child = match child {
            Ok(child) => child,
            Err(error) => return println!("skipped: {test}: unshare: {error}"),
        };
        let mapped = || {
            let maps = std::fs::read_to_string(format!("/proc/{}/maps", child.id()));
            let maps = maps.unwrap_or_default();
            let mut code = maps.lines().filter_map(mapping);
            code.find(|mapping| mapping.name == here)
        };
        let mut there = None;
        for _ in 0..3000 {
            there = mapped();
            if there.is_some() {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        let own = std::process::id();
        let [maps, own_maps] = [child.id(), own].map(|process| {
            let mut maps = Maps::default();
            maps.look(&Root::default(), &[process]);
            maps
        });
        let refused = child.try_wait().unwrap();
        drop(child.stdin.take());
        let _ = child.kill();
        child.wait().unwrap();
        let Some(there) = there else {
            return println!("skipped: {test}: no mount namespace to be had: {refused:?}");
        };
        // The same program has the same function at the same place of its file.
        let address = fold as *const () as u64;
        let (mapping, _) = own_maps.find(own, address).unwrap();
        let offset = address - mapping.start + mapping.offset;
        let ran_from = there.start + (offset - there.offset);
        assert!(std::fs::read(&here).unwrap() != std::fs::read(&this).unwrap());
        let frame = user_frame(&Symbolizer::new(), &maps, child.id(), ran_from);
        assert!(frame.contains("fold"), "{frame}");
    }
}
