//! Rules that are in force: what carries them out, and how they stand.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use nix::sys::epoll::Epoll;
use reveille_anticipate::BlockDevice;
use reveille_kernel::{Idle, Journal, Result, Root, journal, network, requests};
use reveille_show::quantity::duration;

use crate::anticipation::{Anticipation, Wanted};
use crate::conditions::{self, Conditions, Finding, Standing};
use crate::force::{Asked, Cpu, Force, State};
use crate::holds::{Asked as OfProgram, Hold, Holds};
use crate::judge::{self, Judged, OfPrograms};
use crate::packets::{Counting, Packets};
use crate::rules::{By, Rule, Rules};
use crate::status::{Accounted, CpuStatus, HoldStatus, RuleStatus, Why};

/// Of attributes' latencies, judgements that are kept: cgroups may ask for any.
const LATENCIES_MAX: usize = 64;

/// A status does not wait longer for threads that have yet to run.
const THREADS_WITHIN: Duration = Duration::from_millis(200);

/// Rules, and what carries them out.
pub struct InForce {
    /// The file's.
    pub rules: Rules,
    problems: Vec<String>,
    judged: Vec<Judged>,
    conditions: Conditions,
    /// As judged, of rules by cgroups' attributes: for the latencies that they ask for.
    by_latency: BTreeMap<(usize, u32), Judged>,
    idle: Option<Idle>,
    anticipation: Anticipation,
    /// Why, if something is to be.
    not_anticipated: Option<String>,
    of_programs: Option<OfPrograms>,
    // In this order: the threads end, and take their bounds back, before the journal looks.
    force: Option<Force>,
    packets: Option<Packets>,
    /// And what counting itself takes, ns a run.
    counting: Option<(Counting, u64)>,
    journal: Option<Journal>,
    root: Root,
}

impl InForce {
    /// No rules.
    pub fn nothing() -> Self {
        Self {
            rules: Rules::default(),
            problems: Vec::new(),
            judged: Vec::new(),
            conditions: Conditions::nothing(),
            by_latency: BTreeMap::new(),
            idle: None,
            anticipation: Anticipation::default(),
            not_anticipated: None,
            of_programs: None,
            force: None,
            packets: None,
            counting: None,
            journal: None,
            root: Root::default(),
        }
    }

    /// Judges the rules and makes all ready; nothing is held before [`InForce::update`]. `epoll` announces when
    /// there is something for [`InForce::catch_up`].
    ///
    /// # Errors
    /// Where no bound can be set here. Without BPF the rules without traffic work, and a problem names it.
    pub fn start(rules: Rules, root: &Root, accounting: bool, epoll: &Epoll) -> Result<Self> {
        // Before they are judged: a result that appears from now on is announced.
        let conditions = Conditions::watch(&rules, root, epoll);
        let judged = judge::all(&rules, root)?;
        let idle = Idle::read(root)?;
        let mut problems = Vec::new();
        let mut journal = Journal::new(root, Path::new(journal::FOLDER));
        let has_bound = |cpu: &&reveille_kernel::Cpu| cpu.resume_latency_us.is_some();
        let cpus: Vec<u32> = idle
            .cpus
            .iter()
            .filter(has_bound)
            .map(|cpu| cpu.number)
            .collect();
        if !requests::honoured(&idle) {
            problems
                .push("latency bounds have no effect here: no cpuidle driver and governor".into());
        }
        let bounds = journal.live_bounds(&cpus)?;
        let has_events = rules.rules.iter().any(|rule| rule.when.by_events());
        let (packets, on_cpus) = match has_events.then(|| Packets::start(&rules.rules, accounting))
        {
            Some(Ok((packets, on_cpus))) => (Some(packets), on_cpus),
            Some(Err(error)) => {
                problems.push(format!("traffic is not watched: {error}"));
                (None, Vec::new())
            }
            None => (None, Vec::new()),
        };
        let counting = match accounting {
            true => counting(&mut problems),
            false => None,
        };
        Ok(Self {
            force: Some(Force::start(bounds, on_cpus, &judged)?),
            of_programs: Some(OfPrograms::read(&rules, root)?),
            rules,
            problems,
            judged,
            conditions,
            by_latency: BTreeMap::new(),
            idle: Some(idle),
            anticipation: Anticipation::default(),
            not_anticipated: None,
            packets,
            counting,
            journal: Some(journal),
            root: root.clone(),
        })
    }

    /// Were the rules judged on the machine as it is now?
    pub fn is_of_this_machine(&self) -> bool {
        match (&self.idle, Idle::read(&self.root)) {
            (Some(judged), Ok(now)) => is_alike(judged, &now),
            _ => true,
        }
    }

    /// What does not work, a sentence each without its full stop.
    pub fn problems(&self) -> Vec<String> {
        let conditions = self.conditions.problems();
        let own = self.problems.iter().chain(&self.not_anticipated);
        own.cloned().chain(conditions).collect()
    }

    /// Has the CPUs hold what the conditions give.
    pub fn update(&mut self, holds: &Holds) {
        let (mut always, mut may) = (0, 0);
        for (nth, rule) in self.rules.rules.iter().enumerate() {
            if !rule.when.by_events() {
                // An anticipated disk has no bound.
                always |= u32::from(rule.when.disk.is_none()) << nth;
            } else if self.watch(nth) {
                may |= 1 << nth;
            }
        }
        let now = Timestamp::now();
        let rules = 0..self.rules.rules.len();
        let standing: Vec<Standing> = rules
            .map(|nth| self.conditions.standing(nth, now))
            .collect();
        self.anticipate(&standing);
        let cpus: Vec<Arc<Cpu>> = self.cpus().to_vec();
        for cpu in cpus {
            let covered = self.hold_on(&cpu, &standing);
            cpu.ask(Asked {
                always: always & covered,
                may: may & covered,
                hold_us: holds.bound_us(cpu.number),
            });
        }
    }

    /// Has the kernel's programs watch the interface or disk of a rule; false if it is missing.
    fn watch(&self, nth: usize) -> bool {
        let when = &self.rules.rules[nth].when;
        let interface = when.traffic.as_ref();
        let interface = interface.and_then(|of| network::index_here(&of.interface));
        let disk = when.disk_by_bound();
        let disk = disk.and_then(|of| BlockDevice::named(&self.root, &of.device).ok());
        if let Some(packets) = &self.packets {
            packets.watch(nth, interface);
            packets.watch_disk(nth, disk.as_ref().map(BlockDevice::number));
        }
        interface.is_some() || disk.is_some()
    }

    /// Has the engine anticipate the disks of the rules whose conditions hold, and serve applications.
    fn anticipate(&mut self, standing: &[Standing]) {
        let mut wanted = Wanted {
            applications: self.rules.applications.is_some(),
            budget: self.rules.applications.unwrap_or(0.0),
            ..Wanted::default()
        };
        for (nth, rule) in self.rules.rules.iter().enumerate() {
            let holds = |cpu: &&Arc<Cpu>| {
                let bound_us = self.judged[nth].bound_us(cpu.number);
                bound_us.is_some() && standing[nth].on(cpu.number).is_some()
            };
            if let Some(of) = rule.when.disk_anticipated()
                && self.cpus().iter().any(|cpu| holds(&cpu))
                && let Ok(disk) = BlockDevice::named(&self.root, &of.device)
            {
                wanted.budget = wanted.budget.max(of.budget);
                if !wanted.disks.contains(&disk) {
                    wanted.disks.push(disk);
                }
            }
        }
        let set = self.anticipation.set(wanted, self.idle.as_ref());
        self.not_anticipated = set
            .err()
            .map(|error| format!("nothing is anticipated: {error}"));
    }

    /// The rules whose conditions beside traffic hold on that CPU, and that then hold a bound there, a bit each.
    fn hold_on(&mut self, cpu: &Cpu, standing: &[Standing]) -> u32 {
        let mut holding = 0;
        for (nth, standing) in standing.iter().enumerate() {
            let bound_us = match standing.on(cpu.number) {
                None => None,
                Some(conditions::Asked::Rules) => self.judged[nth].bound_us(cpu.number),
                Some(conditions::Asked::Latency(us)) => {
                    let bound_us = self.judged_for(nth, us).bound_us(cpu.number);
                    cpu.set_bound(nth, bound_us);
                    bound_us
                }
            };
            if bound_us.is_some() {
                holding |= 1 << nth;
            }
        }
        holding
    }

    /// The rule at that place for the latency that a cgroup asks for, µs.
    fn judged_for(&mut self, nth: usize, latency_us: u32) -> &Judged {
        let rule = &self.rules.rules[nth];
        let latency_us = latency_us.max(rule.at_least_us.unwrap_or(0));
        if self.by_latency.len() >= LATENCIES_MAX {
            self.by_latency.clear();
        }
        let of = self.by_latency.entry((nth, latency_us));
        of.or_insert_with(|| match &self.idle {
            Some(idle) => judge::with_latency(&self.rules, rule, latency_us, idle, &self.root),
            None => Judged::default(),
        })
    }

    /// Takes up changes of conditions that were announced; true if the rules have to be judged anew.
    pub fn catch_up(&mut self, holds: &Holds) -> bool {
        let are_to_be_judged = self.conditions.catch_up();
        self.update(holds);
        are_to_be_judged
    }

    /// Takes up devices that came, went or changed.
    pub fn devices(&mut self, holds: &Holds) {
        self.conditions.devices();
        self.update(holds);
        // A CPU that is back needs its thread there, and its bound.
        self.cpus().iter().for_each(|cpu| cpu.wake());
    }

    /// Takes all bounds back; what is not as it was found, a line each.
    pub fn end(mut self) -> Vec<String> {
        self.force = None;
        self.packets = None;
        let journal = self.journal.as_mut();
        journal.map_or_else(Vec::new, |journal| journal.restore().complaints())
    }

    /// What a program's request means here.
    pub fn judge(&self, asked: &OfProgram) -> Judged {
        let of_programs = self.of_programs.as_ref();
        let latency =
            |judge: &OfPrograms| judge.latency("hold", asked.latency_us, asked.cpus.clone());
        of_programs.map_or_else(Judged::default, latency)
    }

    /// The CPUs whose bounds can be set, ascending.
    pub fn cpus(&self) -> &[Arc<Cpu>] {
        self.force.as_ref().map_or(&[], Force::cpus)
    }

    /// What the kernel's programs did; `None` without accounting.
    pub fn accounted(&self) -> Option<Accounted> {
        let (_, nothing_ns) = self.counting.as_ref()?;
        self.packets.as_ref()?.accounted(*nothing_ns).ok()
    }

    /// How each rule stands.
    pub fn rule_statuses(&self) -> Vec<RuleStatus> {
        let states: Vec<(u32, State)> = self
            .cpus()
            .iter()
            .map(|cpu| (cpu.number, cpu.state()))
            .collect();
        let anticipated = self.anticipation.requests().unwrap_or_default();
        let counted = |nth| self.packets.as_ref().map(|packets| packets.count(nth));
        let rules = self.judged.iter().zip(&self.rules.rules).enumerate();
        rules
            .map(|(nth, (judged, rule))| {
                let uses = states.iter().map(|(_, state)| &state.uses[nth]);
                let is_in_force = |(cpu, state): &&(u32, State)| self.is_in_force(nth, *cpu, state);
                RuleStatus {
                    judged: judged.clone(),
                    waits_for: self.conditions.waits_for(nth),
                    in_force: states
                        .iter()
                        .filter(is_in_force)
                        .map(|(cpu, _)| *cpu)
                        .collect(),
                    times: uses.clone().map(|of| of.times).sum(),
                    held_s: uses.map(|of| of.held().as_secs_f64()).sum(),
                    packets: rule.when.traffic.as_ref().and_then(|_| counted(nth)),
                    requests: rule.when.disk.as_ref().and_then(|disk| match disk.by {
                        By::Anticipation => anticipated.get(&disk.device).copied(),
                        By::Bound => counted(nth),
                    }),
                }
            })
            .collect()
    }

    /// Is the rule in force on that CPU: does it hold its bound there, or anticipate?
    fn is_in_force(&self, nth: usize, cpu: u32, state: &State) -> bool {
        match self.rules.rules[nth].when.disk_anticipated() {
            None => state.rules & 1 << nth != 0,
            Some(disk) => {
                self.judged[nth].bound_us(cpu).is_some() && self.anticipation.has(&disk.device)
            }
        }
    }

    /// How each hold stands.
    pub fn hold_statuses(&self, holds: &Holds) -> Vec<HoldStatus> {
        let status = |(number, hold): (u64, &Arc<Hold>)| HoldStatus {
            number,
            uid: hold.asked.owner.uid,
            pid: hold.asked.owner.pid,
            name: hold.asked.owner.name.clone(),
            reason: hold.asked.reason.clone(),
            held_s: hold.since.elapsed().as_secs_f64(),
            judged: hold.judged.clone(),
        };
        holds.iter().map(status).collect()
    }

    /// How each CPU stands.
    pub fn cpu_statuses(&self, holds: &Holds) -> Vec<CpuStatus> {
        let status = |cpu: &Arc<Cpu>| {
            let state = cpu.state();
            let number = cpu.number;
            let rules = self.judged.iter().zip(&self.rules.rules).enumerate();
            let mut why: Vec<Why> = rules
                .map(|(nth, (judged, rule))| Why {
                    of: rule.name.clone(),
                    in_force: self.is_in_force(nth, number, &state),
                    why: self.why(nth, judged, rule, number, &state),
                })
                .collect();
            let of_cpu = holds
                .iter()
                .filter(|(_, hold)| hold.judged.bound_us(number).is_some());
            why.extend(of_cpu.map(|(nth, hold)| Why {
                of: format!("hold {nth}"),
                in_force: true,
                why: format!("{}: {}", hold.asked.owner.name, hold.asked.reason),
            }));
            CpuStatus {
                cpu: number,
                bound_us: state.bound_us,
                since_s: state.since.map(|since| since.elapsed().as_secs_f64()),
                in_the_way: self.in_the_way(number, &state),
                failed: state.failed,
                why,
            }
        };
        self.cpus().iter().map(status).collect()
    }

    /// Has the CPUs whose setting is another than theirs look at it.
    pub fn look_at_settings(&self) {
        for cpu in self.cpus() {
            let ours = cpu.bound_us().map_or("0".to_owned(), requests::text_of);
            let present = self.root.text(&requests::file_of(cpu.number));
            if present.is_some_and(|present| present != ours) {
                cpu.look();
            }
        }
    }

    /// Waits until the threads did what they were asked for, not for long.
    pub fn wait_for_threads(&self) {
        let end = Instant::now() + THREADS_WITHIN;
        while self.cpus().iter().any(|cpu| !cpu.is_done()) && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Another program's value in the setting, as it is now.
    fn in_the_way(&self, cpu: u32, state: &State) -> Option<String> {
        let ours = state.bound_us.map_or("0".to_owned(), requests::text_of);
        let present = self.root.text(&requests::file_of(cpu))?;
        (present != ours && present != "0").then_some(present)
    }

    /// Why a rule is in force on a CPU, or is not.
    fn why(&self, nth: usize, judged: &Judged, rule: &Rule, cpu: u32, state: &State) -> String {
        if !rule.covers(cpu) {
            return "the rule is for other CPUs".into();
        }
        if judged.bound_us(cpu).is_none() {
            let group = judged.groups.iter().find(|group| group.cpus.contains(&cpu));
            return match group {
                Some(_) => format!("every idle state keeps to {}", judged.asks),
                None => judged
                    .notes
                    .first()
                    .cloned()
                    .unwrap_or_else(|| "the CPU is offline".into()),
            };
        }
        let mut findings = self.conditions.findings(nth, cpu, Timestamp::now());
        let traffic = rule.when.traffic.as_ref();
        findings.extend(traffic.map(|of| self.events(nth, judged, of, cpu, state)));
        let disk = rule.when.disk_by_bound();
        findings.extend(disk.map(|of| self.events(nth, judged, of, cpu, state)));
        findings.extend(rule.when.disk_anticipated().map(|of| Finding {
            holds: self.anticipation.has(&of.device),
            why: of.to_string(),
        }));
        let words = |holds| {
            let findings = findings.iter().filter(|one| one.holds == holds);
            findings.map(|one| one.why.as_str()).collect::<Vec<_>>()
        };
        let (holding, failing) = (words(true).join(" and "), words(false).join("; "));
        let is_in_force = state.rules & 1 << nth != 0;
        match () {
            () if findings.is_empty() => "always".into(),
            () if !failing.is_empty() => failing,
            () if !is_in_force && rule.at_least_us.is_some() => {
                format!("{holding}, which every idle state keeps to")
            }
            () => holding,
        }
    }

    /// The condition of traffic, or I/O, on a CPU.
    fn events(
        &self,
        nth: usize,
        judged: &Judged,
        of: &impl std::fmt::Display,
        cpu: u32,
        state: &State,
    ) -> Finding {
        let holds = state.rules & 1 << nth != 0;
        let finding = |why| Finding { holds, why };
        if let Some(missing) = self.conditions.waits_for(nth) {
            return finding(format!("{missing} is missing"));
        }
        let Some(packets) = &self.packets else {
            return finding("traffic is not watched".into());
        };
        finding(match packets.last_ns(cpu, nth) {
            0 => format!("no {of} came to this CPU yet"),
            last => {
                let ago = reveille_kernel::now_ns().saturating_sub(last);
                let [ago, quiet] = [ago as f64, judged.quiet().as_nanos() as f64].map(duration);
                match holds {
                    true => format!("{of}, the last {ago} ago; held for {quiet}"),
                    false => format!("{of}, the last {ago} ago; held for {quiet} only"),
                }
            }
        })
    }
}

/// Has the kernel count the programs' time; `None` with a problem where it does not.
fn counting(problems: &mut Vec<String>) -> Option<(Counting, u64)> {
    let counting = Counting::start();
    let counting = counting.and_then(|counting| {
        let nothing_ns = counting.of_nothing_ns().ok()?;
        Some((counting, nothing_ns))
    });
    if counting.is_none() {
        problems.push(
            "the programs' time is not counted: the kernel does not, or not for this user".into(),
        );
    }
    counting
}

/// Has the machine the driver, the governor, the online CPUs, and on each the idle states and latencies that it had? Firmware
/// may offer others on another power source.
fn is_alike(before: &Idle, now: &Idle) -> bool {
    let of = |idle: &Idle| {
        let online = idle.cpus.iter().filter(|cpu| cpu.online);
        let states = online.map(|cpu| {
            let states = cpu.states.iter();
            let states =
                states.map(|state| (state.index, state.name.clone(), state.exit_latency_us));
            (cpu.number, states.collect::<Vec<_>>())
        });
        let states: Vec<_> = states.collect();
        (idle.driver.clone(), idle.governor.clone(), states)
    };
    of(before) == of(now)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_states_or_latencies_are_another_machine() {
        let of = |states: &[(&str, u64)]| {
            let folder = tempfile::tempdir().unwrap();
            let put = |file: String, text: &str| {
                let path = folder.path().join(file);
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(path, format!("{text}\n")).unwrap();
            };
            let cpu = "sys/devices/system/cpu";
            put(format!("{cpu}/present"), "0");
            put(format!("{cpu}/online"), "0");
            put(format!("{cpu}/cpuidle/current_driver"), "acpi_idle");
            for (nth, (name, exit)) in states.iter().enumerate() {
                let state = format!("{cpu}/cpu0/cpuidle/state{nth}");
                put(format!("{state}/name"), name);
                put(format!("{state}/latency"), &exit.to_string());
                put(format!("{state}/usage"), &(exit * 7).to_string());
            }
            Idle::read(&Root::at(folder.path())).unwrap()
        };
        let mains = of(&[("POLL", 0), ("C1", 1), ("C2", 57)]);
        assert!(is_alike(&mains, &mains.clone()));
        assert!(!is_alike(
            &mains,
            &of(&[("POLL", 0), ("C1", 1), ("C2", 162)])
        ));
        assert!(!is_alike(&mains, &of(&[("POLL", 0), ("C1", 1)])));
        let mut used = mains.clone();
        used.cpus[0].states[2].usage = Some(8);
        used.cpus[0].states[2].disabled = Some(true);
        assert!(is_alike(&mains, &used));
    }
}
