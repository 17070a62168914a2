//! Wakers' stacks as folded lines, which flame graphs are drawn from: frames from the outermost to
//! the innermost, and the µs that was waited for what they woke.
//!
//! A process may be gone when its stacks are named, so the maps of its memory are read while it
//! lives; names come from the files' symbols.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::path::PathBuf;

use blazesym::symbolize::source::{Elf, Kernel, Source};
use blazesym::symbolize::{Input, Symbolized, Symbolizer};
use reveille_machine::Root;

use super::tallies::{Cause, StackSums};

/// A part of a process's memory that is code of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Mapping {
    start: u64,
    end: u64,
    offset: u64,
    file: PathBuf,
}

/// The code that processes have in memory, as it was seen last.
#[derive(Debug, Default)]
pub struct Maps(HashMap<u32, Vec<Mapping>>);

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
            if !mappings.is_empty() {
                self.0.insert(*process, mappings);
            }
        }
    }

    fn find(&self, process: u32, address: u64) -> Option<&Mapping> {
        let mut mappings = self.0.get(&process)?.iter();
        mappings.find(|mapping| (mapping.start..mapping.end).contains(&address))
    }
}

/// A line of /proc/PID/maps, if it is of code in a file (proc_pid_maps(5)).
fn mapping(line: &str) -> Option<Mapping> {
    let mut fields = line.splitn(6, ' ');
    let (start, end) = fields.next()?.split_once('-')?;
    let access = fields.next()?;
    let offset = fields.next()?;
    let file = fields.nth(2)?.trim();
    let number = |text| u64::from_str_radix(text, 16).ok();
    (access.contains('x') && file.starts_with('/')).then_some(())?;
    Some(Mapping {
        start: number(start)?,
        end: number(end)?,
        offset: number(offset)?,
        file: PathBuf::from(file),
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
    let Some(mapping) = maps.find(process, address) else {
        return format!("{address:#x}");
    };
    let offset = address - mapping.start + mapping.offset;
    let source = Source::Elf(Elf::new(&mapping.file));
    match symbolizer.symbolize_single(&source, Input::FileOffset(offset)) {
        Ok(Symbolized::Sym(symbol)) => symbol.name.into_owned(),
        _ => {
            let name = mapping.file.file_name().unwrap_or_default();
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
        assert_eq!(found.file, PathBuf::from("/usr/lib/a b.so"));
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
}
