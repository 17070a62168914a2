//! The rules file: what is to be fast, and when.
//!
//! `docs/example/govern.toml` shows every key. Unknown keys are refused, and so is a file with any error:
//! whole, with the line of the first one.

mod cgroup;
mod disk;
mod power;
mod time;
mod traffic;
mod value;

use std::collections::BTreeSet;

use std::path::{Path, PathBuf};
use std::time::Duration;

use reveille_kernel::{Error, Result, files};
use reveille_results::statistics::Percentile;
use reveille_show::parse;
use serde::Deserialize;

pub use cgroup::{ATTRIBUTE, Cgroup, Glob, Places};
pub use disk::{By, Disk};
pub use power::Source;
pub use time::{Days, Hours};
pub use traffic::{Protocol, Traffic};

/// Where the rules of the service are.
pub const FILE: &str = "/etc/reveille/govern.toml";

/// Rules are bits of a number in the kernel's programs, and people read them.
const MOST: usize = 32;
/// Longer files are not rules.
const BYTES_MAX: u64 = 1 << 20;

/// All rules of a file.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rules {
    /// A result of `reveille measure` of this machine, by which latencies are judged, for rules that name
    /// none; `None`: the driver's table.
    #[serde(default, deserialize_with = "value::absolute")]
    pub result: Option<PathBuf>,
    /// A result of `reveille power states` of this machine, by which times without events are chosen; `None`: by the
    /// driver's target residencies.
    #[serde(default, deserialize_with = "value::absolute")]
    pub break_even: Option<PathBuf>,
    /// Serve applications on the socket of `reveille anticipate`, and keep each CPU awake for them for this
    /// share of its time, 0 to 1, at most; `None`: no.
    #[serde(default, deserialize_with = "value::some_share")]
    pub applications: Option<f64>,
    /// Count wake latencies, for the metrics. It costs a part of a microsecond at each wake-up.
    #[serde(default)]
    pub wake_latency: bool,
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
    /// Instead of a latency: the cgroups' attributes are the latency, which is not less than this, µs.
    #[serde(default, deserialize_with = "value::latency", rename = "at_least")]
    pub at_least_us: Option<u32>,
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

/// Conditions of a rule: it is in force while all of them hold. They are tested, and shown, in this order.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct When {
    /// The machine has power from there.
    pub power: Option<Source>,
    /// The batteries' charge is below this, %.
    #[serde(default, deserialize_with = "power::charge")]
    pub battery_below: Option<u8>,
    /// It is that time of the day, in local time.
    pub time: Option<Hours>,
    /// It is such a day, or hours that began on one last.
    pub days: Option<Days>,
    /// A task is in such a cgroup, which is not frozen; the bound is held on the CPUs that it may use.
    pub cgroup: Option<Cgroup>,
    /// Tasks wait for I/O of a disk.
    pub disk: Option<Disk>,
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
    /// What cgroups ask for, but not less than this latency, µs.
    AtLeast(u32),
}

impl std::fmt::Display for When {
    /// `on AC and packets on eth0`, `always`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let conditions = [
            self.power.map(|source| source.to_string()),
            self.battery_below
                .map(|percent| format!("charge below {percent}%")),
            self.when(),
            self.cgroup.as_ref().map(ToString::to_string),
            self.disk.as_ref().map(ToString::to_string),
            self.traffic.as_ref().map(ToString::to_string),
        ];
        let conditions: Vec<String> = conditions.into_iter().flatten().collect();
        match conditions.is_empty() {
            true => f.write_str("always"),
            false => f.write_str(&conditions.join(" and ")),
        }
    }
}

impl When {
    /// The time and days in words; `None`: any.
    pub fn when(&self) -> Option<String> {
        match (&self.time, &self.days) {
            (None, None) => None,
            (Some(hours), None) => Some(hours.to_string()),
            (None, Some(days)) => Some(format!("on {days}")),
            (Some(hours), Some(days)) => Some(format!("{hours} on {days}")),
        }
    }

    /// The disk, if its requests have the bound held.
    pub fn disk_by_bound(&self) -> Option<&Disk> {
        self.disk.as_ref().filter(|disk| disk.by == By::Bound)
    }

    /// The disk, if its completions are anticipated; no bound is held then.
    pub fn disk_anticipated(&self) -> Option<&Disk> {
        self.disk
            .as_ref()
            .filter(|disk| disk.by == By::Anticipation)
    }

    /// Is the bound held from an event on, until it is quiet?
    pub fn by_events(&self) -> bool {
        self.traffic.is_some() || self.disk_by_bound().is_some()
    }

    /// Does the rule ask for what cgroups' attributes ask for?
    fn by_attribute(&self) -> bool {
        self.cgroup.as_ref().is_some_and(|cgroup| cgroup.xattr)
    }
}

impl Rule {
    /// What it asks for.
    pub fn ask(&self) -> Ask<'_> {
        match (&self.deepest_state, self.latency_us, self.at_least_us) {
            (Some(state), _, _) => Ask::DeepestState(state),
            (None, Some(latency), _) => Ask::Latency(latency),
            (None, None, least) => Ask::AtLeast(least.expect("checked when it was read")),
        }
    }

    /// May a bound be held on that CPU?
    pub fn covers(&self, cpu: u32) -> bool {
        self.cpus.as_ref().is_none_or(|cpus| cpus.contains(&cpu))
    }

    fn check(&self) -> std::result::Result<(), String> {
        match (self.latency_us, &self.deepest_state, self.at_least_us) {
            (None, None, None) if self.when.by_attribute() => Err(
                "give `at_least`, the least latency that a cgroup's attribute may ask for".into(),
            ),
            (_, _, None) if self.when.by_attribute() => {
                Err("with `xattr` cgroups ask for the latency: give `at_least` instead".into())
            }
            (None, None, None) => Err("give `latency` or `deepest_state`".into()),
            (None, None, Some(_)) if !self.when.by_attribute() => {
                Err("`at_least` is for `when.cgroup` with `xattr = true`".into())
            }
            (None, Some(_), None) if self.result.is_some() => {
                Err("`result` judges a `latency`; `deepest_state` needs none".into())
            }
            (Some(_), Some(_), _) | (Some(_), _, Some(_)) | (_, Some(_), Some(_)) => {
                Err("give one of `latency`, `deepest_state` and `at_least`".into())
            }
            _ if self.when.disk.is_some() && self.when.traffic.is_some() => {
                Err("give either `when.disk` or `when.traffic`; write two rules to have both".into())
            }
            _ if self.quiet.is_some() && !self.when.by_events() => {
                Err("`quiet` is the time without traffic or I/O; the rule has no `when.traffic`, and no `when.disk` by bound".into())
            }
            _ => self.when.traffic.as_ref().map_or(Ok(()), Traffic::check),
        }
    }
}

impl Rules {
    /// The result that is to judge the rule, if any.
    pub fn result_of<'a>(&'a self, rule: &'a Rule) -> Option<&'a PathBuf> {
        let result = rule.result.as_ref().or(self.result.as_ref());
        result.filter(|_| rule.deepest_state.is_none())
    }

    /// The result of `power states` that is to choose the rule's quiet time, if any.
    pub fn break_even_of(&self, rule: &Rule) -> Option<&PathBuf> {
        let chosen = rule.when.by_events() && rule.quiet.is_none();
        self.break_even.as_ref().filter(|_| chosen)
    }

    /// All results that the rule needs.
    pub fn results_of<'a>(&'a self, rule: &'a Rule) -> impl Iterator<Item = &'a PathBuf> {
        self.result_of(rule)
            .into_iter()
            .chain(self.break_even_of(rule))
    }

    /// Reads a rules file.
    ///
    /// # Errors
    /// [`Error::Unreadable`] for wrong content, with the line; [`Error::Io`].
    pub fn read(path: &Path) -> Result<Self> {
        let unreadable = |why: String| Error::Unreadable {
            path: path.to_owned(),
            why,
        };
        let text = files::read(path, BYTES_MAX)?;
        let text = String::from_utf8(text);
        let text = text.map_err(|_| unreadable("is not UTF-8 text".into()))?;
        Self::parse(&text).map_err(unreadable)
    }

    /// Reads rules. The error is one line without the file's name.
    pub fn parse(text: &str) -> std::result::Result<Self, String> {
        let rules: Self = toml::from_str(text)
            .map_err(|error| parse::in_one_line(text, error.span(), error.message()))?;
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use reveille_snapshot::snapshot;

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
        let said = [
            "[[rule]]\nname = \"a\"\nlatency = \"50\"",
            "[[rule]]\nname = \"a\"\nlatency = \"-5us\"",
            "[[rule]]\nname = \"a\"\nlatency = \"3000s\"",
            "[[rule]]\nname = \"a\"\nlatency = 50",
            "[[rule]]\nlatency = \"5us\"",
            "[[rule]]\nname = \"a\"",
            "[[rule]]\nname = \"a\"\nlatency = \"5us\"\ndeepest_state = \"C1\"",
            "[[rule]]\nname = \"a\"\nat_least = \"5us\"",
            "[[rule]]\nname = \"a\"\nlatency = \"5us\"\nat_least = \"5us\"\nwhen.cgroup = { path = \"a\", xattr = true }",
            "[[rule]]\nname = \"a\"\nwhen.cgroup = { path = \"a\", xattr = true }",
            "[[rule]]\nname = \"a\"\nlatency = \"5us\"\nwhen.cgroup = { path = \"a\", xattr = true }",
            "[[rule]]\nname = \"a\"\nlatncy = \"5us\"",
            "[[rule]]\nname = \" \"\nlatency = \"5us\"",
            "[[rule]]\nname = \"a\"\nlatency = \"5us\"\npercentile = 50",
            "[[rule]]\nname = \"a\"\nlatency = \"5us\"\ncpus = \"x\"",
            "[[rule]]\nname = \"a\"\nlatency = \"5us\"\nquiet = \"1ms\"",
            "[[rule]]\nname = \"a\"\nlatency = \"5us\"\nresult = \"x/y\"",
            "[[rule]]\nname = \"a\"\nlatency = \"5us\"\nwhen.traffic.interface = \"a/b\"",
            "[[rule]]\nname = \"a\"\nlatency = \"5us\"\n[rule.when.traffic]\ninterface = \"e\"\naddress = \"10.0.0.1/33\"",
            "[[rule]]\nname = \"a\"\nlatency = \"5us\"\nwhen.disk = { device = \"a b\" }",
            "[[rule]]\nname = \"a\"\nlatency = \"5us\"\nwhen.disk = { device = \"a\", budget = \"0%\" }",
            "[[rule]]\nname = \"a\"\nlatency = \"5us\"\nwhen.disk.device = \"a\"\nwhen.traffic.interface = \"b\"",
            "applications = \"5\"",
            "x = [",
        ]
        .map(|text| (format!("{text:?}"), refusal(text)));
        assert!(
            said.iter().all(|(_, said)| !said.contains('\n')),
            "{said:#?}"
        );
        snapshot!("errors", said);
    }

    #[test]
    fn a_wrong_condition_has_its_line() {
        let deep = format!("cgroup = \"{}\"", vec!["a"; 32].join("/"));
        let said = [
            "power = \"mains\"",
            "power = 5",
            "battery_below = \"30\"",
            "battery_below = \"0%\"",
            "battery_below = \"101%\"",
            "battery_below = 0.3",
            "time = \"8-18\"",
            "time = \"08:00-25:00\"",
            "days = []",
            "days = [\"monday\"]",
            "cgroup = \"/system.slice\"",
            "cgroup = \"\"",
            "cgroup = \"a//b\"",
            "cgroup = \"a/../b\"",
            "cgroup = \"a/b**\"",
            "cgroup = \"a/[bc]\"",
            "cgroup = 5",
            "cgroup = { xattr = true }",
            "cgroup = { path = \"a\", xatr = true }",
            "cgroup = { path = \"a\", xattr = 1 }",
            "moon = \"full\"",
            &deep,
        ]
        .map(|condition| {
            let rule = "[[rule]]\nname = \"a\"\nlatency = \"5us\"\n[rule.when]\n";
            (condition, refusal(&format!("{rule}{condition}")))
        });
        snapshot!("errors", said);
    }

    #[test]
    fn conditions_are_shown_in_one_order() {
        let rules = Rules::parse(
            r#"
            [[rule]]
            name = "all"
            at_least = "20us"
            [rule.when]
            traffic.interface = "eth0"
            cgroup = { path = "a/**", xattr = true }
            days = ["sat", "mon"]
            time = "22:00-06:00"
            battery_below = "30%"
            power = "battery"
            "#,
        );
        let rule = &rules.unwrap().rules[0];
        snapshot!("conditions", [("all", &rule.when)]);
        assert_eq!(rule.ask(), Ask::AtLeast(20));
    }

    #[test]
    fn a_pattern_of_cgroups_needs_no_table() {
        let text = "[[rule]]\nname = \"a\"\nlatency = \"5us\"\nwhen.cgroup = ";
        let short = Rules::parse(&format!("{text}\"a/*\"")).unwrap();
        let long = Rules::parse(&format!("{text}{{ path = \"a/*\" }}")).unwrap();
        assert_eq!(short, long);
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

    const EXAMPLE: &str = include_str!("../../../docs/example/govern.toml");

    #[test]
    fn the_example_does_nothing_until_it_is_edited() {
        assert_eq!(Rules::parse(EXAMPLE).unwrap(), Rules::default());
    }

    #[test]
    fn the_example_has_every_key() {
        let is_toml = |line: &str| {
            let key = line.split(" = ").next().unwrap_or_default();
            let is_key = key
                .chars()
                .all(|c| c.is_ascii_lowercase() || "_.".contains(c));
            line.starts_with('[') || line.contains(" = ") && is_key
        };
        let lines = EXAMPLE.lines().filter_map(|line| line.strip_prefix("# "));
        let text: Vec<&str> = lines.filter(|line| is_toml(line)).collect();
        let Rules {
            result,
            break_even,
            applications,
            wake_latency,
            upower_qos,
            rules,
        } = Rules::parse(&text.join("\n")).unwrap();
        assert!(result.is_some() && break_even.is_some());
        assert!(applications == Some(0.05) && wake_latency && upower_qos);
        // A key that is added has to be named here, and in the example.
        let Rule {
            name: _,
            latency_us,
            percentile: _,
            deepest_state: _,
            at_least_us: _,
            result,
            cpus,
            quiet,
            when,
        } = &rules[0];
        assert!(latency_us.is_some() && result.is_some() && cpus.is_some() && quiet.is_some());
        let When {
            power,
            battery_below,
            time,
            days,
            cgroup,
            disk,
            traffic,
        } = when;
        assert!(power.is_some() && battery_below.is_some() && time.is_some() && days.is_some());
        assert!(cgroup.is_some() && disk.is_none());
        let Traffic {
            interface: _,
            port,
            protocol,
            address,
            packets: _,
            window: _,
            readers: _,
        } = traffic.as_ref().unwrap();
        assert!(port.is_some() && protocol.is_some() && address.is_some());
        assert!(rules[1].deepest_state.is_some());
        let disk = rules[2].when.disk_anticipated().unwrap();
        assert_eq!((disk.device.as_str(), disk.budget), ("nvme0n1", 0.05));
        assert!(rules[3].at_least_us.is_some() && rules[3].when.by_attribute());
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
