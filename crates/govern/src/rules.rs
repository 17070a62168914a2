//! The rules file: what is to be fast, and when.
//!
//! `docs/example/govern.toml` shows every key. Unknown keys are refused, and so is a file with any error:
//! whole, with the line of the first one.

mod traffic;
mod value;

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

use reveille_kernel::{Error, Result};
use reveille_results::statistics::Percentile;
use serde::Deserialize;

pub use traffic::{Protocol, Traffic};

/// Where the rules of the service are.
pub const FILE: &str = "/etc/reveille/govern.toml";

/// Rules are bits of a number in the kernel's programs, and people read them.
const MOST: usize = 32;
/// Longer files are not rules.
const BYTES_MAX: u64 = 1 << 20;
/// Of a rule's name, letters.
const NAME_MAX: usize = 64;

/// All rules of a file.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rules {
    /// A result of `reveille measure` of this machine, by which latencies are judged, for rules that name
    /// none; `None`: the driver's table.
    #[serde(default, deserialize_with = "value::absolute")]
    pub result: Option<PathBuf>,
    /// Serve UPower's old interface for bounds on D-Bus, where there is no UPower.
    #[serde(default)]
    pub upower_qos: bool,
    /// In the file's order; names differ.
    #[serde(default, rename = "rule")]
    pub rules: Vec<Rule>,
}

/// One rule: what it asks for, and when.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// As `status` and `explain` name it.
    #[serde(deserialize_with = "value::name")]
    pub name: String,
    /// The longest wake latency, µs; 0: no sleep.
    #[serde(default, deserialize_with = "value::latency", rename = "latency")]
    pub latency_us: Option<u32>,
    /// Which share of wakes has to keep to the latency, by a result.
    #[serde(
        default = "value::usual_percentile",
        deserialize_with = "value::percentile"
    )]
    pub percentile: Percentile,
    /// Instead of a latency: the deepest idle state that CPUs may use.
    pub deepest_state: Option<String>,
    /// As [`Rules::result`], for this rule.
    #[serde(default, deserialize_with = "value::absolute")]
    pub result: Option<PathBuf>,
    /// No other CPUs are held; `None`: any.
    #[serde(default, deserialize_with = "value::cpus")]
    pub cpus: Option<Vec<u32>>,
    /// How long a bound is held after the last packet; `None`: chosen by the states that it stops.
    #[serde(default, deserialize_with = "value::quiet")]
    pub quiet: Option<Duration>,
    /// When; without conditions always.
    #[serde(default)]
    pub when: When,
}

/// Conditions of a rule: it is in force while all of them hold.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct When {
    /// Packets come; the bound is held on the CPUs that serve them.
    pub traffic: Option<Traffic>,
}

/// What a rule asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ask<'a> {
    /// A wake latency, µs.
    Latency(u32),
    /// No state deeper than the one of that name.
    DeepestState(&'a str),
}

impl std::fmt::Display for When {
    /// `packets on eth0`, `always`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let conditions = [self.traffic.as_ref().map(ToString::to_string)];
        let conditions: Vec<String> = conditions.into_iter().flatten().collect();
        match conditions.is_empty() {
            true => f.write_str("always"),
            false => f.write_str(&conditions.join(" and ")),
        }
    }
}

impl Rule {
    /// What it asks for.
    pub fn ask(&self) -> Ask<'_> {
        match (&self.deepest_state, self.latency_us) {
            (Some(state), _) => Ask::DeepestState(state),
            (None, latency) => Ask::Latency(latency.expect("checked when it was read")),
        }
    }

    /// May a bound be held on that CPU?
    pub fn covers(&self, cpu: u32) -> bool {
        self.cpus.as_ref().is_none_or(|cpus| cpus.contains(&cpu))
    }

    fn check(&self) -> std::result::Result<(), String> {
        match (self.latency_us, &self.deepest_state) {
            (None, None) => Err("give `latency` or `deepest_state`".into()),
            (Some(_), Some(_)) => Err("give either `latency` or `deepest_state`".into()),
            (None, Some(_)) if self.result.is_some() => {
                Err("`result` judges a `latency`; `deepest_state` needs none".into())
            }
            _ if self.quiet.is_some() && self.when.traffic.is_none() => {
                Err("`quiet` is the time without traffic; the rule has no `when.traffic`".into())
            }
            _ => self.when.traffic.as_ref().map_or(Ok(()), Traffic::check),
        }
    }
}

impl Rules {
    /// Reads a rules file.
    ///
    /// # Errors
    /// [`Error::Unreadable`] for wrong content, with the line; [`Error::Io`].
    pub fn read(path: &Path) -> Result<Self> {
        let failed = |source| Error::Io {
            path: path.to_owned(),
            source,
        };
        let file = File::open(path).map_err(failed)?;
        let unreadable = |why: String| Error::Unreadable {
            path: path.to_owned(),
            why,
        };
        if !file.metadata().map_err(failed)?.is_file() {
            return Err(unreadable("is not a file".into()));
        }
        let mut text = Vec::new();
        file.take(BYTES_MAX + 1)
            .read_to_end(&mut text)
            .map_err(failed)?;
        if text.len() as u64 > BYTES_MAX {
            return Err(unreadable(
                "is longer than 1 MiB; it is no rules file".into(),
            ));
        }
        let text = String::from_utf8(text);
        let text = text.map_err(|_| unreadable("is not UTF-8 text".into()))?;
        Self::parse(&text).map_err(unreadable)
    }

    /// Reads rules. The error is one line without the file's name.
    pub fn parse(text: &str) -> std::result::Result<Self, String> {
        let rules: Self = toml::from_str(text).map_err(|error| in_one_line(text, &error))?;
        if rules.rules.len() > MOST {
            return Err(format!("{} rules; there may be {MOST}", rules.rules.len()));
        }
        let mut names = BTreeSet::new();
        for rule in &rules.rules {
            let name = &rule.name;
            if !names.insert(name) {
                return Err(format!("two rules are called `{name}`; names must differ"));
            }
            rule.check()
                .map_err(|why| format!("rule `{name}`: {why}"))?;
        }
        Ok(rules)
    }
}

/// An error of the TOML reader, with its line. It quotes the file, which may have any character.
fn in_one_line(text: &str, error: &toml::de::Error) -> String {
    let why = error.message().trim().replace('\n', "; ");
    let why = why.replace(char::is_control, " ");
    match error.span() {
        Some(span) => {
            let before = &text.as_bytes()[..span.start.min(text.len())];
            let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
            format!("line {line}: {why}")
        }
        None => why,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SSH: &str = r#"
        [[rule]]
        name = "ssh"
        latency = "50us"
        when.traffic = { interface = "eth0", port = 22, protocol = "tcp" }
    "#;

    fn refusal(text: &str) -> String {
        Rules::parse(text).unwrap_err()
    }

    #[test]
    fn a_rule_has_a_latency_and_conditions() {
        let rules = Rules::parse(SSH).unwrap();
        let rule = &rules.rules[0];
        assert_eq!(rule.ask(), Ask::Latency(50));
        assert_eq!(rule.percentile.percent(), "99.9");
        let traffic = rule.when.traffic.as_ref().unwrap();
        assert_eq!(
            (traffic.interface.as_str(), traffic.port),
            ("eth0", Some(22))
        );
        assert_eq!(traffic.protocol, Some(Protocol::Tcp));
        assert_eq!(traffic.packets, 1);
        assert!(traffic.readers);
    }

    #[test]
    fn an_empty_file_has_no_rules() {
        assert_eq!(Rules::parse("").unwrap(), Rules::default());
    }

    #[test]
    fn an_error_has_its_line_and_what_to_do() {
        for (text, expected) in [
            (
                "[[rule]]\nname = \"a\"\nlatency = \"50\"",
                "line 3: no unit; write 50us",
            ),
            (
                "[[rule]]\nname = \"a\"\nlatency = \"-5us\"",
                "line 3: a time cannot be negative",
            ),
            (
                "[[rule]]\nname = \"a\"\nlatency = \"3000s\"",
                "line 3: beyond what the kernel takes",
            ),
            (
                "[[rule]]\nname = \"a\"\nlatency = 50",
                "line 3: invalid type: integer `50`",
            ),
            ("[[rule]]\nlatency = \"5us\"", "missing field `name`"),
            (
                "[[rule]]\nname = \"a\"",
                "rule `a`: give `latency` or `deepest_state`",
            ),
            (
                "[[rule]]\nname = \"a\"\nlatncy = \"5us\"",
                "unknown field `latncy`",
            ),
            (
                "[[rule]]\nname = \" \"\nlatency = \"5us\"",
                "line 2: a name has letters",
            ),
            (
                "[[rule]]\nname = \"a\"\nlatency = \"5us\"\npercentile = 50",
                "line 4: not 90, 99, 99.9 or 99.99",
            ),
            (
                "[[rule]]\nname = \"a\"\nlatency = \"5us\"\ncpus = \"x\"",
                "line 4: not a list of CPUs",
            ),
            (
                "[[rule]]\nname = \"a\"\nlatency = \"5us\"\nquiet = \"1ms\"",
                "no `when.traffic`",
            ),
            (
                "[[rule]]\nname = \"a\"\nlatency = \"5us\"\nresult = \"x/y\"",
                "line 4: not an absolute path",
            ),
            (
                "[[rule]]\nname = \"a\"\nlatency = \"5us\"\nwhen.traffic.interface = \"a/b\"",
                "line 4: not the name of a network interface",
            ),
            (
                "[[rule]]\nname = \"a\"\nlatency = \"5us\"\n[rule.when.traffic]\ninterface = \"e\"\naddress = \"10.0.0.1/33\"",
                "line 6: not an address",
            ),
            ("x = [", "line 1"),
        ] {
            let error = refusal(text);
            assert!(error.contains(expected), "{text}: {error}");
            assert!(!error.contains('\n'), "{error}");
        }
    }

    #[test]
    fn two_rules_of_one_name_are_refused() {
        assert!(refusal(&format!("{SSH}{SSH}")).contains("two rules are called `ssh`"));
    }

    #[test]
    fn more_rules_than_bits_are_refused() {
        let rule = |nth: usize| format!("[[rule]]\nname = \"{nth}\"\nlatency = \"5us\"\n");
        let of = |count| (0..count).map(rule).collect::<String>();
        assert_eq!(Rules::parse(&of(MOST)).unwrap().rules.len(), MOST);
        assert!(refusal(&of(MOST + 1)).contains("33 rules"));
    }

    proptest! {
        #[test]
        fn any_text_is_rules_or_one_line(text in "(\\PC|[\\[\\]=\"\n.{},a-z0-9])*") {
            if let Err(error) = Rules::parse(&text) {
                prop_assert!(!error.contains(char::is_control), "{error:?}");
            }
        }
    }
}
