//! The settings that are compared: which ones, and how each is put in force and taken back.

mod line;
mod program;

use std::path::PathBuf;

use reveille_kernel::bounds::{self, Effect};
use reveille_kernel::limits::{self, Limit};
use reveille_kernel::{Awake, Idle, IdleState, Journal, Root, cpulist, journal, pm_qos, requests};
use serde::Serialize;

use self::program::Program;
use crate::observe::states_by_depth;
use crate::{Error, Result};

pub use line::parse as parse_line;

/// The machine as it was found, which all others are compared with.
const AS_IS: &str = "as is";
/// No CPU sleeps.
const NO_SLEEP: &str = "no sleep";

/// The machine whose settings are changed.
#[derive(Debug, Clone)]
pub struct Machine {
    /// `/` except in tests.
    pub root: Root,
    /// Its CPUs and idle states before the first change.
    pub idle: Idle,
    /// Folder of the journal that undoes changes.
    pub journal_folder: PathBuf,
}

impl Machine {
    /// Reads the machine below `root`.
    pub fn read(root: Root) -> Result<Self> {
        Ok(Self {
            idle: Idle::read(&root)?,
            root,
            journal_folder: journal::FOLDER.into(),
        })
    }
}

/// What is changed.
#[derive(Debug, Clone, PartialEq)]
pub enum Kind {
    /// Nothing.
    AsIs,
    /// A latency bound, µs; on all CPUs where none are named.
    Hold {
        /// µs; 0 allows no sleep.
        bound_us: u32,
        /// Ascending; `None` for all.
        cpus: Option<Vec<u32>>,
    },
    /// On all CPUs where none are named.
    Limit {
        /// Which states they may use.
        limit: Limit,
        /// Ascending; `None` for all.
        cpus: Option<Vec<u32>>,
    },
    /// Latency bounds of 0, or threads that keep every CPU awake where no bound can.
    NoSleep,
    /// Threads of idle priority keep these CPUs awake.
    KeepAwake(Vec<u32>),
    /// `reveille govern` runs with the rules of this file.
    Govern(PathBuf),
    /// `reveille quiet run` runs with these flags.
    Quiet(Vec<String>),
}

/// A setting and its name.
#[derive(Debug, Clone, PartialEq)]
pub struct Setting {
    /// As it is shown: `as is`, `C1`, ...
    pub name: String,
    /// What it changes.
    pub kind: Kind,
}

/// A setting's name and what it changes, in words.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Named {
    /// As [`Setting::name`].
    pub name: String,
    /// As [`Setting::how`].
    pub how: String,
}

/// What a trial would compare.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Planned {
    /// How many turns each setting would have.
    pub rounds: u32,
    /// "As is" first.
    pub settings: Vec<Named>,
    /// What a reader must know of them (one sentence each).
    pub notes: Vec<String>,
}

impl Planned {
    /// Describes the settings.
    pub fn of(rounds: u32, settings: &[Setting], notes: Vec<String>, idle: &Idle) -> Result<Self> {
        let named = |setting: &Setting| {
            Ok(Named {
                name: setting.name.clone(),
                how: setting.how(idle)?,
            })
        };
        Ok(Self {
            rounds,
            settings: settings.iter().map(named).collect::<Result<_>>()?,
            notes,
        })
    }
}

/// Which settings are to be tried.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Wanted {
    /// Latency bounds, µs.
    pub bounds_us: Vec<u32>,
    /// The user's own.
    pub given: Vec<Setting>,
    /// Of those that there are by default, only these, by name (`C1`, `no-sleep`); empty: all.
    pub only: Vec<String>,
}

/// The settings of a trial on this machine: as is, each idle state as the deepest, the wanted bounds, the
/// given ones, and no sleep. Notes name the omitted duplicates and what the governor ignores.
///
/// # Errors
/// [`Error::Usage`] if a requested setting is unknown, duplicate or the only one; [`Error::Cannot`] if this
/// machine honours no bound or limit.
pub fn choose(idle: &Idle, wanted: &Wanted) -> Result<(Vec<Setting>, Vec<String>)> {
    let mut left_out = Vec::new();
    let mut settings = vec![Setting::new(AS_IS, Kind::AsIs)];
    let all_asked = wanted.only.is_empty();
    let asked = |name: &str| all_asked || wanted.only.iter().any(|only| is_called(name, only));
    for state in states_by_depth(idle) {
        let setting = Setting::up_to(&state.name);
        if !asked(&setting.name) {
            continue;
        }
        match same_as(idle, &setting, state) {
            Some(same) if all_asked => left_out.push(same),
            _ => settings.push(setting),
        }
    }
    for &bound_us in &wanted.bounds_us {
        settings.push(Setting::hold(bound_us));
    }
    settings.extend(wanted.given.iter().cloned());
    if asked(NO_SLEEP) {
        settings.push(Setting::new(NO_SLEEP, Kind::NoSleep));
    }
    for only in &wanted.only {
        if !settings
            .iter()
            .any(|setting| is_called(&setting.name, only))
        {
            return Err(unknown(idle, only));
        }
    }
    for (place, setting) in settings.iter().enumerate() {
        if settings[..place]
            .iter()
            .any(|other| other.name == setting.name)
        {
            return Err(Error::Usage(format!("{}: is given twice", setting.name)));
        }
        // Fails if it is impossible here.
        setting.how(idle)?;
    }
    if settings.len() == 1 {
        return Err(Error::Usage(
            "nothing to compare `as is` with; name settings with --settings, --latency or \
             --setting"
                .into(),
        ));
    }
    let mut notes = Vec::new();
    if !left_out.is_empty() {
        notes.push(format!("Left out: {}.", left_out.join(", ")));
    }
    let chosen_by_governor = |setting: &Setting| match setting.kind {
        Kind::Limit { .. } => true,
        Kind::Hold { bound_us, .. } => bound_us > 0,
        Kind::AsIs | Kind::NoSleep | Kind::KeepAwake(_) | Kind::Govern(_) | Kind::Quiet(_) => false,
    };
    if idle.governor.as_deref() == Some("haltpoll") && settings.iter().any(chosen_by_governor) {
        notes.push(
            "The governor haltpoll ignores disabled states and every bound but 0: those settings change \
             nothing here."
                .into(),
        );
    }
    Ok((settings, notes))
}

/// A note on another process's latency bound, which applies to every setting; `every` is the noun.
pub fn held_by_others(every: &str) -> Option<String> {
    let bound_us = pm_qos::current_bound_us().ok()??;
    Some(format!(
        "Another process holds a latency bound of {bound_us} µs, which is in force under every \
         {every}; `reveille top` shows the holder."
    ))
}

fn online(idle: &Idle) -> impl Iterator<Item = &reveille_kernel::Cpu> {
    idle.cpus.iter().filter(|cpu| cpu.online)
}

/// The setting that this state as the deepest would duplicate.
fn same_as(idle: &Idle, setting: &Setting, state: &IdleState) -> Option<String> {
    let name = &setting.name;
    if limits::poll(std::slice::from_ref(state)).is_some() {
        return Some(format!("{name} (it is `{NO_SLEEP}`)"));
    }
    let changes = setting.kind.changes(idle).ok()?;
    let is_so = |setting: &limits::Setting| {
        let states = idle.cpu(setting.cpu).map(|cpu| cpu.states.as_slice());
        let state = states?.iter().find(|state| state.index == setting.index)?;
        (state.disabled? == setting.disable).then_some(())
    };
    let changes_nothing = changes.iter().all(|change| is_so(change).is_some());
    changes_nothing.then(|| format!("{name} (it is `{AS_IS}`)"))
}

/// `up to C1` is called so, `up-to-c1` or `c1`.
fn is_called(name: &str, called: &str) -> bool {
    let plain = |text: &str| text.trim().to_lowercase().replace(' ', "-");
    let (name, called) = (plain(name), plain(called));
    name == called || name.strip_prefix("up-to-") == Some(&called)
}

fn unknown(idle: &Idle, only: &str) -> Error {
    let states = states_by_depth(idle)
        .into_iter()
        .map(|state| state.name.as_str());
    let names: Vec<&str> = states.chain(["no-sleep"]).collect();
    Error::Usage(format!(
        "--settings {only}: unknown setting; this machine has {}",
        names.join(", ")
    ))
}

impl Setting {
    /// A setting of that name.
    pub fn new(name: impl Into<String>, kind: Kind) -> Self {
        Self {
            name: name.into(),
            kind,
        }
    }

    fn up_to(state: &str) -> Self {
        let limit = Limit::Deepest(state.to_owned());
        Self::new(format!("up to {state}"), Kind::Limit { limit, cpus: None })
    }

    fn hold(bound_us: u32) -> Self {
        let kind = Kind::Hold {
            bound_us,
            cpus: None,
        };
        Self::new(format!("hold {bound_us}us"), kind)
    }

    /// What is changed, in words; an error if this machine cannot.
    pub fn how(&self, idle: &Idle) -> Result<String> {
        let on = |cpus: &Option<Vec<u32>>| match cpus {
            Some(cpus) => format!("on {}", cpulist::named(cpus)),
            None => "on all CPUs".to_owned(),
        };
        Ok(match &self.kind {
            Kind::AsIs => "nothing is changed".into(),
            Kind::Hold { bound_us, cpus } => {
                honoured(idle, &self.name)?;
                if let Some(cpus) = cpus {
                    refuse_absent(idle, cpus)?;
                }
                let leaves = match left_by(idle, *bound_us, cpus.as_deref()) {
                    names if names.is_empty() => String::new(),
                    names => format!("; leaves {} by the driver's table", names.join(", ")),
                };
                format!("a latency bound of {bound_us} µs {}{leaves}", on(cpus))
            }
            Kind::Limit { cpus, .. } => {
                let changes = self.kind.changes(idle)?;
                let named = |disable: bool| {
                    let mut names: Vec<&str> = Vec::new();
                    for change in changes.iter().filter(|change| change.disable == disable) {
                        if !names.contains(&change.name.as_str()) {
                            names.push(&change.name);
                        }
                    }
                    names.join(", ")
                };
                match named(true) {
                    names if names.is_empty() => {
                        format!("{} is allowed {}", named(false), on(cpus))
                    }
                    names => format!("{names} disabled {}", on(cpus)),
                }
            }
            Kind::NoSleep if sleepless_by_request(idle) => {
                "a latency bound of 0: all CPUs poll".into()
            }
            Kind::NoSleep => {
                "idle-priority threads keep all CPUs awake (no poll state that a bound of 0 would \
                 choose)"
                    .into()
            }
            Kind::KeepAwake(cpus) => {
                format!("idle-priority threads keep {} awake", cpulist::named(cpus))
            }
            Kind::Govern(rules) => {
                honoured(idle, &self.name)?;
                if !rules.is_file() {
                    let rules = rules.display();
                    return Err(Error::Usage(format!("{rules}: no such file of rules")));
                }
                format!("`reveille govern` with the rules of {}", rules.display())
            }
            Kind::Quiet(flags) => format!("`reveille quiet run {}`", flags.join(" ")),
        })
    }
}

impl Kind {
    /// What a limit sets, on the CPUs that are online; nothing for other kinds.
    fn changes(&self, idle: &Idle) -> Result<Vec<limits::Setting>> {
        match self {
            Self::Limit { limit, cpus } => {
                let all = || online(idle).map(|cpu| cpu.number).collect();
                let cpus = cpus.clone().unwrap_or_else(all);
                Ok(limits::settings(idle, &cpus, limit)?)
            }
            _ => Ok(Vec::new()),
        }
    }

    /// Why the machine is not as this setting has it: another program's value is in the way. `None` if it is, or cannot
    /// be told.
    fn prevented(&self, machine: &Machine) -> Option<String> {
        match self {
            Self::Hold {
                bound_us,
                cpus: Some(cpus),
            } => {
                let now = Idle::read(&machine.root).ok()?;
                let bound = |cpu| bounds::own_us(now.cpu(cpu)?.resume_latency_us?);
                let other = |cpu: &&u32| bound(**cpu).is_some_and(|us| us != *bound_us);
                let cpu = cpus.iter().find(other)?;
                let us = bound(*cpu)?;
                Some(format!(
                    "CPU {cpu} has a latency bound of {us} µs by another program, so one of {bound_us} µs is not in force"
                ))
            }
            Self::Hold {
                bound_us,
                cpus: None,
            } => tighter_than(*bound_us).filter(|_| machine.root.is_live()),
            Self::Limit { .. } => {
                let now = Idle::read(&machine.root).ok()?;
                let changes = self.changes(&machine.idle).ok()?;
                let is_other = |change: &limits::Setting| {
                    let states = &now.cpu(change.cpu)?.states;
                    let state = states.iter().find(|state| state.index == change.index)?;
                    Some(state.disabled? != change.disable)
                };
                let change = changes.iter().find(|one| is_other(one) == Some(true))?;
                Some(format!(
                    "another program decides whether CPU {} may use {}, so this limit is not in force",
                    change.cpu, change.name
                ))
            }
            Self::AsIs | Self::NoSleep | Self::KeepAwake(_) | Self::Govern(_) | Self::Quiet(_) => {
                None
            }
        }
    }

    /// Puts the setting in force until the result is dropped or ended.
    ///
    /// # Errors
    /// [`Error::Disturbed`] if another program's value is in the way; else of the setting.
    pub fn apply(&self, machine: &Machine) -> Result<InForce> {
        let (root, idle) = (&machine.root, &machine.idle);
        let mut applied = InForce {
            journal: Journal::new(root, &machine.journal_folder),
            bound_us: None,
            _request: None,
            awake: None,
            program: None,
        };
        match self {
            Self::AsIs => {}
            Self::Hold {
                bound_us,
                cpus: None,
            } => {
                applied._request = Some(requests::Request::hold(*bound_us)?);
                applied.bound_us = Some(*bound_us);
            }
            Self::Hold {
                bound_us,
                cpus: Some(cpus),
            } => requests::bound_cpus(&mut applied.journal, root, cpus, *bound_us)?,
            Self::Limit { .. } => {
                limits::apply(&mut applied.journal, &self.changes(idle)?)?;
            }
            Self::NoSleep if sleepless_by_request(idle) => {
                applied._request = Some(requests::Request::hold(0)?);
            }
            Self::NoSleep => {
                let cpus: Vec<u32> = online(idle).map(|cpu| cpu.number).collect();
                applied.awake = Some(Awake::keep(&cpus)?);
            }
            Self::KeepAwake(cpus) => applied.awake = Some(Awake::keep(cpus)?),
            Self::Govern(rules) => applied.program = Some(Program::govern(rules)?),
            Self::Quiet(flags) => applied.program = Some(Program::quiet(flags)?),
        }
        let program = || applied.program.as_ref().and_then(Program::prevented);
        match self.prevented(machine).or_else(program) {
            Some(why) => Err(Error::Disturbed(why)),
            None => Ok(applied),
        }
    }
}

/// A setting in force. Dropped, the machine is as before.
pub struct InForce {
    journal: Journal,
    /// The bound on all CPUs, µs.
    bound_us: Option<u32>,
    _request: Option<requests::Request>,
    awake: Option<Awake>,
    program: Option<Program>,
}

impl InForce {
    /// Why the setting was not in force all the time; `None` if no interruption is known.
    pub fn interrupted(&self) -> Option<String> {
        let awake = self.awake.as_ref().and_then(Awake::interrupted);
        let program = |why: fn(&Program) -> Option<String>| self.program.as_ref().and_then(why);
        awake
            .or_else(|| program(Program::ended))
            .or_else(|| program(Program::prevented))
            .or_else(|| tighter_than(self.bound_us?))
    }

    /// Takes the setting back.
    ///
    /// # Errors
    /// [`Error::Disturbed`] if somebody else changed a setting meanwhile, or one could not be restored.
    pub fn end(mut self) -> Result<()> {
        self.program = None;
        let complaints = self.journal.restore().complaints().into_iter();
        complaints
            .map(Error::Disturbed)
            .map(Err)
            .next()
            .unwrap_or(Ok(()))
    }
}

/// The bound on all CPUs is the tightest of all requests.
fn tighter_than(bound_us: u32) -> Option<String> {
    let us = pm_qos::current_bound_us().ok()??;
    (us < bound_us).then(|| {
        format!("another process holds a latency bound of {us} µs, so one of {bound_us} µs is not in force; `reveille top` shows the holder")
    })
}

/// Where latency bounds have no effect.
fn honoured(idle: &Idle, name: &str) -> Result<()> {
    match requests::honoured(idle) {
        true => Ok(()),
        false => Err(Error::Cannot(format!(
            "{name}: nothing honours a latency bound here (no cpuidle driver); try --settings \
             no-sleep"
        ))),
    }
}

fn refuse_absent(idle: &Idle, cpus: &[u32]) -> Result<()> {
    let absent = cpus.iter().find(|cpu| idle.cpu(**cpu).is_none());
    match absent {
        Some(cpu) => Err(idle.no_cpu(*cpu)),
        None => Ok(()),
    }
}

/// Whether a bound of 0 prevents all sleep. Governors then choose state 0, which on Arm, for example, sleeps.
pub fn sleepless_by_request(idle: &Idle) -> bool {
    requests::honoured(idle) && online(idle).all(|cpu| limits::poll(&cpu.states).is_some())
}

/// The names of the states that governors may choose under a bound, by the driver's table.
fn left_by(idle: &Idle, bound_us: u32, cpus: Option<&[u32]>) -> Vec<String> {
    let bounded = online(idle).filter(|cpu| cpus.is_none_or(|cpus| cpus.contains(&cpu.number)));
    let mut names: Vec<String> = Vec::new();
    for cpu in bounded {
        let effects = bounds::effects(&cpu.states, bound_us, idle.governor.as_deref());
        for (state, effect) in cpu.states.iter().zip(effects) {
            if effect == Effect::Left && !names.contains(&state.name) {
                names.push(state.name.clone());
            }
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// Two CPUs with POLL, C1 (2 µs) and C6 (100 µs) below a root of the test's.
    fn machine(states: &[(&str, u32)]) -> (tempfile::TempDir, Machine) {
        let folder = tempfile::tempdir().unwrap();
        let system = folder.path().join("sys/devices/system/cpu");
        for cpu in 0..2 {
            let power = system.join(format!("cpu{cpu}/power"));
            fs::create_dir_all(&power).unwrap();
            fs::write(power.join("pm_qos_resume_latency_us"), "0\n").unwrap();
            for (index, (name, latency)) in states.iter().enumerate() {
                let state = system.join(format!("cpu{cpu}/cpuidle/state{index}"));
                fs::create_dir_all(&state).unwrap();
                fs::write(state.join("name"), name).unwrap();
                fs::write(state.join("latency"), latency.to_string()).unwrap();
                fs::write(state.join("disable"), "0\n").unwrap();
            }
        }
        fs::create_dir_all(system.join("cpuidle")).unwrap();
        for (file, text) in [("present", "0-1"), ("online", "0-1")] {
            fs::write(system.join(file), text).unwrap();
        }
        if !states.is_empty() {
            fs::write(system.join("cpuidle/current_driver"), "intel_idle").unwrap();
            fs::write(system.join("cpuidle/current_governor"), "menu").unwrap();
        }
        let mut machine = Machine::read(Root::at(folder.path())).unwrap();
        machine.journal_folder = folder.path().join("run");
        (folder, machine)
    }

    const STATES: [(&str, u32); 3] = [("POLL", 0), ("C1", 2), ("C6", 100)];

    fn names(settings: &[Setting]) -> Vec<&str> {
        settings
            .iter()
            .map(|setting| setting.name.as_str())
            .collect()
    }

    fn wanted(only: &[&str], bounds_us: &[u32]) -> Wanted {
        Wanted {
            bounds_us: bounds_us.to_vec(),
            given: vec![],
            only: only.iter().map(|name| (*name).to_owned()).collect(),
        }
    }

    #[test]
    fn by_default_each_state_is_the_deepest_once_and_equal_settings_are_omitted() {
        let (_folder, Machine { idle, .. }) = machine(&STATES);
        let (settings, notes) = choose(&idle, &wanted(&[], &[20])).unwrap();
        assert_eq!(
            names(&settings),
            ["as is", "up to C1", "hold 20us", "no sleep"]
        );
        let how = settings[1..]
            .iter()
            .map(|one| (one.name.clone(), one.how(&idle).unwrap()));
        let left_out = notes.into_iter().map(|note| ("note".into(), note));
        reveille_snapshot::snapshot!("settings", how.chain(left_out));
    }

    #[test]
    fn settings_are_chosen_by_name_and_always_include_as_is() {
        let (_folder, Machine { idle, .. }) = machine(&STATES);
        for name in ["c6", "up-to-C6", "up to C6"] {
            let (settings, _) = choose(&idle, &wanted(&[name], &[])).unwrap();
            assert_eq!(names(&settings), ["as is", "up to C6"], "{name}");
        }
        let (settings, _) = choose(&idle, &wanted(&["no-sleep", "as-is"], &[])).unwrap();
        assert_eq!(names(&settings), ["as is", "no sleep"]);
        let error = choose(&idle, &wanted(&["C9"], &[])).unwrap_err();
        assert!(
            error.to_string().contains("POLL, C1, C6, no-sleep"),
            "{error}"
        );
        let error = choose(&idle, &wanted(&["as-is"], &[])).unwrap_err();
        assert!(error.to_string().contains("nothing to compare"), "{error}");
        assert!(choose(&idle, &wanted(&[], &[5, 5])).is_err());
    }

    #[test]
    fn a_cpu_that_was_not_always_kept_awake_is_reported() {
        use nix::sched::{CpuSet, sched_setaffinity};
        if reveille_kernel::affinity::allowed() != [0, 1] {
            return println!(
                "skipped: a_cpu_that_was_not_always_kept_awake_is_reported: needs the CPUs 0 and 1"
            );
        }
        let (_folder, machine) = machine(&[]);
        let no_sleep = Setting::new(NO_SLEEP, Kind::NoSleep);
        let applied = no_sleep.kind.apply(&machine).unwrap();
        assert_eq!(applied.interrupted(), None);
        // As the kernel does with the thread on CPU 1 when that goes offline.
        let mut other = CpuSet::new();
        other.set(0).unwrap();
        for task in fs::read_dir("/proc/self/task").unwrap().flatten() {
            let name = fs::read_to_string(task.path().join("comm")).unwrap_or_default();
            if name.trim() == "awake-1" {
                let thread = task.file_name().to_string_lossy().parse().unwrap();
                sched_setaffinity(nix::unistd::Pid::from_raw(thread), &other).unwrap();
            }
        }
        let began = std::time::Instant::now();
        while applied.interrupted().is_none() {
            assert!(began.elapsed().as_secs() < 60);
            std::thread::yield_now();
        }
        applied.end().unwrap();
    }

    #[test]
    fn without_cpuidle_threads_keep_cpus_awake_and_a_bound_is_refused() {
        let (_folder, Machine { idle, .. }) = machine(&[]);
        let (settings, _) = choose(&idle, &wanted(&[], &[])).unwrap();
        assert_eq!(names(&settings), ["as is", "no sleep"]);
        assert!(settings[1].how(&idle).unwrap().contains("threads"));
        let refused = choose(&idle, &wanted(&[], &[20]));
        assert!(matches!(refused, Err(Error::Cannot(_))), "{refused:?}");
    }

    #[test]
    fn a_state_0_that_sleeps_is_not_polling() {
        let (_folder, Machine { idle, .. }) = machine(&[("WFI", 1), ("cpu-sleep", 500)]);
        let (settings, _) = choose(&idle, &wanted(&[], &[])).unwrap();
        assert_eq!(names(&settings), ["as is", "up to WFI", "no sleep"]);
        assert!(settings[2].how(&idle).unwrap().contains("threads"));
    }

    #[test]
    fn a_setting_is_in_force_until_released() {
        let (_folder, machine) = machine(&STATES);
        let root = &machine.root;
        let disabled = |cpu, state| {
            root.number(&format!(
                "sys/devices/system/cpu/cpu{cpu}/cpuidle/state{state}/disable"
            ))
        };
        let applied = Setting::up_to("C1").kind.apply(&machine).unwrap();
        assert_eq!([disabled(0, 2), disabled(1, 2)], [Some(1); 2]);
        applied.end().unwrap();
        assert_eq!([disabled(0, 2), disabled(1, 2)], [Some(0); 2]);
        let kind = Kind::Hold {
            bound_us: 0,
            cpus: Some(vec![1]),
        };
        let held = kind.apply(&machine).unwrap();
        let bound = |cpu| root.text(&requests::file_of(cpu)).unwrap();
        assert_eq!((bound(0), bound(1)), ("0".into(), "n/a".into()));
        drop(held);
        assert_eq!(bound(1), "0");
    }

    #[test]
    fn a_setting_that_another_program_prevents_is_not_in_force() {
        let (_folder, machine) = machine(&STATES);
        let path = machine.root.path(&requests::file_of(1));
        for (theirs, ours, is_in_force) in [
            ("0", 50, true),
            ("20", 50, false),
            ("n/a", 50, false),
            ("50", 50, true),
            ("80", 50, true),
            ("20", 0, true),
        ] {
            fs::write(&path, format!("{theirs}\n")).unwrap();
            let kind = Kind::Hold {
                bound_us: ours,
                cpus: Some(vec![0, 1]),
            };
            let applied = kind.apply(&machine);
            let found = matches!(applied, Err(Error::Disturbed(_)));
            assert_eq!(!found, is_in_force, "{ours} beside {theirs}");
            drop(applied);
            assert_eq!(fs::read_to_string(&path).unwrap().trim(), theirs);
            assert_eq!(machine.root.text(&requests::file_of(0)).unwrap(), "0");
        }
    }

    #[test]
    fn another_programs_change_is_reported_and_kept() {
        let (_folder, machine) = machine(&STATES);
        let applied = Setting::up_to("C1").kind.apply(&machine).unwrap();
        let file = machine
            .root
            .path("sys/devices/system/cpu/cpu0/cpuidle/state2/disable");
        fs::write(&file, "2\n").unwrap();
        let error = applied.end().unwrap_err();
        assert!(error.to_string().contains("another program"), "{error}");
        assert_eq!(fs::read_to_string(&file).unwrap(), "2\n");
    }
}
