//! The exit codes of each command, as its help lists them.

use clap::Command;

/// What 0 to 3 and 130 mean by default.
const DONE: (&str, &str) = ("0", "done");
const FAILED: (&str, &str) = ("1", "failed");
const USAGE: (&str, &str) = ("2", "usage error, or a missing file");
const CANNOT: (&str, &str) = ("3", "not possible on this machine, or for this user");
const INTERRUPTED: (&str, &str) = ("130", "interrupted; results so far are kept");
const OWN: (&str, &str) = (
    "N",
    "exit code of COMMAND; 128 plus the signal's number if a signal ended it",
);

type Codes = &'static [(&'static str, &'static str)];

/// Of the program, and of each command without commands below it, by its path.
const CODES: &[(&str, Codes)] = &[
    ("", ALL),
    (
        "measure",
        &[
            DONE,
            ("1", "failed, ended early or without a datapoint"),
            USAGE,
            CANNOT,
            INTERRUPTED,
        ],
    ),
    ("report", READS),
    ("show", READS),
    ("export", READS),
    ("states", &[DONE, FAILED, USAGE, CANNOT]),
    ("top", &[DONE, FAILED, USAGE, CANNOT]),
    (
        "cost",
        &[
            DONE,
            ("1", "failed, or no wake-up"),
            USAGE,
            CANNOT,
            INTERRUPTED,
            OWN,
        ],
    ),
    (
        "path",
        &[
            DONE,
            ("1", "failed, or no packet was followed"),
            USAGE,
            CANNOT,
            INTERRUPTED,
        ],
    ),
    ("hold", HOLDS),
    ("limit", HOLDS),
    (
        "advise",
        &[
            ("0", "answered, even if no state is allowed"),
            ("1", "a damaged result"),
            USAGE,
            (
                "3",
                "nothing is recommended, or this form or a table cannot express it",
            ),
        ],
    ),
    ("power meters", ALL),
    ("power record", ALL),
    ("power cpus", ALL),
    ("power states", ALL),
    ("trial", ALL),
    ("far", &[DONE, FAILED]),
    ("anticipate", &[DONE, FAILED, USAGE, CANNOT]),
    ("anticipate bench", ALL),
    ("anticipate hint", &[DONE, USAGE, CANNOT]),
    ("govern", &[DONE, CONTENT, USAGE, CANNOT]),
    ("govern check", &[DONE, CONTENT, USAGE]),
    (
        "govern status",
        &[DONE, FAILED, USAGE, ("3", "no service answers")],
    ),
    (
        "govern explain",
        &[DONE, FAILED, USAGE, ("3", "no service answers")],
    ),
    ("quiet find", ALL),
    ("quiet run", HOLDS),
    ("stage", &[DONE, CONTENT, USAGE, CANNOT]),
    ("stage bench", ALL),
    ("model run", MODELS),
    ("model sweep", MODELS),
    ("model from", MODELS),
    (
        "model simulate",
        &[
            DONE,
            CONTENT,
            ("2", "usage error, or no policy is stable at this load"),
            INTERRUPTED,
        ],
    ),
    ("doctor", &[DONE, FAILED, USAGE]),
    ("resume analyze", &[DONE, CONTENT, USAGE]),
    (
        "resume capture",
        &[
            DONE,
            ("1", "failed, or the machine never slept"),
            USAGE,
            CANNOT,
            INTERRUPTED,
        ],
    ),
    (
        "restore",
        &[DONE, ("1", "a setting could not be restored"), USAGE],
    ),
    ("manual", &[DONE, FAILED, USAGE]),
];

const ALL: Codes = &[DONE, FAILED, USAGE, CANNOT, INTERRUPTED];
const READS: Codes = &[
    DONE,
    (
        "1",
        "a damaged file, a full disk, or no datapoint matches the filter",
    ),
    USAGE,
];
const HOLDS: Codes = &[
    ("0", "done, or ended by Ctrl-C or another signal"),
    ("1", "failed"),
    USAGE,
    ("3", "not possible on this machine, or no effect"),
    OWN,
];
const CONTENT: (&str, &str) = ("1", "failed, or a file's content is wrong");
const MODELS: Codes = &[
    DONE,
    CONTENT,
    ("2", "usage error, or no queue is stable at this load"),
];

/// The program's command, with exit codes in its help and in that of each command below it.
pub fn in_help(command: Command) -> Command {
    below(with_codes(command, ""), "")
}

fn below(mut command: Command, path: &str) -> Command {
    let names: Vec<String> = command
        .get_subcommands()
        .map(|below| below.get_name().to_owned())
        .collect();
    for name in names {
        let path = format!("{path} {name}").trim_start().to_owned();
        command = command.mut_subcommand(&name, |one| below(with_codes(one, &path), &path));
    }
    command
}

fn with_codes(command: Command, path: &str) -> Command {
    let Some((_, codes)) = CODES.iter().find(|(of, _)| *of == path) else {
        return command;
    };
    let help = command.get_after_help().map(ToString::to_string);
    let lines = codes
        .iter()
        .map(|(code, meaning)| format!("\n  {code:<4} {meaning}"));
    let codes: String = lines.collect();
    let help = help.map_or(String::new(), |help| help + "\n\n");
    command.after_help(format!("{help}Exit codes:{codes}"))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn paths(command: &Command, path: &str, found: &mut Vec<String>) {
        for below in command.get_subcommands() {
            let path = format!("{path} {}", below.get_name())
                .trim_start()
                .to_owned();
            let is_command = below.is_args_conflicts_with_subcommands_set();
            if below.get_subcommands().next().is_none() || is_command {
                found.push(path.clone());
            }
            paths(below, &path, found);
        }
    }

    #[test]
    fn every_command_has_its_exit_codes() {
        let mut found = vec![String::new()];
        paths(&crate::Cli::command(), "", &mut found);
        found.sort_unstable();
        let mut listed: Vec<&str> = CODES.iter().map(|(of, _)| *of).collect();
        listed.sort_unstable();
        assert_eq!(listed, found);
    }

    #[test]
    fn help_fits_its_widest_terminal() {
        fn check(command: &Command) {
            let help = command.get_after_help().map(ToString::to_string);
            for line in help.iter().flat_map(|help| help.lines()) {
                assert!(line.chars().count() <= crate::HELP_WIDTH, "{line}");
            }
            command.get_subcommands().for_each(check);
        }
        check(&in_help(crate::Cli::command()));
    }
}
