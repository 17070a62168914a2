//! `--setting LINE`: a line of `reveille hold` or `reveille limit`, without its command.

use clap::Parser;
use reveille_kernel::cpulist;
use reveille_kernel::latency::parse_bound;
use reveille_kernel::limits::Limit;
use reveille_trial::setting::{Kind, Setting};

#[derive(Parser)]
#[command(
    no_binary_name = true,
    disable_help_flag = true,
    disable_help_subcommand = true
)]
enum Line {
    Hold {
        #[arg(long, value_parser = parse_bound)]
        latency: u32,
        #[arg(long, value_parser = parse_cpus)]
        cpu: Option<Cpus>,
    },
    Limit {
        #[arg(long, required_unless_present = "disable", conflicts_with = "disable")]
        deepest: Option<String>,
        #[arg(long, value_delimiter = ',')]
        disable: Vec<String>,
        #[arg(long, value_parser = parse_cpus)]
        cpu: Option<Cpus>,
    },
}

/// One value for clap, which would take a plain vector for several.
#[derive(Clone)]
struct Cpus(Vec<u32>);

fn parse_cpus(text: &str) -> Result<Cpus, String> {
    let cpus = cpulist::parse(text).filter(|cpus| !cpus.is_empty());
    cpus.map(Cpus)
        .ok_or_else(|| "not a list of CPUs such as 0-3,8".to_owned())
}

/// # Errors
/// What is wrong with the line, in words.
pub fn parse(text: &str) -> Result<Setting, String> {
    let words = words(text)?;
    let own = words
        .iter()
        .skip_while(|word| matches!(word.as_str(), "reveille" | "sudo"));
    let line = Line::try_parse_from(own).map_err(|error| said(&error))?;
    let kind = match line {
        Line::Hold { latency, cpu } => Kind::Hold {
            bound_us: latency,
            cpus: cpu.map(|cpus| cpus.0),
        },
        Line::Limit {
            deepest,
            disable,
            cpu,
        } => Kind::Limit {
            limit: match deepest {
                Some(name) => Limit::Deepest(name),
                None => Limit::Disable(disable),
            },
            cpus: cpu.map(|cpus| cpus.0),
        },
    };
    let shown = |word: &String| match word.contains(char::is_whitespace) {
        true => format!("'{word}'"),
        false => word.clone(),
    };
    let shown: Vec<String> = words.iter().map(shown).collect();
    Ok(Setting {
        name: shown.join(" "),
        kind,
    })
}

/// The line's words; quotes keep spaces in a word, as a shell has it: `--disable 'haltpoll idle'`.
fn words(text: &str) -> Result<Vec<String>, String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    for c in text.chars() {
        match quote {
            Some(end) if c == end => quote = None,
            None if matches!(c, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            None if c.is_whitespace() => words.extend(word.take()),
            _ => word.get_or_insert_default().push(c),
        }
    }
    match quote {
        Some(quote) => Err(format!("a quote {quote} is not closed")),
        None => Ok(words.into_iter().chain(word).collect()),
    }
}

/// clap's first line, which says what is wrong.
fn said(error: &clap::Error) -> String {
    let text = error.to_string();
    let first = text.lines().next().unwrap_or_default();
    let first = first.trim_start_matches("error: ");
    match error.kind() {
        clap::error::ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            "write a line such as 'hold --latency 50us' or 'limit --disable C6'".into()
        }
        clap::error::ErrorKind::MissingRequiredArgument => {
            "a hold needs --latency, a limit needs --deepest or --disable".into()
        }
        _ => first.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_means_what_the_command_of_that_name_does() {
        let setting = parse("hold --latency 1.5ms --cpu 0-1,3").unwrap();
        assert_eq!(setting.name, "hold --latency 1.5ms --cpu 0-1,3");
        let kind = Kind::Hold {
            bound_us: 1500,
            cpus: Some(vec![0, 1, 3]),
        };
        assert_eq!(setting.kind, kind);
        let setting = parse("sudo reveille limit  --disable C6,C8").unwrap();
        let limit = Limit::Disable(vec!["C6".into(), "C8".into()]);
        assert_eq!(setting.kind, Kind::Limit { limit, cpus: None });
        for line in [
            "limit --disable 'haltpoll idle',C6 --cpu 1",
            "limit --disable \"haltpoll idle,C6\"  --cpu 1",
        ] {
            let limit = Limit::Disable(vec!["haltpoll idle".into(), "C6".into()]);
            let cpus = Some(vec![1]);
            let setting = parse(line).unwrap();
            assert_eq!(setting.kind, Kind::Limit { limit, cpus }, "{line}");
            assert_eq!(setting.name, "limit --disable 'haltpoll idle,C6' --cpu 1");
        }
        let setting = parse("limit --deepest C1E").unwrap();
        let limit = Limit::Deepest("C1E".into());
        assert_eq!(setting.kind, Kind::Limit { limit, cpus: None });
    }

    #[test]
    fn what_is_no_such_line_says_why() {
        for (line, word) in [
            ("", "such as"),
            ("sleep", "sleep"),
            ("hold", "needs --latency"),
            ("hold --latency 50", "no unit"),
            ("hold --latency -5us", "-5"),
            ("limit", "--deepest"),
            ("limit --disable 'haltpoll idle", "not closed"),
            ("limit --deepest C1 --disable C6", "cannot be used with"),
            ("limit --disable C6 --cpu x", "list of CPUs"),
        ] {
            let said = parse(line).unwrap_err();
            assert!(said.contains(word), "{line:?}: {said}");
            assert_eq!(said.lines().count(), 1, "{line:?}: {said}");
        }
    }
}
