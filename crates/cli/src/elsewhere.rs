//! `--host`: the same command on other machines, and what came of it.

use std::fmt::Display;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

use reveille_elsewhere::{Ended, Frame, Host, Near, Program, Received, Request, far};
use reveille_results::ResultFolder;
use reveille_results::output::Folder;
use reveille_show::progress::{Bars, Step};
use reveille_show::terminal::{self, STRONG};
use serde::de::{DeserializeOwned, IgnoredAny};

use crate::exit::{self, Failure};
use crate::flags::{folder_of, naming, one_name};
use crate::signals;

/// On which machines.
#[derive(clap::Args)]
pub struct Elsewhere {
    /// Run on another machine, by ssh: HOST, USER@HOST, or a name in ssh's configuration; may be repeated
    #[arg(long, value_name = "HOST", value_parser = clap::value_parser!(Host))]
    host: Vec<Host>,
}

/// What a command printed there: more is no result of one.
const LONGEST_OUTPUT: usize = 32 << 20;

/// The options that are not passed on, with a value or without, beside `--host`.
pub struct Kept {
    /// With a value: `--out`, whose short form is `-o`.
    pub values: &'static [&'static str],
    /// Without.
    pub flags: &'static [&'static str],
}

/// Of a command that prints there as it does here.
pub const AS_GIVEN: Kept = Kept {
    values: &[],
    flags: &[],
};

/// What came of a host.
pub struct Ran {
    /// Its name, as given.
    pub host: String,
    output: Vec<u8>,
    /// The files that came, if any.
    pub received: Option<Received>,
    ended: Ended,
}

impl Ran {
    /// What came of the command's output, by `read`; `None` if there is none. If it is invalid, this host has failed,
    /// and not the others.
    pub fn read<T, E: Display>(&mut self, read: impl FnOnce(&[u8]) -> Result<T, E>) -> Option<T> {
        // Otherwise it is cut off.
        let is_whole = matches!(self.ended, Ended::Code(_)) && !self.output.is_empty();
        match is_whole.then(|| read(&self.output))? {
            Ok(read) => Some(read),
            Err(why) => {
                self.ended = Ended::Failed(format!("its answer is invalid: {why}"));
                None
            }
        }
    }

    /// As [`Ran::read`], of JSON.
    pub fn parsed<T: DeserializeOwned>(&mut self) -> Option<T> {
        self.read(|output| serde_json::from_slice(output))
    }
}

impl Elsewhere {
    pub fn is_given(&self) -> bool {
        !self.host.is_empty()
    }

    pub fn is_one(&self) -> bool {
        self.host.len() == 1
    }

    /// Refuses what would mix up two hosts.
    fn refuse_twice(&self) -> anyhow::Result<()> {
        for (place, host) in self.host.iter().enumerate() {
            let has_its_name = |other: &&Host| one_name(other.name()) == one_name(host.name());
            if let Some(other) = self.host[..place].iter().find(has_its_name) {
                return Err(Failure::usage(match other == host {
                    true => format!("--host {host} is given twice"),
                    false => {
                        format!("--host {other} and {host} have one folder; rename one of them")
                    }
                }));
            }
        }
        Ok(())
    }

    /// The folder of each host's result: that of `--out`, with several hosts one below it for each, or one by the
    /// host and the time.
    ///
    /// # Errors
    /// If one cannot be made, or holds a result.
    pub fn folders(&self, out: Option<&Path>) -> anyhow::Result<Vec<ResultFolder>> {
        self.refuse_twice()?;
        let started = SystemTime::now();
        let folder = |host: &Host| -> anyhow::Result<ResultFolder> {
            let path: PathBuf = match out {
                Some(out) if self.is_one() => out.to_owned(),
                Some(out) => out.join(one_name(host.name())),
                None => folder_of(host.name(), started),
            };
            Ok(ResultFolder::of(Folder::make(&path, naming(out))?)?)
        };
        self.host.iter().map(folder).collect()
    }

    /// Runs this command there, with these options besides for each host; `folders` receive its files, and `lines`
    /// has its output printed line by line as it comes.
    ///
    /// # Errors
    /// If nothing was run.
    pub fn run(
        &self,
        kept: &Kept,
        besides: impl Fn(usize) -> Vec<String>,
        folders: Vec<ResultFolder>,
        lines: bool,
    ) -> anyhow::Result<Vec<Ran>> {
        self.refuse_twice()?;
        let words: Result<Vec<String>, _> = std::env::args_os()
            .skip(1)
            .map(|word| word.into_string())
            .collect();
        let words = words.map_err(|word| {
            let word = word.display();
            Failure::usage(format!("{word}: --host passes on only text in UTF-8"))
        })?;
        let requests = self.host.iter().enumerate().map(|(place, host)| Request {
            host: host.clone(),
            arguments: passed_on(&words, kept, besides(place)),
            has_files: !folders.is_empty(),
        });
        let requests = requests.collect();
        let program = Program::find()?;
        let stop = signals::stop()?;
        let names: Vec<&str> = self.host.iter().map(Host::name).collect();
        let mut folders = folders.into_iter();
        let ran = names.iter().map(|name| Ran {
            host: (*name).to_owned(),
            output: Vec::new(),
            received: folders.next().map(Received::into_result),
            ended: Ended::Interrupted,
        });
        let mut gathered = Gathered {
            ran: ran.collect(),
            bars: Bars::of(&names),
            lines,
            stop: stop.clone(),
            reader_left: false,
        };
        // ssh asks on the terminal, one at a time.
        let asks = self.is_one() && io::IsTerminal::is_terminal(&io::stdin());
        let ended = reveille_elsewhere::run(requests, program, asks, &mut gathered, &stop);
        let mut ran = std::mem::take(&mut gathered.ran);
        for (ran, ended) in ran.iter_mut().zip(ended) {
            ran.ended = ended;
        }
        // As here, also where the other side was not reached any more.
        if gathered.reader_left {
            ran.iter_mut().for_each(|one| one.ended = Ended::Code(0));
        } else if stop.load(Ordering::Relaxed) {
            for one in &mut ran {
                if !matches!(one.ended, Ended::Code(_)) {
                    one.ended = Ended::Interrupted;
                }
            }
        }
        Ok(ran)
    }
}

/// Reports what was not run to its end, and where what came of it is; removes folders in which nothing is.
/// The exit code is the worst.
pub fn end(ran: &[Ran]) -> ExitCode {
    let mut worst = 0;
    for one in ran {
        let (code, why) = match &one.ended {
            Ended::Code(code) => (*code, None),
            Ended::Failed(why) | Ended::Lost(why) => (1, Some(why)),
            Ended::Cannot(why) => (exit::CANNOT, Some(why)),
            Ended::Interrupted => (exit::INTERRUPTED, None),
        };
        worst = worst.max(code);
        let kept = one.received.as_ref().filter(|received| received.has_any());
        if let (None, Some(received)) = (kept, &one.received) {
            received.result().folder().give_up();
        }
        if let Some(why) = why {
            let kept = kept.map_or(String::new(), |received| {
                let path = received.result().path().display();
                format!("; what came is kept in {path}")
            });
            exit::say(format_args!("{}: {why}{kept}", one.host));
        }
    }
    ExitCode::from(worst)
}

/// Prints what the one host printed; `data` is for programs.
pub fn print(ran: &[Ran], data: bool) -> anyhow::Result<()> {
    let output = ran.first().map_or(&[][..], |one| &one.output);
    let written = match data {
        true => terminal::data().write_all(output),
        false => terminal::stdout().write_all(output),
    };
    Ok(exit::reader_may_leave(written)?)
}

/// A host's name above what is its; in Markdown its sheet has a title.
pub fn heading(host: &str, is_markdown: bool) -> io::Result<()> {
    let written = match is_markdown {
        true => Ok(()),
        false => writeln!(terminal::stdout(), "{STRONG}{host}{STRONG:#}"),
    };
    exit::reader_may_leave(written)
}

/// Prints what each host printed: as it is for one, a list of objects with a key `host` for several.
pub fn print_json(ran: &mut [Ran]) -> anyhow::Result<()> {
    let mut text = Vec::new();
    if let [one] = ran {
        let whole = one.read(|output| object(output).map(|_| output.to_vec()));
        text.extend(whole.into_iter().flatten());
    } else {
        for one in ran {
            let host = one.host.clone();
            if let Some(object) = one.read(|output| with_host(&host, output)) {
                text.extend(if text.is_empty() { b"[\n" } else { b",\n" });
                text.extend(object);
            }
        }
        text.extend(if text.is_empty() {
            &b"[]\n"[..]
        } else {
            b"\n]\n"
        });
    }
    let out = &mut terminal::data();
    let written = out.write_all(&text).and_then(|()| out.flush());
    Ok(exit::reader_may_leave(written)?)
}

/// A JSON object, after its brace.
fn object(text: &[u8]) -> Result<&[u8], String> {
    let text = text.trim_ascii();
    serde_json::from_slice::<IgnoredAny>(text).map_err(|error| error.to_string())?;
    text.strip_prefix(b"{")
        .ok_or_else(|| "no JSON object".to_owned())
}

/// A JSON object with the key `host` before its own.
fn with_host(host: &str, text: &[u8]) -> Result<Vec<u8>, String> {
    let rest = object(text)?;
    let mut whole = b"{\"host\":".to_vec();
    whole.extend(serde_json::to_vec(host).unwrap_or_default());
    whole.push(b',');
    whole.extend(rest);
    Ok(whole)
}

/// The arguments without what is for this side, and with these besides, before a command to run.
fn passed_on(words: &[String], kept: &Kept, besides: Vec<String>) -> Vec<String> {
    let mut passed = Vec::new();
    let mut words = words.iter();
    let mut rest = Vec::new();
    while let Some(word) = words.next() {
        if word == "--" {
            rest = std::iter::once(word).chain(words).cloned().collect();
            break;
        }
        let mut values = kept.values.iter().chain(&["--host"]);
        let is_value = |name: &&&str| word == **name || word.starts_with(&format!("{name}="));
        let is_short = kept.values.contains(&"--out") && word.starts_with("-o");
        if let Some(name) = values.find(is_value) {
            if word == name {
                words.next();
            }
        } else if is_short {
            if word == "-o" {
                words.next();
            }
        } else if !kept.flags.contains(&word.as_str()) {
            passed.push(word.clone());
        }
    }
    passed.into_iter().chain(besides).chain(rest).collect()
}

/// What comes, as it comes.
struct Gathered {
    ran: Vec<Ran>,
    bars: Bars,
    lines: bool,
    stop: Arc<AtomicBool>,
    reader_left: bool,
}

impl Gathered {
    fn print_lines(&mut self, host: usize) -> anyhow::Result<()> {
        let several = self.ran.len() > 1;
        let ran = &mut self.ran[host];
        let Some(end) = ran.output.iter().rposition(|byte| *byte == b'\n') else {
            return Ok(());
        };
        let lines: Vec<u8> = ran.output.drain(..=end).collect();
        let mut out = terminal::data();
        for line in lines.split_inclusive(|byte| *byte == b'\n') {
            match several {
                true => {
                    let line = with_host(&ran.host, line);
                    out.write_all(&line.map_err(anyhow::Error::msg)?)?;
                    out.write_all(b"\n")?;
                }
                false => out.write_all(line)?,
            }
        }
        Ok(out.flush()?)
    }
}

impl Near for Gathered {
    fn output(&mut self, host: usize, bytes: &[u8]) -> Result<(), String> {
        let output = &mut self.ran[host].output;
        output.extend(bytes);
        if output.len() > LONGEST_OUTPUT {
            return Err("it prints too much".to_owned());
        }
        match self.lines.then(|| self.print_lines(host)) {
            Some(Err(error)) if exit::reader_left(&error) => {
                self.reader_left = true;
                self.stop.store(true, Ordering::Relaxed);
                Ok(())
            }
            Some(Err(error)) => Err(exit::one_line(&error)),
            _ => Ok(()),
        }
    }

    fn line(&mut self, host: usize, line: &str) {
        let line = line.strip_prefix("reveille: ").unwrap_or(line);
        if !line.is_empty() {
            exit::say(format_args!("{}: {line}", self.ran[host].host));
        }
    }

    fn progress(&mut self, host: usize, now: &Step) {
        self.bars.show(host, now);
    }

    fn file(&mut self, host: usize, frame: Frame) -> Result<(), String> {
        match &mut self.ran[host].received {
            Some(received) => received.keep(frame).map_err(|error| error.to_string()),
            None => Ok(()),
        }
    }

    fn ended(&mut self, host: usize, _: &Ended) {
        self.bars.end(host);
    }
}

/// The far side of `--host`, which a script of the near side starts.
#[derive(clap::Args)]
#[command(hide = true)]
pub struct FarArgs {
    /// Send what a lost run has left there
    #[arg(long)]
    rest: bool,
    /// The folder of the run, which is removed
    folder: PathBuf,
}

pub fn far(args: &FarArgs) -> anyhow::Result<ExitCode> {
    let is_of_a_run = match args.rest {
        true => far::is_of_the_script(&args.folder),
        false => far::is_folder_of_a_run(&args.folder),
    };
    if !is_of_a_run {
        return Err(Failure::usage(format!(
            "{}: not a folder of `--host`, which starts this command",
            args.folder.display()
        )));
    }
    if args.rest {
        far::rest(&args.folder)
    }
    let stop = signals::stop()?;
    far::run(&args.folder, &stop)
}

/// The folder of the result there.
pub const OUT: &str = far::OUT;

#[cfg(test)]
mod tests {
    use super::*;

    fn passed(line: &str, kept: &Kept) -> String {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        passed_on(&words, kept, vec!["--json".into()]).join(" ")
    }

    #[test]
    fn what_is_for_this_side_is_not_passed_on() {
        let kept = Kept {
            values: &["--out"],
            flags: &["--all"],
        };
        for (line, there) in [
            ("measure --host a --cpu 1", "measure --cpu 1 --json"),
            ("measure --host=a --host b", "measure --json"),
            ("measure -o x --all --out=y --out z", "measure --json"),
            (
                "measure -ox --offline-others",
                "measure --offline-others --json",
            ),
            (
                "trial --host a -- x --host b -o c",
                "trial --json -- x --host b -o c",
            ),
        ] {
            assert_eq!(passed(line, &kept), there, "{line}");
        }
        assert_eq!(passed("top --all -o", &AS_GIVEN), "top --all -o --json");
    }

    #[test]
    fn an_object_gets_the_key_host() {
        let with = |text: &str| with_host("a\"b", text.as_bytes());
        assert_eq!(with("{\"x\":1}\n").unwrap(), br#"{"host":"a\"b","x":1}"#);
        for bad in ["", "[1]", "{\"x\":", "text"] {
            assert!(with(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn two_hosts_are_not_mixed_up() {
        let hosts = |names: &[&str]| Elsewhere {
            host: names.iter().map(|name| name.parse().unwrap()).collect(),
        };
        assert!(hosts(&["a", "b"]).refuse_twice().is_ok());
        for names in [["a", "a"], ["x@a", "x_a"]] {
            assert!(hosts(&names).refuse_twice().is_err(), "{names:?}");
        }
    }
}
