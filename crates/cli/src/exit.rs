//! How a command ends: the exit codes that scripts rely on, and the one place where errors become
//! a line on standard error.

use std::fmt;
use std::io::{self, ErrorKind};
use std::process::ExitCode;

use reveille_results::FilterError;

pub use reveille_show::terminal::{say, say_plainly};

/// Usage error: an invalid flag, name or file.
pub const USAGE: u8 = 2;
/// This machine, kernel or user cannot do it.
pub const CANNOT: u8 = 3;
/// Interrupted; results so far are kept.
pub const INTERRUPTED: u8 = 130;

/// An error with an exit code of its own. Every other error is a failure: exit code 1.
#[derive(Debug)]
pub struct Failure {
    code: u8,
    message: String,
    /// Lines below the message: the expression with carets.
    pointing: Vec<String>,
}

impl Failure {
    /// A usage error (exit code 2).
    pub fn usage(message: impl Into<String>) -> anyhow::Error {
        Self::of(USAGE, message).into()
    }

    /// An invalid expression: the message, with the expression and the place in it below.
    pub fn filter(wrong: &FilterError, place: &str) -> anyhow::Error {
        let text = wrong.to_string();
        // The two last lines; what is wrong may hold a line break of the user's own.
        let mut lines = text.rsplitn(3, '\n');
        let (carets, expression) = (lines.next(), lines.next());
        let what = lines.next().unwrap_or_default();
        Self {
            pointing: [expression, carets]
                .into_iter()
                .flatten()
                .map(str::to_owned)
                .collect(),
            ..Self::of(USAGE, format!("{place}{what}"))
        }
        .into()
    }

    /// This machine cannot do it (exit code 3).
    pub fn cannot(message: impl Into<String>) -> anyhow::Error {
        Self::of(CANNOT, message).into()
    }

    /// A signal ended it before there was a result.
    pub fn interrupted(message: impl Into<String>) -> anyhow::Error {
        Self::of(INTERRUPTED, message).into()
    }

    fn of(code: u8, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            pointing: Vec::new(),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}

/// Prints help and version as clap renders them, and a usage error as one line with its tips.
///
/// `command` is the program's, with its subcommands.
pub fn usage_error(error: &clap::Error, command: &clap::Command) -> ExitCode {
    use clap::error::ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand;
    if !error.use_stderr() || error.kind() == DisplayHelpOnMissingArgumentOrSubcommand {
        if let Err(error) = error.print() {
            return report(&error.into());
        }
    } else {
        let line = usage_in_one_line(error);
        let words = std::env::args_os().skip(1);
        let words = words.map(|word| word.to_string_lossy().into_owned());
        match before_dashes(error, command, words) {
            Some(tip) => say(format_args!("{line}; {tip}")),
            None => say(line),
        }
    }
    ExitCode::from(if error.use_stderr() { USAGE } else { 0 })
}

/// The tip for a COMMAND without `--`.
fn before_dashes(
    error: &clap::Error,
    command: &clap::Command,
    words: impl Iterator<Item = String>,
) -> Option<String> {
    use clap::error::{ContextKind, ContextValue, ErrorKind};
    let found = error.get(ContextKind::InvalidArg);
    let (ErrorKind::UnknownArgument, Some(ContextValue::String(found))) = (error.kind(), found)
    else {
        return None;
    };
    // `cost ls`, `anticipate bench ls`
    let (mut command, mut path) = (command, "reveille".to_owned());
    for word in words {
        let Some(below) = command.find_subcommand(&word) else {
            break;
        };
        (command, path) = (below, format!("{path} {word}"));
    }
    let takes_command = command.get_arguments().any(clap::Arg::is_last_set);
    (takes_command && !found.starts_with('-'))
        .then(|| format!("a command to run follows --: `{path} ... -- {found}`"))
}

/// clap's error without its usage, which `--help` prints.
pub fn usage_in_one_line(error: &clap::Error) -> String {
    in_one_line(&error.to_string())
}

fn in_one_line(rendered: &str) -> String {
    let lines = rendered
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty());
    let kept = lines.take_while(|line| !line.starts_with("Usage:"));
    let kept = kept.map(|line| line.strip_prefix("error: ").unwrap_or(line));
    // An unknown flag is rarely a value.
    let omitted =
        |line: &&str| line.starts_with("For more information") || line.starts_with("tip: to pass ");
    let kept = kept.filter(|line| !omitted(line));
    kept.collect::<Vec<_>>().join("; ").replace(":; ", ": ")
}

/// Prints the error as one line (below it the expression with carets) and returns its exit code.
pub fn report(error: &anyhow::Error) -> ExitCode {
    if reader_left(error) {
        return ExitCode::SUCCESS;
    }
    let known: Option<&reveille_kernel::Error> = error.downcast_ref();
    let advice = known
        .and_then(|error| error.withheld())
        .map_or(String::new(), |advice| format!("; {advice}"));
    say(format_args!("{}{}{advice}", place(error), one_line(error)));
    if let Some(failure) = error.downcast_ref::<Failure>() {
        failure.pointing.iter().for_each(say_plainly);
    }
    ExitCode::from(code(error))
}

/// A reader that closes standard output early (`reveille states | head`) is not a failure.
pub fn reader_left(error: &anyhow::Error) -> bool {
    let error = error.downcast_ref::<io::Error>();
    error.is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

/// The work and its exit code do not change if the reader closes standard output.
///
/// # Errors
/// Every other one.
pub fn reader_may_leave(written: io::Result<()>) -> io::Result<()> {
    match written {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}

/// A statement of what is set that could not be written. Nobody would know of the setting, so it is
/// undone, and that is a failure, even if only the reader closed the pipe.
pub fn statement_not_written(error: io::Error) -> anyhow::Error {
    Failure::of(
        1,
        format!("standard output: {error}; the settings are restored"),
    )
    .into()
}

/// Where nothing more could be written. Files are named by the error itself.
fn place(error: &anyhow::Error) -> &'static str {
    match error.downcast_ref::<std::io::Error>() {
        Some(io)
            if matches!(io.kind(), ErrorKind::StorageFull | ErrorKind::FileTooLarge)
                && one_line(error) == without_number(&io.to_string()) =>
        {
            "standard output: "
        }
        _ => "",
    }
}

fn code(error: &anyhow::Error) -> u8 {
    if let Some(failure) = error.downcast_ref::<Failure>() {
        return failure.code;
    }
    let error: Option<&reveille_kernel::Error> = error.downcast_ref();
    error.map_or(1, reveille_kernel::Error::exit_code)
}

/// The error and its causes. Omits a cause that the text already contains.
pub fn one_line(error: &anyhow::Error) -> String {
    let mut line = String::new();
    for cause in error
        .chain()
        .map(|cause| without_number(&cause.to_string()))
        .filter(|cause| !cause.is_empty())
    {
        if line.is_empty() {
            line = cause;
        } else if !line.contains(&cause) {
            line = format!("{line}: {cause}");
        }
    }
    line
}

/// The system's text for an error, without its number.
fn without_number(words: &str) -> String {
    match words.split_once(" (os error ") {
        Some((before, after)) => match after.split_once(')') {
            Some((_, rest)) => format!("{before}{rest}"),
            None => words.to_owned(),
        },
        None => words.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_result_is_a_usage_error() {
        let error = reveille_results::open("/nonexistent").unwrap_err();
        assert_eq!(code(&error.into()), USAGE);
        assert_eq!(code(&anyhow::anyhow!("a full disk")), 1);
    }

    #[test]
    fn claps_message_is_one_line_with_its_tip() {
        let rendered = "error: unexpected argument '--sate' found\n\n  tip: a similar argument \
                        exists: '--state'\n\nUsage: reveille measure --state <NAME>\n\nFor more \
                        information, try '--help'.\n";
        let line = "unexpected argument '--sate' found; tip: a similar argument exists: '--state'";
        assert_eq!(in_one_line(rendered), line);
    }

    #[test]
    fn an_unknown_flag_is_not_offered_as_a_value() {
        let rendered = "error: unexpected argument '-p' found\n\n  tip: to pass '-p' as a value, use \
                        '-- -p'\n\nUsage: reveille cost\n";
        assert_eq!(in_one_line(rendered), "unexpected argument '-p' found");
    }

    #[test]
    fn a_full_disk_is_reported_with_its_path() {
        let full = || anyhow::Error::new(std::io::Error::from_raw_os_error(28));
        assert_eq!(place(&full()), "standard output: ");
        assert_eq!(place(&full().context("result/cost.json")), "");
    }

    #[test]
    fn a_cause_is_reported_once() {
        let cause = std::io::Error::from_raw_os_error(2);
        let words = format!("/sys/x: {cause}");
        let error = anyhow::Error::new(cause)
            .context(words.clone())
            .context("reading");
        assert_eq!(
            one_line(&error),
            "reading: /sys/x: No such file or directory"
        );
    }
}
