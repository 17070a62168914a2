//! What a rule asks of this machine: the bound for each kind of CPU, and what it was judged by.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use reveille_advise::hold::{self, Asked};
use reveille_advise::{MachineResult, measured_elsewhere};
use reveille_kernel::groups::{self, Group};
use reveille_kernel::limits::Deepest;
use reveille_kernel::{Cpu, Identity, Idle, IdleState, Result, Root, bounds, cpulist, requests};
use reveille_power::states;
use reveille_results::statistics::Percentile;
use reveille_show::quantity::listed;
use serde::{Deserialize, Serialize};

use crate::conditions;
use crate::quiet::{self, Gaps, Late};
use crate::rules::{Ask, Rule, Rules, When};

/// A rule holds its bound after the last packet for so many of the shortest stays that pay: a pause that is a
/// hundred times as long loses one per cent of its sleep, and traffic without such pauses is not held
/// and released for each packet.
const QUIET_STAYS: u32 = 100;
const QUIET_MAX: Duration = Duration::from_secs(1);
/// Who chose a quiet time that nothing else may change.
const THE_RULE: &str = "the rule";

/// A rule on this machine.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Judged {
    /// The rule's name.
    pub rule: String,
    /// What it asks for: `50 µs (p99.9)`, `no state deeper than C1`.
    pub asks: String,
    /// CPUs are woken just before completions; no bound is held.
    #[serde(default)]
    pub anticipates: bool,
    /// When it is in force, in words.
    pub when: String,
    /// The result that judges it, if any.
    pub result: Option<PathBuf>,
    /// CPUs that are alike; empty if it can hold nothing.
    pub groups: Vec<JudgedGroup>,
    /// How long a bound outlasts the traffic, s; `None` without traffic.
    pub quiet_s: Option<f64>,
    /// How that was chosen.
    pub quiet_by: Option<String>,
    /// How the running service found it, where the bound mostly was too late.
    #[serde(default)]
    pub late: Option<Late>,
    /// What a user should know, a sentence each without its full stop.
    pub notes: Vec<String>,
}

/// CPUs that are alike, under a rule.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JudgedGroup {
    /// Ascending.
    pub cpus: Vec<u32>,
    /// What is held, µs, or what it would take where completions are anticipated; `None`: every state is within
    /// the bound, so nothing.
    pub bound_us: Option<u32>,
    /// States that can be entered under it.
    pub leaves: Vec<String>,
    /// States that it stops.
    pub stops: Vec<String>,
    /// `result` or `table`.
    pub judged_by: String,
    /// What the driver's table alone would hold, µs, if that is another figure.
    pub by_table_us: Option<u32>,
    /// Why nothing is held, a clause; `None` where something is.
    #[serde(default)]
    pub why_nothing: Option<String>,
    /// What the bound does not do of what is asked, or is not known to, a clause.
    #[serde(default)]
    pub but: Option<String>,
}

impl Judged {
    /// The bound on that CPU, µs.
    pub fn bound_us(&self, cpu: u32) -> Option<u32> {
        let group = self.groups.iter().find(|group| group.cpus.contains(&cpu));
        group.and_then(|group| group.bound_us)
    }

    /// Notes how the rule's packets found it, by each CPU's gaps and the quiet time there.
    pub fn is_found(&mut self, cpus: &[(Gaps, Duration)]) {
        let longest = cpus.iter().map(|(_, quiet)| *quiet).max();
        if let Some(longest) = longest.filter(|longest| *longest > self.quiet()) {
            self.quiet_s = Some(longest.as_secs_f64());
            self.quiet_by = Some("the traffic's gaps".into());
        }
        self.late = quiet::late(cpus);
    }

    /// Takes over how the running service found this rule, if it is among those.
    pub fn learn(&mut self, found: &[Self]) {
        let is_it = |other: &&Self| {
            let is_chosen = |one: &Self| one.quiet_by.as_deref() != Some(THE_RULE);
            let alike = |one: &Self| (one.rule.clone(), one.asks.clone(), one.when.clone());
            alike(other) == alike(self)
                && (is_chosen(self) == is_chosen(other))
                && (is_chosen(self) || self.quiet_s == other.quiet_s)
        };
        self.late = found.iter().find(is_it).and_then(|other| other.late);
    }

    /// How long a bound outlasts the traffic, at least.
    pub fn quiet(&self) -> Duration {
        self.quiet_s
            .map_or(quiet::SHORTEST, Duration::from_secs_f64)
    }
}

/// Another program's bound on a CPU. It stays, so rules hold none there.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct InTheWay {
    /// The CPU's number.
    pub cpu: u32,
    /// As the setting has it: `20`, `n/a`.
    pub value: String,
}

/// What rules mean on a machine where no service holds bounds.
#[derive(Debug, PartialEq, Serialize)]
pub struct Checked {
    /// In the file's order.
    pub rules: Vec<Judged>,
    /// Ascending; `None` where it is not known, as where a service does not answer whose own bounds they may be.
    pub in_the_way: Option<Vec<InTheWay>>,
}

/// Judges all rules, with notes about what their conditions lack on this machine.
///
/// # Errors
/// Where the machine cannot be read.
pub fn check(rules: &Rules, root: &Root) -> Result<Checked> {
    let judge = Judge::of(Idle::read(root)?, root);
    let mut all = judge.all(rules);
    for (judged, rule) in all.iter_mut().zip(&rules.rules) {
        judged.notes.extend(conditions::notes(rule, rules, root));
    }
    let in_the_way = judge.idle.cpus.iter().filter_map(|cpu| {
        let us = bounds::in_force_us(cpu, None)?;
        let (cpu, value) = (cpu.number, requests::text_of(us));
        Some(InTheWay { cpu, value })
    });
    Ok(Checked {
        rules: all,
        in_the_way: Some(in_the_way.collect()),
    })
}

/// What judges latencies: the machine as it was, and results, each of which is read once. So no program can have
/// them read all the time.
pub struct Judge {
    /// The machine.
    pub idle: Idle,
    identity: Identity,
    results: RefCell<Vec<Opened>>,
    break_evens: RefCell<BTreeMap<PathBuf, Rc<BreakEven>>>,
}

/// A result at a percentile; `None` if it cannot judge.
struct Opened {
    path: PathBuf,
    percentile: Percentile,
    result: Option<Rc<MachineResult>>,
    /// Why it cannot.
    notes: Vec<String>,
}

/// What is known of break-even residencies.
#[derive(Default)]
struct BreakEven {
    /// By state, µs.
    by_state_us: BTreeMap<String, u64>,
    /// What a reader must know, or why there is none.
    notes: Vec<String>,
}

/// What judges one rule.
#[derive(Default)]
struct By {
    /// The result and its file; without, the driver's table judges.
    result: Option<(PathBuf, Rc<MachineResult>)>,
    break_even: Rc<BreakEven>,
    /// Why the result cannot judge.
    notes: Vec<String>,
}

/// Programs name no percentile.
const OF_PROGRAMS: Percentile = Percentile::P99_9;

impl Judge {
    /// On that machine; results are read when they are needed first.
    pub fn of(idle: Idle, root: &Root) -> Self {
        Self {
            idle,
            identity: Identity::read(root),
            results: RefCell::default(),
            break_evens: RefCell::default(),
        }
    }

    /// All rules, in their order.
    pub fn all(&self, rules: &Rules) -> Vec<Judged> {
        let judge = |rule| self.rule(rules, rule);
        rules.rules.iter().map(judge).collect()
    }

    /// The rule as if it asked for that latency, µs.
    pub fn with_latency(&self, rules: &Rules, rule: &Rule, latency_us: u32) -> Judged {
        let rule = Rule {
            latency_us: Some(latency_us),
            ..rule.clone()
        };
        self.rule(rules, &rule)
    }

    /// The latency, µs, that a program asks for on these CPUs (`None`: all), as a rule of that name.
    pub fn of_program(
        &self,
        rules: &Rules,
        name: &str,
        latency_us: u32,
        cpus: Option<Vec<u32>>,
    ) -> Judged {
        let rule = Rule {
            name: name.to_owned(),
            latency_us: Some(latency_us),
            percentile: OF_PROGRAMS,
            deepest_state: None,
            at_least_us: None,
            result: None,
            cpus,
            quiet: None,
            when: When::default(),
        };
        self.rule(rules, &rule)
    }

    fn rule(&self, rules: &Rules, rule: &Rule) -> Judged {
        let mut by = By::default();
        let result = rules.result_of(rule);
        let judges = rule.latency_us.is_some() && requests::honoured(&self.idle);
        if let Some(path) = result.filter(|_| judges) {
            by = self.open(path, rule.percentile);
        }
        if let Some(path) = rules.break_even_of(rule) {
            by.break_even = self.break_even(path);
        }
        judged_by(&by, rule, &self.idle, &self.identity)
    }

    fn open(&self, path: &Path, percentile: Percentile) -> By {
        let mut results = self.results.borrow_mut();
        let is_it = |one: &Opened| one.path == path && one.percentile == percentile;
        let place = results.iter().position(is_it).unwrap_or_else(|| {
            let mut notes = Vec::new();
            results.push(Opened {
                path: path.to_owned(),
                percentile,
                result: open(path, &self.idle, percentile, &mut notes).map(Rc::new),
                notes,
            });
            results.len() - 1
        });
        let opened = &results[place];
        let result = opened.result.clone();
        By {
            result: result.map(|result| (path.to_owned(), result)),
            notes: opened.notes.clone(),
            ..By::default()
        }
    }

    fn break_even(&self, path: &Path) -> Rc<BreakEven> {
        let mut known = self.break_evens.borrow_mut();
        let of = known.entry(path.to_owned());
        let of = of.or_insert_with(|| Rc::new(BreakEven::open(path, &self.identity)));
        of.clone()
    }
}

impl BreakEven {
    fn open(path: &Path, here: &Identity) -> Self {
        match states::open(path) {
            Ok(states) => Self {
                notes: measured_elsewhere(&path.display().to_string(), &states.about.machine, here),
                by_state_us: states.break_even_us(),
            },
            Err(error) => Self {
                notes: vec![format!("{error}; the quiet time is by target residencies")],
                ..Self::default()
            },
        }
    }
}

fn judged_by(by: &By, rule: &Rule, idle: &Idle, here: &Identity) -> Judged {
    let mut judged = Judged {
        rule: rule.name.clone(),
        asks: asks(rule),
        anticipates: rule.when.disk_anticipated().is_some(),
        when: rule.when.to_string(),
        result: None,
        groups: Vec::new(),
        quiet_s: None,
        quiet_by: None,
        late: None,
        notes: Vec::new(),
    };
    let covered = |cpu: &&Cpu| cpu.online && rule.covers(cpu.number);
    // Whatever bounds them now, and whatever is off: nothing announces that a `limit` ends.
    let unlimited = |cpu: &Cpu| {
        let mut cpu = Cpu {
            resume_latency_us: None,
            ..cpu.clone()
        };
        for state in &mut cpu.states {
            state.disabled = state.disabled.map(|_| false);
        }
        cpu
    };
    let cpus: Vec<Cpu> = idle.cpus.iter().filter(covered).map(unlimited).collect();
    let groups = groups::alike(&cpus);
    note_missing_cpus(rule, idle, &mut judged.notes);
    if !requests::honoured(idle) {
        let why = "latency bounds have no effect here: no cpuidle driver and governor";
        judged.notes.push(why.into());
        return judged;
    }
    let notes = by.notes.iter().chain(&by.break_even.notes);
    judged.notes.extend(notes.cloned());
    let measured = by.result.as_ref().map(|(path, measured)| {
        judged.result = Some(path.clone());
        judged.notes.extend(measured.notes(here));
        &**measured
    });
    for group in groups {
        let group = bound(rule, &group, idle, measured, &mut judged.notes);
        judged.groups.push(group);
    }
    if rule.when.by_events() {
        let (quiet, chosen) = quiet(rule, &judged.groups, idle, &by.break_even.by_state_us);
        judged.quiet_s = Some(quiet.as_secs_f64());
        judged.quiet_by = Some(chosen);
    }
    judged
}

fn asks(rule: &Rule) -> String {
    match rule.ask() {
        Ask::Latency(0) => "no sleep".to_owned(),
        Ask::Latency(us) => format!("{us} µs at {}", rule.percentile.name()),
        Ask::AtLeast(us) => format!("{us} µs or more at {}", rule.percentile.name()),
        Ask::DeepestState(state) => format!("no state deeper than {state}"),
    }
}

fn note_missing_cpus(rule: &Rule, idle: &Idle, notes: &mut Vec<String>) {
    let Some(cpus) = &rule.cpus else { return };
    let is_missing = |cpu: &&u32| idle.cpu(**cpu).is_none_or(|cpu| !cpu.online);
    let missing: Vec<u32> = cpus.iter().filter(is_missing).copied().collect();
    if !missing.is_empty() {
        notes.push(format!("missing or offline: {}", cpulist::named(&missing)));
    }
}

/// The result; `None` with a note where it cannot judge.
fn open(
    path: &Path,
    idle: &Idle,
    percentile: Percentile,
    notes: &mut Vec<String>,
) -> Option<MachineResult> {
    match MachineResult::open(path, idle, percentile) {
        Ok(measured) => Some(measured),
        Err(error) => {
            notes.push(format!("{error}; judged by the driver's table"));
            None
        }
    }
}

/// The bound on CPUs that are alike.
fn bound(
    rule: &Rule,
    group: &Group,
    idle: &Idle,
    measured: Option<&MachineResult>,
    notes: &mut Vec<String>,
) -> JudgedGroup {
    let names = |states: &[IdleState]| -> Vec<String> {
        states.iter().map(|state| state.name.clone()).collect()
    };
    let unmet = |why| Asked {
        request_us: 0,
        leaves: names(&group.states),
        stops: Vec::new(),
        by_result: measured.is_some(),
        unmet: Some(why),
        notes: Vec::new(),
    };
    let wanted = match rule.ask() {
        Ask::Latency(us) | Ask::AtLeast(us) => Ok((us, None)),
        Ask::DeepestState(name) => {
            deepest(group, idle, name, notes).map(|(us, state)| (us, Some(state)))
        }
    };
    let ask = |by| match &wanted {
        Ok((us, _)) => {
            hold::asked(group, idle, by, *us).unwrap_or_else(|why| unmet(why.to_string()))
        }
        Err(why) => unmet(why.clone()),
    };
    let (by_table, asked) = (ask(None), ask(measured));
    let unknown = |asked: &Asked| -> Vec<String> {
        let mut names = names(&group.states);
        names.retain(|name| !asked.leaves.contains(name) && !asked.stops.contains(name));
        names
    };
    let held = |asked: &Asked| {
        let stops = !asked.stops.is_empty() || !unknown(asked).is_empty();
        (stops && asked.unmet.is_none()).then_some(asked.request_us)
    };
    let mut but = Vec::new();
    if let names @ [_, ..] = &unknown(&asked)[..] {
        but.push(format!(
            "the driver gives no exit latency of {}: whether the bound stops that is unknown",
            listed(names)
        ));
    }
    if asked.unmet.is_none() {
        but.extend(entered_all_the_same(group, asked.request_us));
    }
    if let Ok((_, Some(deepest))) = wanted {
        but.extend(not_stopped(group, deepest, &asked));
    }
    let but = Some(but.join("; ")).filter(|but| !but.is_empty());
    let (why_nothing, but) = match held(&asked) {
        Some(_) => (None, but),
        None => {
            let why = asked.unmet.clone().or(but);
            let why = why.unwrap_or_else(|| why_nothing(rule, &asked));
            (Some(why), None)
        }
    };
    for note in &asked.notes {
        if !notes.contains(note) {
            notes.push(note.clone());
        }
    }
    JudgedGroup {
        cpus: group.cpus.clone(),
        bound_us: held(&asked),
        judged_by: if asked.by_result { "result" } else { "table" }.to_owned(),
        by_table_us: held(&by_table).filter(|_| held(&by_table) != held(&asked)),
        why_nothing,
        but,
        leaves: asked.leaves,
        stops: asked.stops,
    }
}

/// Why what was asked stops no state.
fn why_nothing(rule: &Rule, asked: &Asked) -> String {
    match (rule.ask(), asked.by_result) {
        (Ask::DeepestState(state), _) => format!("no idle state is deeper than {state}"),
        (_, true) => "by the result no idle state takes longer".to_owned(),
        (_, false) => "by the driver's table no idle state takes longer, which was not measured \
                       (`reveille measure --each-state`)"
            .to_owned(),
    }
}

/// That CPUs enter a state which the bound rules out.
fn entered_all_the_same(group: &Group, bound_us: u32) -> Option<String> {
    let state = bounds::entered_all_the_same(&group.states, bound_us)?;
    let (cpus, name) = (cpulist::named(&group.cpus), &state.name);
    Some(match bound_us {
        0 => format!(
            "{name} is entered on {cpus} all the same: no state polls there; \
             `reveille hold --latency 0` keeps CPUs awake"
        ),
        _ => format!(
            "{name} is entered on {cpus} all the same, though it takes longer: none is shallower"
        ),
    })
}

/// That a bound does not stop all states deeper than that one.
fn not_stopped(group: &Group, deepest: &IdleState, asked: &Asked) -> Option<String> {
    let deeper = group.states.iter();
    let deeper = deeper.filter(|state| state.index > deepest.index);
    let left = deeper.filter(|state| asked.leaves.contains(&state.name));
    let left: Vec<&str> = left.map(|state| state.name.as_str()).collect();
    (!left.is_empty()).then(|| {
        let (name, left) = (&deepest.name, listed(&left));
        format!(
            "no bound separates {name} from {left} by the driver's exit latencies; \
             `reveille limit --deepest {name}` does"
        )
    })
}

/// The deepest state that a rule leaves these CPUs, as `limit --deepest` chooses it, and the bound that leaves it, µs.
fn deepest<'a>(
    group: &Group,
    idle: &'a Idle,
    name: &str,
    notes: &mut Vec<String>,
) -> std::result::Result<(u32, &'a IdleState), String> {
    let cpu = group.cpus.first().and_then(|&cpu| idle.cpu(cpu));
    let deepest = cpu.and_then(|cpu| Deepest::of(idle, cpu, name));
    let Some(deepest) = deepest else {
        let names: Vec<&str> = group.states.iter().map(|one| one.name.as_str()).collect();
        let names = names.join(", ");
        return Err(format!("there is no idle state {name}, but {names}"));
    };
    notes.extend(deepest.note(name, &group.cpus));
    let state = deepest.state;
    let us = bounds::that_leaves(&group.states, state);
    us.map(|us| (us, state))
        .ok_or_else(|| format!("the exit latency of {} is unknown", state.name))
}

/// How long the bound outlasts the traffic, and how that was chosen: by the stay from which on the stopped state that
/// needs the longest pays, which is its break-even residency, or the driver's target residency.
fn quiet(
    rule: &Rule,
    groups: &[JudgedGroup],
    idle: &Idle,
    break_even_us: &BTreeMap<String, u64>,
) -> (Duration, String) {
    if let Some(quiet) = rule.quiet {
        return (quiet, THE_RULE.into());
    }
    let stays = groups.iter().flat_map(|group| {
        let cpu = group.cpus.first().and_then(|&cpu| idle.cpu(cpu));
        let states = cpu.map_or(&[][..], |cpu| &cpu.states);
        let stopped = states
            .iter()
            .filter(|state| group.stops.contains(&state.name));
        stopped.filter_map(|state| match break_even_us.get(&state.name) {
            Some(&us) => Some((us, "break-even", &state.name)),
            None => Some((state.target_residency_us?, "target", &state.name)),
        })
    });
    match stays.max() {
        Some((us, which, state)) => {
            let quiet = Duration::from_micros(us).saturating_mul(QUIET_STAYS);
            let quiet = quiet.clamp(quiet::SHORTEST, QUIET_MAX);
            (
                quiet,
                format!("{QUIET_STAYS} {which} residencies of {state}"),
            )
        }
        None => (quiet::SHORTEST, "the minimum".into()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// CPUs with POLL, C1 (2 µs) and C6 (133 µs, target residency 400 µs).
    fn machine(governor: &str) -> (tempfile::TempDir, Root) {
        let states = [("POLL", 0, 0), ("C1", 2, 2), ("C6", 133, 400)];
        machine_of("intel_idle", governor, &states)
    }

    /// Two CPUs with these states: exit latency and target residency, µs.
    fn machine_of(
        driver: &str,
        governor: &str,
        states: &[(&str, u64, u64)],
    ) -> (tempfile::TempDir, Root) {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        let put = |file: String, text: &str| {
            let path = root.path(&file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, format!("{text}\n")).unwrap();
        };
        let cpu = "/sys/devices/system/cpu";
        put(format!("{cpu}/present"), "0-1");
        put(format!("{cpu}/online"), "0-1");
        put(format!("{cpu}/cpuidle/current_driver"), driver);
        put(format!("{cpu}/cpuidle/current_governor"), governor);
        for number in 0..2 {
            for (nth, (name, exit, target)) in states.iter().enumerate() {
                let state = format!("{cpu}/cpu{number}/cpuidle/state{nth}");
                put(format!("{state}/name"), name);
                put(format!("{state}/latency"), &exit.to_string());
                put(format!("{state}/residency"), &target.to_string());
                put(format!("{state}/disable"), "0");
            }
            put(
                format!("{cpu}/cpu{number}/power/pm_qos_resume_latency_us"),
                "0",
            );
        }
        (folder, root)
    }

    fn judged(text: &str, root: &Root) -> Judged {
        let rules = Rules::parse(text).unwrap();
        let judge = Judge::of(Idle::read(root).unwrap(), root);
        judge.all(&rules).remove(0)
    }

    const TRAFFIC: &str = "when.traffic.interface = \"eth0\"\n";

    #[test]
    fn a_rule_that_holds_nothing_says_why() {
        let (_folder, root) = machine("menu");
        let why = |asks: &str| {
            let rule = judged(&format!("[[rule]]\nname = \"a\"\n{asks}\n"), &root);
            rule.groups[0].why_nothing.clone()
        };
        assert_eq!(why("latency = \"50us\""), None);
        assert!(why("latency = \"5ms\"").unwrap().contains("not measured"));
        let deepest = why("deepest_state = \"C6\"").unwrap();
        assert!(deepest.contains("C6") && !deepest.contains("measured"));
    }

    #[test]
    fn the_table_judges_where_there_is_no_result() {
        let (_folder, root) = machine("menu");
        let rule = judged("[[rule]]\nname = \"a\"\nlatency = \"50us\"\n", &root);
        let group = &rule.groups[0];
        assert_eq!(
            (group.cpus.as_slice(), group.bound_us),
            (&[0, 1][..], Some(50))
        );
        assert_eq!(
            (group.stops.join(","), group.judged_by.as_str()),
            ("C6".into(), "table")
        );
        assert_eq!(rule.quiet_s, None);
    }

    #[test]
    fn a_bound_that_stops_no_state_is_not_held() {
        let (_folder, root) = machine("menu");
        let rule = judged("[[rule]]\nname = \"a\"\nlatency = \"1ms\"\n", &root);
        assert_eq!(rule.groups[0].bound_us, None);
        assert_eq!(rule.bound_us(0), None);
    }

    #[test]
    fn a_state_that_is_off_now_is_stopped_as_well() {
        let (folder, root) = machine("menu");
        for cpu in 0..2 {
            let state = format!("sys/devices/system/cpu/cpu{cpu}/cpuidle/state2/disable");
            fs::write(folder.path().join(state), "1\n").unwrap();
        }
        let rule = judged("[[rule]]\nname = \"a\"\nlatency = \"100us\"\n", &root);
        let group = &rule.groups[0];
        assert_eq!(
            (group.bound_us, group.stops.join(",")),
            (Some(100), "C6".into())
        );
    }

    #[test]
    fn a_state_is_named_instead_of_a_latency() {
        let (_folder, root) = machine("menu");
        let rule = judged("[[rule]]\nname = \"a\"\ndeepest_state = \"C1\"\n", &root);
        assert_eq!(rule.bound_us(1), Some(2));
        let rule = judged("[[rule]]\nname = \"a\"\ndeepest_state = \"C9\"\n", &root);
        assert_eq!(rule.bound_us(0), None);
        let why = rule.groups[0].why_nothing.as_ref().unwrap();
        assert!(why.contains("C9, but POLL, C1, C6"), "{why}");
    }

    #[test]
    fn what_a_rule_does_not_do_is_said() {
        let ordered = [("POLL", 0, 0), ("C1", 2, 0), ("C1E", 2, 0), ("C6", 50, 0)];
        let unordered = [
            ("POLL", 0, 0),
            ("C1", 200, 0),
            ("C1E", 10, 0),
            ("C6", 50, 0),
        ];
        let arm = [("WFI", 5, 5), ("cpu-sleep", 300, 600)];
        let said = |(states, asks): (&[(&str, u64, u64)], &str)| {
            let (_folder, root) = machine_of("intel_idle", "menu", states);
            let rule = judged(&format!("[[rule]]\nname = \"a\"\n{asks}\n"), &root);
            let group = &rule.groups[0];
            let said = group.why_nothing.iter().chain(&group.but);
            let said: Vec<String> = said.cloned().chain(rule.notes).collect();
            (format!("{states:?}: {asks}"), said.join("\n"))
        };
        let cases = [
            (&ordered[..], "deepest_state = \"C1\""),
            (&unordered, "deepest_state = \"C1\""),
            (&unordered, "deepest_state = \"C6\""),
            (&ordered, "deepest_state = \"C9\""),
            (&ordered, "latency = \"5ms\""),
            (&arm, "latency = \"0\""),
            (&arm, "latency = \"1us\""),
        ];
        reveille_snapshot::snapshot!("rules", cases.map(said));
    }

    /// A group's bound, what that leaves and stops, and how much is said of it.
    fn of_rule(asks: &str, root: &Root, cpu: u32) -> (Option<u32>, String, String, usize) {
        let rule = judged(&format!("[[rule]]\nname = \"a\"\n{asks}\n"), root);
        let group = rule.groups.iter().find(|group| group.cpus.contains(&cpu));
        let group = group.unwrap();
        assert_eq!(group.bound_us.is_none(), group.why_nothing.is_some());
        let [leaves, stops] = [&group.leaves, &group.stops].map(|names| names.join(" "));
        let said = rule.notes.len() + usize::from(group.but.is_some());
        (group.bound_us, leaves, stops, said)
    }

    #[test]
    fn the_bound_leaves_the_deepest_state_and_all_shallower_ones() {
        let of = |states: &[(&str, u64, u64)], governor, deepest: &str| {
            let (_folder, root) = machine_of("intel_idle", governor, states);
            of_rule(&format!("deepest_state = \"{deepest}\""), &root, 0)
        };
        let all = |bound: Option<u32>, leaves: &str, stops: &str, notes| {
            (bound, leaves.to_owned(), stops.to_owned(), notes)
        };
        // 0 would mean POLL, whatever C1 takes.
        let free = [("POLL", 0, 0), ("C1", 0, 0), ("C6", 133, 600)];
        for governor in ["menu", "teo"] {
            assert_eq!(of(&free, governor, "c1"), all(Some(1), "POLL C1", "C6", 0));
            assert_eq!(of(&free, governor, "POLL").0, Some(0));
        }
        let unordered = [
            ("POLL", 0, 0),
            ("C1", 200, 0),
            ("C1E", 10, 0),
            ("C6", 50, 0),
        ];
        let every = "POLL C1 C1E C6";
        assert_eq!(of(&unordered, "menu", "C6"), all(None, every, "", 0));
        // No bound stops what is deeper: why nothing is held.
        for deepest in ["C1", "C1E"] {
            assert_eq!(of(&unordered, "menu", deepest), all(None, every, "", 0));
        }
        // Or not all of it.
        let equal = [("POLL", 0, 0), ("C1", 2, 0), ("C1E", 2, 0), ("C6", 50, 0)];
        assert_eq!(
            of(&equal, "menu", "C1"),
            all(Some(2), "POLL C1 C1E", "C6", 1)
        );
    }

    #[test]
    fn a_cpu_without_the_deepest_state_keeps_what_wakes_no_slower_as_under_a_limit() {
        let (folder, root) = machine("menu");
        let state = folder
            .path()
            .join("sys/devices/system/cpu/cpu1/cpuidle/state2");
        fs::write(state.join("name"), "C10\n").unwrap();
        fs::write(state.join("latency"), "1200\n").unwrap();
        let asks = "deepest_state = \"C6\"";
        assert_eq!(of_rule(asks, &root, 0).0, None);
        let other = (Some(2), "POLL C1".into(), "C10".into(), 1);
        assert_eq!(of_rule(asks, &root, 1), other);
    }

    #[test]
    fn a_state_of_unknown_exit_latency_may_be_stopped() {
        let (folder, root) = machine("menu");
        for cpu in 0..2 {
            let latency = format!("sys/devices/system/cpu/cpu{cpu}/cpuidle/state2/latency");
            fs::write(folder.path().join(latency), "-5\n").unwrap();
        }
        for (asks, bound_us) in [("latency = \"50us\"", 50), ("deepest_state = \"C1\"", 2)] {
            let unknown = (Some(bound_us), "POLL C1".into(), String::new(), 1);
            assert_eq!(of_rule(asks, &root, 0), unknown);
        }
        assert_eq!(of_rule("deepest_state = \"C6\"", &root, 0).0, None);
    }

    #[test]
    fn a_state_that_is_entered_under_any_bound_is_named() {
        let arm = [("WFI", 5, 5), ("cpu-sleep", 300, 600)];
        let (_folder, root) = machine_of("psci_idle", "menu", &arm);
        let left = |bound_us, notes| {
            let stops = "cpu-sleep".to_owned();
            (Some(bound_us), "WFI".to_owned(), stops, notes)
        };
        assert_eq!(of_rule("latency = \"0\"", &root, 0), left(0, 1));
        assert_eq!(of_rule("latency = \"1us\"", &root, 0), left(1, 1));
        assert_eq!(of_rule("latency = \"5us\"", &root, 0), left(5, 0));
        assert_eq!(of_rule("deepest_state = \"WFI\"", &root, 0), left(5, 0));
        let (_folder, root) = machine_of("psci_idle", "menu", &arm[..1]);
        let rule = judged("[[rule]]\nname = \"a\"\nlatency = \"1us\"\n", &root);
        let why = rule.groups[0].why_nothing.as_ref().unwrap();
        assert!(
            why.contains("WFI") && !why.contains("takes longer, which"),
            "{why}"
        );
    }

    #[test]
    fn haltpoll_gets_the_only_bound_that_it_honours() {
        let (_folder, root) = machine("haltpoll");
        let rule = judged("[[rule]]\nname = \"a\"\nlatency = \"50us\"\n", &root);
        assert_eq!(rule.bound_us(0), Some(0));
        assert!(rule.notes[0].contains("haltpoll ignores all bounds but 0"));
    }

    #[test]
    fn only_the_rules_own_cpus_are_held_and_missing_ones_are_named() {
        let (_folder, root) = machine("menu");
        let text = "[[rule]]\nname = \"a\"\nlatency = \"50us\"\ncpus = \"1,7\"\n";
        let rule = judged(text, &root);
        assert_eq!((rule.bound_us(0), rule.bound_us(1)), (None, Some(50)));
        assert_eq!(rule.notes, ["missing or offline: CPU 7"]);
    }

    #[test]
    fn the_quiet_time_is_by_the_target_residency_unless_the_rule_has_one() {
        let (_folder, root) = machine("menu");
        let text = format!("[[rule]]\nname = \"a\"\nlatency = \"50us\"\n{TRAFFIC}");
        let rule = judged(&text, &root);
        assert_eq!(rule.quiet(), Duration::from_millis(40));
        let rule = judged(
            &format!("{text}\n[[rule]]\nname = \"b\"\nlatency = \"1ms\""),
            &root,
        );
        assert_eq!(
            rule.quiet_by.as_deref(),
            Some("100 target residencies of C6")
        );
        let text = text.replace("50us\"", "50us\"\nquiet = \"3ms\"");
        let rule = judged(&text, &root);
        assert_eq!(
            (rule.quiet(), rule.quiet_by.as_deref()),
            (Duration::from_millis(3), Some("the rule"))
        );
    }

    #[test]
    fn the_quiet_time_is_by_break_even_where_that_was_measured() {
        let (folder, root) = machine("menu");
        let hostname = root.path("/proc/sys/kernel/hostname");
        fs::create_dir_all(hostname.parent().unwrap()).unwrap();
        fs::write(hostname, "here\n").unwrap();
        let states = folder.path().join("power-states.json");
        let text = |states: &Path| {
            let states = states.display();
            format!(
                "break_even = \"{states}\"\n[[rule]]\nname = \"a\"\nlatency = \"50us\"\n{TRAFFIC}"
            )
        };
        // C6 pays from 3 ms on; of C1, which is not stopped, nothing matters.
        let kept = include_str!("judge/power-states.json");
        fs::write(&states, kept).unwrap();
        let by_states = judged(&text(&states), &root);
        assert_eq!(
            (by_states.quiet(), by_states.quiet_by.as_deref()),
            (
                Duration::from_millis(300),
                Some("100 break-even residencies of C6")
            )
        );
        assert!(
            by_states
                .notes
                .iter()
                .any(|note| note.contains("another computer, bench")),
            "{by_states:?}"
        );
        // The folder of the result will do; an open interval carries nothing.
        fs::write(
            &states,
            kept.replace("\"high_us\": 3200.0", "\"high_us\": null"),
        )
        .unwrap();
        let open = judged(&text(folder.path()), &root);
        assert_eq!(
            open.quiet_by.as_deref(),
            Some("100 target residencies of C6")
        );
        // Nor does one that begins at 0.
        let from_0 = kept.replace("\"low_us\": 2800.0", "\"low_us\": 0.0");
        fs::write(&states, from_0).unwrap();
        let from_0 = judged(&text(&states), &root);
        assert_eq!(from_0.quiet_by, open.quiet_by);
        for wrong in [folder.path().join("none"), "/dev/zero".into()] {
            let rule = judged(&text(&wrong), &root);
            let note = rule
                .notes
                .iter()
                .find(|note| note.contains(&*wrong.to_string_lossy()));
            assert!(
                note.unwrap()
                    .ends_with("; the quiet time is by target residencies")
            );
            assert_eq!(rule.quiet(), Duration::from_millis(40));
        }
        // Neither a rule's own time nor a rule without events reads it.
        let own = text(Path::new("/nowhere")).replace("50us\"", "50us\"\nquiet = \"3ms\"");
        assert_eq!(judged(&own, &root).notes, Vec::<String>::new());
    }

    #[test]
    fn a_result_is_read_once_for_all_who_ask() {
        let states = [
            ("POLL", 0, 0),
            ("C1", 2, 4),
            ("C2", 33, 66),
            ("C3", 133, 266),
        ];
        let (folder, root) = machine_of("acpi_idle", "menu", &states);
        let result = folder.path().join("result");
        let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/example/results/lab");
        fs::create_dir(&result).unwrap();
        for file in ["result.json", "datapoints.parquet"] {
            fs::copy(kept.join(file), result.join(file)).unwrap();
        }
        let rules = format!("result = \"{}\"\n", result.display());
        let rules = Rules::parse(&rules).unwrap();
        let judge = || Judge::of(Idle::read(&root).unwrap(), &root);
        let ask = |judge: &Judge, latency_us| {
            let judged = judge.of_program(&rules, "hold", latency_us, None);
            judged.groups[0].clone()
        };
        let latencies = [10_000, 5000, 2000, 20_000];
        let expected = latencies.map(|latency_us| ask(&judge(), latency_us));
        assert!(expected.iter().all(|group| group.judged_by == "result"));
        let once = judge();
        ask(&once, 10_000);
        fs::remove_dir_all(&result).unwrap();
        assert_eq!(latencies.map(|latency_us| ask(&once, latency_us)), expected);
        // Judged anew, it is missing.
        assert_eq!(ask(&judge(), 10_000).judged_by, "table");
    }

    #[test]
    fn a_missing_result_is_named_and_the_table_judges() {
        let (_folder, root) = machine("menu");
        let text = "result = \"/nowhere/result\"\n[[rule]]\nname = \"a\"\nlatency = \"50us\"\n";
        let rule = judged(text, &root);
        assert_eq!((rule.bound_us(0), rule.result.clone()), (Some(50), None));
        let note = &rule.notes[0];
        assert!(note.contains("/nowhere/result") && note.ends_with("judged by the driver's table"));
    }

    #[test]
    fn without_a_governor_nothing_can_be_held() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        let present = root.path("/sys/devices/system/cpu/present");
        fs::create_dir_all(present.parent().unwrap()).unwrap();
        fs::write(present, "0\n").unwrap();
        let rule = judged("[[rule]]\nname = \"a\"\nlatency = \"50us\"\n", &root);
        assert!(rule.groups.is_empty());
        assert!(rule.notes[0].contains("no effect here"));
    }
}
