//! Conditions of rules beside traffic, as they are now: power, time, cgroups; and files and cgroups that are
//! missing.
//!
//! What is read is kept: [`Conditions::catch_up`] takes up what the descriptors in an epoll instance announce,
//! and [`Conditions::devices`] what uevents do. Nothing is looked at without one of them.

mod cgroups;
mod clock;
mod files;
mod power;

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use nix::sys::epoll::{Epoll, EpollEvent, EpollFlags};
use reveille_anticipate::BlockDevice;
use reveille_kernel::{Error, Root, network};
use reveille_show::quantity::listed;

use self::cgroups::{State, Tree};
use self::clock::Clock;
use self::files::Files;
use self::power::Power;
use crate::rules::{Cgroup, Rule, Rules, Source, When};
use crate::way;

/// Of the cgroups for which a rule is in force, names that `explain` has.
const NAMES: usize = 3;

/// The conditions of all rules.
pub struct Conditions {
    root: Root,
    rules: Rules,
    /// Only if a rule needs it, as the others.
    power: Option<Power>,
    clock: Option<Clock>,
    /// Of each rule.
    trees: Vec<Option<Tree>>,
    files: Option<Files>,
    problems: Vec<String>,
}

/// A condition as it is now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Does it hold?
    pub holds: bool,
    /// How things are: `on AC`.
    pub why: String,
}

/// A rule's conditions as they are now.
#[derive(Debug, Default)]
pub struct Standing {
    machines: bool,
    cgroups: Option<OnCpus>,
}

/// What cgroups ask for on the CPUs that they may use.
#[derive(Debug, Default)]
struct OnCpus {
    everywhere: Option<Asked>,
    on: BTreeMap<u32, Asked>,
}

/// What is asked for where a rule's conditions hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Asked {
    /// By a cgroup's attribute, µs.
    Latency(u32),
    /// What the rule asks for.
    Rules,
}

impl Standing {
    /// What is asked for on that CPU; `None`: a condition does not hold.
    pub fn on(&self, cpu: u32) -> Option<Asked> {
        if !self.machines {
            return None;
        }
        match &self.cgroups {
            None => Some(Asked::Rules),
            Some(cgroups) => {
                let on = cgroups.on.get(&cpu);
                on.copied().into_iter().chain(cgroups.everywhere).min()
            }
        }
    }
}

impl Conditions {
    /// Of no rules.
    pub fn nothing() -> Self {
        Self {
            root: Root::default(),
            rules: Rules::default(),
            power: None,
            clock: None,
            trees: Vec::new(),
            files: None,
            problems: Vec::new(),
        }
    }

    /// Reads what the rules need, and has its changes announced by `epoll`.
    pub fn watch(rules: &Rules, root: &Root, epoll: &Epoll) -> Self {
        let whens = || rules.rules.iter().map(|rule| &rule.when);
        let needs_power = |when: &When| when.power.is_some() || when.battery_below.is_some();
        let mut conditions = Self {
            root: root.clone(),
            rules: rules.clone(),
            power: whens().any(needs_power).then(|| Power::read(root)),
            ..Self::nothing()
        };
        if whens().any(|when| when.when().is_some()) {
            let clock = Clock::new(clock::zone(root)).map_err(|error| error.to_string());
            conditions.clock = conditions.announced(clock, epoll, |clock| clock.timer.as_fd());
        }
        for rule in &rules.rules {
            let tree = rule.when.cgroup.as_ref().and_then(|cgroup| {
                let tree = Tree::watch(&cgroups::mount(root)?, cgroup);
                let tree = tree.map_err(|error| way::unwatched("cgroups", error));
                conditions.announced(tree, epoll, AsFd::as_fd)
            });
            conditions.trees.push(tree);
        }
        if whens().any(|when| when.cgroup.is_some()) && cgroups::mount(root).is_none() {
            conditions.problems.push("cgroup2 is not mounted".into());
        }
        let results = rules.rules.iter().flat_map(|rule| rules.results_of(rule));
        // It judges what programs ask for, too, whatever the rules are.
        let results = results.chain(&rules.result);
        let zone = conditions.clock.is_some().then(|| root.path(clock::ZONE));
        let files: BTreeSet<PathBuf> = results.cloned().chain(zone).collect();
        if !files.is_empty() {
            let files = Files::watch(files).map_err(|error| way::unwatched("files", error));
            conditions.files = conditions.announced(files, epoll, AsFd::as_fd);
        }
        conditions.set_timer();
        conditions
    }

    /// Adds the descriptor of `made` to `epoll`; `None` with a problem where it cannot be made.
    fn announced<T>(
        &mut self,
        made: std::result::Result<T, String>,
        epoll: &Epoll,
        descriptor: impl FnOnce(&T) -> std::os::fd::BorrowedFd<'_>,
    ) -> Option<T> {
        let added = made.and_then(|made| {
            let event = EpollEvent::new(EpollFlags::EPOLLIN, 0);
            let added = epoll.add(descriptor(&made), event);
            let added = added.map_err(Error::system("waiting for a change"));
            added.map_err(|error| error.to_string())?;
            Ok(made)
        });
        added.map_err(|problem| self.problems.push(problem)).ok()
    }

    /// What does not work, a sentence each without its full stop.
    pub fn problems(&self) -> Vec<String> {
        let rules = self.trees.iter().zip(&self.rules.rules);
        let unwatched = self
            .files
            .iter()
            .filter_map(|files| files.unwatched.clone());
        let unwatched = unwatched.chain(rules.clone().filter_map(|(tree, rule)| {
            let of = format!("cgroups of rule `{}`", rule.name);
            Some(way::unwatched(of, tree.as_ref()?.unwatched?))
        }));
        let left_out = rules.filter_map(|(tree, rule)| {
            let left_out = tree.as_ref()?.left_out_words()?;
            Some(format!("rule `{}`: {left_out}", rule.name))
        });
        let problems = self.problems.iter().cloned();
        problems.chain(unwatched).chain(left_out).collect()
    }

    /// Takes up what was announced; true if a result by which rules are judged appeared, changed or vanished.
    pub fn catch_up(&mut self) -> bool {
        let files = self.files.as_mut().map(Files::changed).unwrap_or_default();
        let zone = self.root.path(clock::ZONE);
        let (zones, results): (Vec<_>, Vec<_>) = files.into_iter().partition(|path| *path == zone);
        if let Some(clock) = &mut self.clock {
            if !zones.is_empty() {
                clock.zone = clock::zone(&self.root);
            }
            if clock.timer.wait().is_ok() || !zones.is_empty() {
                self.set_timer();
            }
        }
        self.trees.iter_mut().flatten().for_each(Tree::catch_up);
        !results.is_empty()
    }

    /// Looks at what changes with devices.
    pub fn devices(&mut self) {
        if let Some(power) = &mut self.power {
            *power = Power::read(&self.root);
        }
        self.trees.iter_mut().flatten().for_each(Tree::look_at_all);
    }

    fn set_timer(&mut self) {
        let whens = self.rules.rules.iter().map(|rule| &rule.when);
        let whens = whens.filter(|when| when.when().is_some());
        if let Some(clock) = &self.clock
            && let Err(error) = clock.wait_for_change(whens, Timestamp::now)
        {
            self.problems.push(error.to_string());
        }
    }

    /// How the conditions of the rule at that place stand.
    pub fn standing(&self, nth: usize, now: Timestamp) -> Standing {
        let Some(rule) = self.rules.rules.get(nth) else {
            return Standing::default();
        };
        Standing {
            machines: self.of_machine(rule, now).iter().all(|one| one.holds),
            cgroups: rule.when.cgroup.as_ref().map(|_| self.on_cpus(nth)),
        }
    }

    fn on_cpus(&self, nth: usize) -> OnCpus {
        let mut of = OnCpus::default();
        let tree = self.trees.get(nth).and_then(Option::as_ref);
        let members = tree.into_iter().flat_map(Tree::members);
        for (_, state) in members.filter(|(_, state)| state.is_active()) {
            let asked = match state.asks {
                Some(Ok(us)) => Asked::Latency(us),
                _ => Asked::Rules,
            };
            match &state.cpus {
                None => of.everywhere = Some(of.everywhere.map_or(asked, |one| one.min(asked))),
                Some(cpus) => {
                    for cpu in cpus {
                        let on = of.on.entry(*cpu).or_insert(asked);
                        *on = asked.min(*on);
                    }
                }
            }
        }
        of
    }

    /// The conditions of the rule at that place on a CPU, in the order of [`When`], without traffic.
    pub fn findings(&self, nth: usize, cpu: u32, now: Timestamp) -> Vec<Finding> {
        let rule = &self.rules.rules[nth];
        let mut findings = self.of_machine(rule, now);
        if let Some(cgroup) = &rule.when.cgroup {
            let tree = self.trees.get(nth).and_then(Option::as_ref);
            findings.push(of_cgroups(cgroup, tree, cpu));
        }
        findings
    }

    /// Those that are the same on all CPUs.
    fn of_machine(&self, rule: &Rule, now: Timestamp) -> Vec<Finding> {
        let when = &rule.when;
        let mut findings = Vec::new();
        if let Some(power) = &self.power {
            findings.extend(when.power.map(|wanted| of_source(wanted, power)));
            findings.extend(when.battery_below.map(|percent| of_charge(percent, power)));
        }
        if let Some(words) = when.when() {
            let is_within = |clock: &Clock| clock.is_within(when, now);
            let holds = self.clock.as_ref().is_some_and(is_within);
            findings.push(Finding {
                holds,
                why: match holds {
                    true => words,
                    false => format!("not {words}"),
                },
            });
        }
        findings
    }

    /// What the rule at that place waits for: `interface eth9`.
    pub fn waits_for(&self, nth: usize) -> Option<String> {
        let rule = self.rules.rules.get(nth)?;
        let tree = self.trees.get(nth).and_then(Option::as_ref);
        let missing = missing(rule, &self.rules, tree, &self.root);
        (!missing.is_empty()).then(|| missing.join(", "))
    }
}

fn of_source(wanted: Source, power: &Power) -> Finding {
    Finding {
        holds: power.source == wanted,
        why: power.source.to_string(),
    }
}

fn of_charge(percent: u8, power: &Power) -> Finding {
    Finding {
        holds: power
            .charge
            .is_some_and(|charge| charge < f64::from(percent)),
        why: match power.charge {
            Some(charge) => format!("charge {charge:.0}%"),
            None => "no battery gives its charge".into(),
        },
    }
}

fn of_cgroups(cgroup: &Cgroup, tree: Option<&Tree>, cpu: u32) -> Finding {
    let not = |why: String| Finding { holds: false, why };
    let of = &cgroup.path;
    let Some(tree) = tree else {
        return not("cgroups are not watched".into());
    };
    let members: Vec<(&Path, &State)> = tree.members().collect();
    let active = members.iter().filter(|(_, state)| state.is_active());
    let here = active.clone().filter(|(_, state)| state.may_use(cpu));
    let names: Vec<String> = here
        .clone()
        .take(NAMES)
        .map(|(path, state)| match state.asks {
            Some(Ok(us)) => format!("{} asks for {us} µs", cgroups::shown(path)),
            _ => format!("a task in {}", cgroups::shown(path)),
        })
        .collect();
    if !names.is_empty() {
        let rest = here.count() - names.len();
        let more = if rest > 0 {
            format!(", and {rest} more")
        } else {
            String::new()
        };
        return Finding {
            holds: true,
            why: format!("{}{more}", names.join(", ")),
        };
    }
    if active.count() > 0 {
        return not(format!("cgroup {of} may not use this CPU"));
    }
    let wrong = members.iter().find_map(|(path, state)| match &state.asks {
        Some(Err(why)) => Some(format!(
            "{}: the attribute is no latency: {why}",
            cgroups::shown(path)
        )),
        _ => None,
    });
    not(match (wrong, members.is_empty()) {
        (Some(wrong), _) => wrong,
        (None, true) => format!(
            "no cgroup {of}{}",
            if cgroup.xattr {
                " with the attribute"
            } else {
                ""
            }
        ),
        (None, false) => format!("no task runs in cgroup {of}"),
    })
}

/// What the rule needs and this machine lacks: `interface eth9`, a name each.
fn missing(rule: &Rule, rules: &Rules, tree: Option<&Tree>, root: &Root) -> Vec<String> {
    let mut missing = Vec::new();
    let results = rules.results_of(rule).filter(|result| !result.exists());
    missing.extend(results.map(|result| format!("result {}", result.display())));
    if let Some(cgroup) = &rule.when.cgroup {
        match tree {
            None => missing.push("cgroup2".into()),
            Some(tree) if !cgroup.xattr && tree.members().next().is_none() => {
                missing.push(format!("cgroup {}", cgroup.path));
            }
            Some(_) => {}
        }
    }
    if let Some(disk) = &rule.when.disk
        && BlockDevice::named(root, &disk.device).is_err()
    {
        missing.push(format!("disk {}", disk.device));
    }
    if let Some(traffic) = &rule.when.traffic {
        let interface = &traffic.interface;
        let is_there = match root.is_live() {
            true => network::index_here(interface).is_some(),
            false => root.path(&format!("/sys/class/net/{interface}")).exists(),
        };
        if !is_there {
            missing.push(format!("interface {interface}"));
        }
    }
    missing
}

/// What a user should know of the rule's conditions on this machine, a sentence each without its full stop.
pub fn notes(rule: &Rule, rules: &Rules, root: &Root) -> Vec<String> {
    let mut notes = Vec::new();
    let when = &rule.when;
    if when.power.is_some() || when.battery_below.is_some() {
        let power = Power::read(root);
        if !power.is_known {
            notes.push("the machine has no power supply in sysfs: it counts as on AC".into());
        }
        if when.battery_below.is_some() && power.charge.is_none() {
            notes.push("no battery gives its charge: the rule is never in force".into());
        }
    }
    let tree = when.cgroup.as_ref().and_then(|cgroup| {
        let mount = cgroups::mount(root)?;
        Tree::watch(&mount, cgroup).ok()
    });
    let missing = missing(rule, rules, tree.as_ref(), root).into_iter();
    let waited = missing.filter(|missing| !missing.starts_with("result "));
    notes.extend(waited.map(|missing| format!("{missing} is missing; the service waits for it")));
    let interface = when.traffic.as_ref().map(|traffic| &traffic.interface);
    notes.extend(interface.and_then(|interface| seen_below(root, interface)));
    notes
}

/// A note for an interface whose packets are seen on another one: a VLAN, a bond, a team, a macvlan.
fn seen_below(root: &Root, interface: &str) -> Option<String> {
    /// These hand packets to the kernel once more as their own (`netif_receive_skb`).
    const SEEN_THEMSELVES: [&str; 5] = ["batadv", "bridge", "dsa", "macsec", "vxlan"];
    let folder = format!("/sys/class/net/{interface}");
    let uevent = root.text(&format!("{folder}/uevent")).unwrap_or_default();
    let kind = uevent
        .lines()
        .find_map(|line| line.strip_prefix("DEVTYPE="));
    if kind.is_some_and(|kind| SEEN_THEMSELVES.contains(&kind)) {
        return None;
    }
    let names = root.names(&folder).unwrap_or_default();
    let below = names.iter().filter_map(|name| name.strip_prefix("lower_"));
    let below: Vec<String> = below.map(str::to_owned).collect();
    let instead = match &below[..] {
        [] => return None,
        [one] => format!("name {one} instead"),
        all => format!("name these instead, in a rule each: {}", listed(all)),
    };
    Some(format!(
        "packets of {interface} are seen on the interface below it; {instead}"
    ))
}

#[cfg(test)]
mod tests;
