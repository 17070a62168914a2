//! A setting as a line of `reveille hold`, `limit`, `govern` or `quiet run`.

use reveille_kernel::cpulist;
use reveille_kernel::limits::Limit;
use reveille_kernel::pm_qos;
use reveille_show::parse;

use super::{Kind, Setting};

/// What `quiet run` takes in a setting.
const QUIET: [&str; 7] = [
    "--cgroup",
    "--freeze",
    "--foreground",
    "--cpus",
    "--power",
    "--within",
    "--after",
];

/// Reads `hold --latency 50us --cpu 2`, `limit --disable C6`, `govern --config rules.toml` or `quiet run --cgroup G`.
pub fn parse(text: &str) -> Result<Setting, String> {
    let words = words(text)?;
    let own = words.iter().map(String::as_str);
    let mut own = own.skip_while(|word| matches!(*word, "reveille" | "sudo"));
    let command = own.next().unwrap_or_default();
    let known: &[&str] = match command {
        "hold" => &["--latency", "--cpu"],
        "limit" => &["--deepest", "--disable", "--cpu"],
        "govern" => &["--config"],
        "quiet" => &QUIET,
        other => {
            let what = match other {
                "" => String::new(),
                other => format!("{other}: not a setting; "),
            };
            return Err(format!(
                "{what}write a line such as 'hold --latency 50us', 'limit --disable C6', \
                 'govern --config rules.toml' or 'quiet run --cgroup GROUP'"
            ));
        }
    };
    let whole = match command {
        "quiet" if own.next() == Some("run") => "quiet run",
        "quiet" => return Err("of quiet only 'quiet run' is a setting".into()),
        whole => whole,
    };
    let mut flags = Flags::read(own, whole, known)?;
    let cpus = match flags.one("--cpu")? {
        Some(list) => {
            let cpus = cpulist::parse(list).filter(|cpus| !cpus.is_empty());
            let wrong = || format!("--cpu {list}: not a list of CPUs, such as 0-3,8");
            Some(cpus.ok_or_else(wrong)?)
        }
        None => None,
    };
    let kind = match command {
        "hold" => {
            let bound = flags.one("--latency")?.ok_or("hold needs --latency")?;
            let wrong = |why| format!("--latency {bound}: {why}");
            let time = parse::time(bound, "100us").map_err(wrong)?;
            let bound_us = pm_qos::bound_us(time).map_err(wrong)?;
            Kind::Hold { bound_us, cpus }
        }
        "quiet" => {
            let all = flags.0.drain(..);
            Kind::Quiet(all.map(|(name, value)| format!("{name}={value}")).collect())
        }
        "govern" => {
            let rules = flags.one("--config")?.ok_or("govern needs --config")?;
            Kind::Govern(rules.into())
        }
        _ => {
            let disabled = flags.all("--disable");
            let limit = match (flags.one("--deepest")?, disabled.is_empty()) {
                (Some(_), false) => return Err("--deepest cannot be used with --disable".into()),
                (Some(state), true) => Limit::Deepest(state.to_owned()),
                (None, false) => {
                    let states = disabled.iter().flat_map(|states| states.split(','));
                    Limit::Disable(states.map(str::to_owned).collect())
                }
                (None, true) => return Err("limit needs --deepest or --disable".into()),
            };
            Kind::Limit { limit, cpus }
        }
    };
    let shown = |word: &String| match word.contains(char::is_whitespace) {
        true => format!("'{word}'"),
        false => word.clone(),
    };
    let shown: Vec<String> = words.iter().map(shown).collect();
    Ok(Setting::new(shown.join(" "), kind))
}

/// Names and values that are not yet used.
struct Flags<'a>(Vec<(&'a str, &'a str)>);

impl<'a> Flags<'a> {
    /// `--name value` or `--name=value`, of these names.
    fn read(
        mut words: impl Iterator<Item = &'a str>,
        command: &str,
        known: &[&str],
    ) -> Result<Self, String> {
        let mut flags = Vec::new();
        while let Some(word) = words.next() {
            let (name, value) = match word.split_once('=') {
                _ if !word.starts_with("--") => return Err(format!("unexpected word {word:?}")),
                Some((name, value)) => (name, Some(value)),
                None => (word, None),
            };
            flags.push(match value.or_else(|| words.next()) {
                // The end of the flags; no command follows.
                None if word == "--" => break,
                _ if !known.contains(&name) => return Err(format!("{command} has no {name}")),
                Some(value) => (name, value),
                None => return Err(format!("{name} has no value")),
            });
        }
        Ok(Self(flags))
    }

    /// Takes the values of a flag that may be repeated.
    fn all(&mut self, name: &str) -> Vec<&'a str> {
        let taken = self.0.extract_if(.., |flag| flag.0 == name);
        taken.map(|flag| flag.1).collect()
    }

    fn one(&mut self, name: &str) -> Result<Option<&'a str>, String> {
        match self.all(name).as_slice() {
            [] => Ok(None),
            [value] => Ok(Some(value)),
            _ => Err(format!("{name} is given twice")),
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_means_the_same_as_the_command_of_that_name() {
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
        let quiet = parse("quiet run --cgroup a.slice --cgroup=b --within 1s --cpus 0").unwrap();
        let flags = ["--cgroup=a.slice", "--cgroup=b", "--within=1s", "--cpus=0"];
        assert_eq!(quiet.kind, Kind::Quiet(flags.map(str::to_owned).to_vec()));
        assert!(parse("quiet run --cgroup a --cpus cheapest --power power").is_ok());
        for wrong in [
            "quiet find",
            "quiet",
            "quiet run --cpu 1",
            "quiet run --json 1",
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
        let ended = parse("limit --disable C6 --").unwrap();
        assert_eq!(ended.kind, parse("limit --disable C6").unwrap().kind);
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
        let setting = parse("limit --disable=C6 --disable C8").unwrap();
        let limit = Limit::Disable(vec!["C6".into(), "C8".into()]);
        assert_eq!(setting.kind, Kind::Limit { limit, cpus: None });
        let setting = parse("limit --deepest C1E").unwrap();
        let limit = Limit::Deepest("C1E".into());
        assert_eq!(setting.kind, Kind::Limit { limit, cpus: None });
    }

    #[test]
    fn an_invalid_line_is_refused_with_the_reason() {
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
            ("limit --disable C6 --cpu 1 --cpu 2", "twice"),
            ("limit --disable", "no value"),
            ("limit --disable C6 -- ls", "has no --"),
            ("limit --keep --disable C6", "limit has no --keep"),
            ("govern --cpu 1", "govern has no --cpu"),
            ("quiet run --cpu 1", "quiet run has no --cpu"),
            ("limit --disable C6 C8", "unexpected word \"C8\""),
            ("hold --latency 5us --deepest C1", "has no --deepest"),
        ] {
            let said = parse(line).unwrap_err();
            assert!(said.contains(word), "{line:?}: {said}");
            assert_eq!(said.lines().count(), 1, "{line:?}: {said}");
        }
    }
}
