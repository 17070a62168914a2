//! Wakers' stacks as folded lines for flame graphs: frames from the outermost to the innermost, and
//! the waiting time of the tasks that they woke, µs.
//!
//! A process may have ended when its stacks are symbolized, and may have its own mount namespace,
//! in which a path is another file. So its memory maps are read and its mapped files opened while it
//! lives.

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

/// A mapping of a file's code in a process's memory.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Mapping {
    start: u64,
    end: u64,
    offset: u64,
    /// From /proc/PID/maps. They do not identify a file: btrfs shows one device for all its
    /// subvolumes, each of which has its own inode numbers.
    device: String,
    inode: u64,
    /// The path in the process's mount namespace, which may be another file here.
    name: PathBuf,
}

/// A mapping, and its file if it could be opened.
type Opened = (Mapping, Option<Rc<File>>);

/// The code mappings of processes, at the last look.
#[derive(Debug, Default)]
pub struct Maps {
    processes: HashMap<u32, Vec<Opened>>,
    /// Each file once, by its device and inode from stat(2).
    files: HashMap<(u64, u64), Rc<File>>,
}

impl Maps {
    /// Reads the maps of living processes.
    pub fn look(&mut self, root: &Root, processes: &[u32]) {
        for process in processes {
            let text = root.text(&format!("proc/{process}/maps"));
            let mappings: Vec<Mapping> = text
                .iter()
                .flat_map(|t| t.lines())
                .filter_map(mapping)
                .collect();
            // Ended processes and kernel threads have none.
            if mappings.is_empty() {
                continue;
            }
            let before = self.processes.remove(process).unwrap_or_default();
            let opened = |mapping: Mapping| {
                let same = before.iter().find(|(seen, _)| *seen == mapping);
                // Files that could not be opened are tried again.
                let file = same.and_then(|(_, file)| file.clone());
                let file = file.or_else(|| self.kept(open(root, *process, &mapping)?));
                (mapping, file)
            };
            let opened = mappings.into_iter().map(opened).collect();
            self.processes.insert(*process, opened);
        }
    }

    /// One descriptor per file, for any number of processes.
    fn kept(&mut self, file: File) -> Option<Rc<File>> {
        let metadata = file.metadata().ok()?;
        let number = (metadata.dev(), metadata.ino());
        let kept = self.files.entry(number).or_insert_with(|| Rc::new(file));
        Some(kept.clone())
    }

    /// The number of mapped files that could not be opened: their functions have no names.
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

/// Opens the file that a process has mapped, even if its path differs here or it was removed.
fn open(root: &Root, process: u32, mapping: &Mapping) -> Option<File> {
    let Mapping { start, end, .. } = mapping;
    let mapped = format!("proc/{process}/map_files/{start:x}-{end:x}");
    let regular = |path: &Path| {
        // Do not block, whatever the process has put there.
        let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(flags)
            .open(path)
            .ok()?;
        file.metadata().ok()?.is_file().then_some(file)
    };
    // Needs CAP_CHECKPOINT_RESTORE, and not every kernel has it.
    regular(&root.path(&mapped)).or_else(|| {
        let seen = format!("proc/{process}/root{}", mapping.name.display());
        let file = regular(&root.path(&seen))?;
        (file.metadata().ok()?.ino() == mapping.inode).then_some(file)
    })
}

/// Parses a line of /proc/PID/maps, if it is code of a file (proc_pid_maps(5)).
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

/// The stacks as folded lines; a function without a name is shown by its file, or by its address.
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
        // Semicolons separate frames.
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
    // By descriptor: the path may be another file here.
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

/// Frames of the BPF program itself.
fn is_ours(frame: &str) -> bool {
    frame.starts_with("bpf_trace_run") || frame.starts_with("bpf_prog_")
}

/// Flame graphs colour the kernel's frames by the suffix `_[k]`.
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
    fn a_stack_is_a_line_from_the_outermost_frame_to_the_woken_task() {
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

    /// A recorded process that has this program mapped at the same addresses, as inode 257 of 00:27.
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

    /// The mapping of this program's code, and an address in it.
    fn own_mapping() -> (Mapping, u64) {
        let (mut maps, this) = (Maps::default(), std::process::id());
        maps.look(&Root::default(), &[this]);
        let address = fold as *const () as u64;
        (maps.find(this, address).unwrap().0.clone(), address)
    }

    /// As on two subvolumes of btrfs that each have an inode 257.
    #[test]
    fn two_files_with_the_same_inode_in_maps_are_distinguished() {
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
        // Process 1 ends before its file is opened; the others have the same file.
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

    /// As in a container: the path of the mapped file is another file here.
    #[test]
    fn a_function_has_its_name_even_if_its_path_is_another_file_here() {
        const CHILD: &str = "REVEILLE_TEST_IS_THE_CHILD";
        let test = "a_function_has_its_name_even_if_its_path_is_another_file_here";
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
            return println!("skipped: {test}: no mount namespace: {refused:?}");
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
