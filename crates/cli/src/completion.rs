//! Completion by Tab: a shell's script runs this program, which lists the candidates.
//!
//! It reads /sys, /proc and names of files, of the machine of `--root` if the line has that. It needs no
//! root, changes nothing and prints no error.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{env, fs, io};

use clap_complete::Shell;
use clap_complete::engine::{
    ArgValueCandidates, ArgValueCompleter, CompletionCandidate, PathCompleter, ValueCompleter,
};
use clap_complete::env::{CompleteEnv, Shells};
use reveille_anticipate::BlockDevice;
use reveille_kernel::{Idle, Root, cpulist, network};
use reveille_show::terminal;

/// The shell that asks. clap's default name, `COMPLETE`, may be in use by other programs.
const VARIABLE: &str = "REVEILLE_COMPLETE";

/// Answers a completion request; `None` if there is none.
pub fn answer(command: fn() -> clap::Command) -> Option<ExitCode> {
    env::var_os(VARIABLE)?;
    // A panic must not write to the command line.
    std::panic::set_hook(Box::new(|_| ()));
    let folder = env::current_dir().ok();
    let completed = CompleteEnv::with_factory(command)
        .var(VARIABLE)
        .try_complete(env::args_os(), folder.as_deref());
    match completed {
        Ok(true) => Some(ExitCode::SUCCESS),
        Ok(false) => None,
        Err(_) => Some(ExitCode::FAILURE),
    }
}

/// The parts of clap's scripts that [`script`] replaces.
const ZSH_REGISTERS: &str = "compdef _clap_dynamic_completer_reveille reveille";
const FISH_ASKS: &str = "--current-token))\"";

/// The script that makes a shell ask.
pub fn script(shell: Shell) -> io::Result<String> {
    const NAME: &str = "reveille";
    if shell == Shell::Bash {
        // clap's script splits at `=`, and does not quote.
        return Ok(include_str!("completion/reveille.bash").to_owned());
    }
    let name = shell.to_string();
    let shells = Shells::builtins();
    let asks = shells.completer(&name).ok_or(io::ErrorKind::NotFound)?;
    let mut text = Vec::new();
    asks.write_registration(VARIABLE, NAME, NAME, NAME, &mut text)?;
    let text = String::from_utf8_lossy(&text);
    Ok(match shell {
        // zsh sources this file at the first Tab: complete at once.
        Shell::Zsh => text.replace(
            ZSH_REGISTERS,
            "if [[ $funcstack[1] == _reveille ]]; then\n    \
             _clap_dynamic_completer_reveille\nelse\n    \
             compdef _clap_dynamic_completer_reveille reveille\nfi",
        ),
        // Print nothing if the program is not in PATH.
        Shell::Fish => text.replace(FISH_ASKS, "--current-token) 2>/dev/null)\""),
        _ => text.into_owned(),
    })
}

/// The words that are completed, with the program's name.
fn words() -> Vec<OsString> {
    env::args_os()
        .skip_while(|word| word != "--")
        .skip(1)
        .collect()
}

/// The machine of `--root` in these words.
fn root(words: &[OsString]) -> Root {
    let folder = words
        .iter()
        .enumerate()
        .find_map(|(at, word)| match word.to_str()? {
            "--root" => words.get(at + 1).cloned(),
            word => word.strip_prefix("--root=").map(OsString::from),
        });
    folder.map_or_else(Root::default, Root::at)
}

fn idle() -> Option<Idle> {
    Idle::read(&root(&words())).ok()
}

/// Names from a list.
pub fn names<T: ToString, I: IntoIterator<Item = T>>(
    all: impl Fn() -> I + Send + Sync + 'static,
) -> ArgValueCandidates {
    let candidate = |name: T| CompletionCandidate::new(name.to_string());
    ArgValueCandidates::new(move || all().into_iter().map(candidate).collect())
}

fn state_names() -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    let cpus = idle().map_or_else(Vec::new, |idle| idle.cpus);
    for state in cpus.into_iter().flat_map(|cpu| cpu.states) {
        if !names.contains(&state.name) {
            names.push(state.name);
        }
    }
    names
}

/// Names of idle states, of all CPUs together.
pub fn states() -> ArgValueCandidates {
    names(state_names)
}

/// The settings that a trial compares by default.
pub fn settings() -> ArgValueCandidates {
    names(|| {
        let others = ["no-sleep", "as-is"].map(str::to_owned);
        state_names().into_iter().chain(others)
    })
}

/// A CPU that is online.
pub fn cpu() -> ArgValueCandidates {
    names(|| {
        let cpus = idle().map_or_else(Vec::new, |idle| idle.cpus);
        let online = cpus.into_iter().filter(|cpu| cpu.online);
        online.map(|cpu| cpu.number).collect::<Vec<_>>()
    })
}

/// The last CPU of a list such as 0-3,8.
pub fn cpus() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| {
        let list = current.to_string_lossy();
        let all: Vec<u32> = idle().map_or_else(Vec::new, |idle| {
            idle.cpus.iter().map(|cpu| cpu.number).collect()
        });
        let candidates = continued(&list, &all);
        candidates
            .into_iter()
            .map(CompletionCandidate::new)
            .collect::<Vec<_>>()
    })
}

/// Completes the last number of the list.
fn continued(list: &str, all: &[u32]) -> Vec<String> {
    let (before, last) = list.split_at(list.rfind([',', '-']).map_or(0, |at| at + 1));
    let named = cpulist::parse(before.trim_end_matches([',', '-'])).unwrap_or_default();
    let range = before.strip_suffix('-');
    let first = range.and_then(|list| list.rsplit(',').next()?.parse::<u32>().ok());
    let fits = |cpu: &&u32| {
        !named.contains(cpu)
            && first.is_none_or(|first| **cpu > first)
            && cpu.to_string().starts_with(last)
    };
    let fitting = all.iter().filter(fits);
    fitting.map(|cpu| format!("{before}{cpu}")).collect()
}

/// A network interface.
pub fn interfaces() -> ArgValueCandidates {
    names(|| network::names(&Root::default()))
}

/// A disk.
pub fn disks() -> ArgValueCandidates {
    names(|| {
        BlockDevice::all(&Root::default())
            .into_iter()
            .map(|disk| disk.name)
    })
}

/// A result of `measure` or of wult, and the folders on the way to one.
pub fn results() -> ArgValueCompleter {
    ArgValueCompleter::new(PathCompleter::any().filter(reveille_results::looks_like_result))
}

/// As [`results`], or JSON, or results of other commands.
pub fn kept(is_kept: fn(&Path) -> bool) -> ArgValueCompleter {
    let is_wanted = move |path: &Path| {
        let is_json = path
            .extension()
            .is_some_and(|extension| extension == "json");
        is_json || is_kept(path) || reveille_results::looks_like_result(path)
    };
    ArgValueCompleter::new(PathCompleter::any().filter(is_wanted))
}

/// A file of this name, and folders that have one.
pub fn kept_as(name: &'static str) -> ArgValueCompleter {
    let is_wanted = move |path: &Path| {
        path.file_name().is_some_and(|file| file == name) || path.join(name).is_file()
    };
    ArgValueCompleter::new(PathCompleter::any().filter(is_wanted))
}

/// A cgroup's path in cgroup2.
pub fn cgroups() -> ArgValueCompleter {
    ArgValueCompleter::new(PathCompleter::dir().current_dir("/sys/fs/cgroup"))
}

/// Processes with their names, except kernel threads.
pub fn processes() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        let process = |entry: fs::DirEntry| {
            let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
            fs::read(entry.path().join("cmdline"))
                .ok()
                .filter(|words| !words.is_empty())?;
            let name = fs::read_to_string(entry.path().join("comm")).ok()?;
            Some((pid, terminal::shown(name.trim_end()).into_owned()))
        };
        let mut processes: Vec<_> = entries.filter_map(process).collect();
        processes.sort_unstable();
        let candidate = |(pid, name): (u32, String)| {
            CompletionCandidate::new(pid.to_string()).help(Some(name.into()))
        };
        processes.into_iter().map(candidate).collect()
    })
}

/// A user of this machine.
pub fn users() -> ArgValueCandidates {
    names(|| {
        let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
        let name = |line: &str| Some(line.split_once(':')?.0.to_owned());
        users.lines().filter_map(name).collect::<Vec<_>>()
    })
}

/// A command after `--`: a program, then files.
pub fn command() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| {
        let mut found = PathCompleter::any().complete(current);
        let words = words();
        // fish completes the last word.
        let at = env::var("_CLAP_COMPLETE_INDEX")
            .ok()
            .and_then(|at| at.parse().ok());
        let at = at.unwrap_or(words.len().saturating_sub(1));
        if at > 0 && words.get(at - 1).is_some_and(|before| before == "--") {
            found.extend(
                programs(&current.to_string_lossy())
                    .into_iter()
                    .map(CompletionCandidate::new),
            );
        }
        found
    })
}

/// The programs in PATH whose names begin so.
fn programs(start: &str) -> Vec<String> {
    let folders: Vec<PathBuf> =
        env::var_os("PATH").map_or_else(Vec::new, |path| env::split_paths(&path).collect());
    let entries = folders
        .iter()
        .filter_map(|folder| fs::read_dir(folder).ok())
        .flatten()
        .flatten();
    let mut names: Vec<String> = entries
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| name.starts_with(start))
        .collect();
    names.sort_unstable();
    names.dedup();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claps_scripts_have_the_parts_that_are_replaced() {
        let zsh = script(Shell::Zsh).unwrap();
        assert!(
            zsh.contains(&format!("else\n    {ZSH_REGISTERS}\nfi")),
            "{zsh}"
        );
        let fish = script(Shell::Fish).unwrap();
        assert!(fish.contains("--current-token) 2>/dev/null)\""), "{fish}");
    }
}
