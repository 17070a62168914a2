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
use crate::force::{Asked, Cpu, Force, Rules as ForCpu, State};
use crate::holds::{Asked as OfProgram, Hold, Holds};
use crate::judge::{Judge, Judged};
use crate::packets::{Counting, OnCpu, Packets};
use crate::quiet::{self, Quiet};
use crate::rules::{By, Rule, Rules};
use crate::status::{Accounted, CpuStatus, HoldStatus, RuleStatus, Why};

/// Of attributes' latencies, judgements that are kept: cgroups may ask for any.
const LATENCIES_MAX: usize = 64;

/// A status does not wait longer for threads that have yet to run.
const THREADS_WITHIN: Duration = Duration::from_millis(200);

/// Who sees the packets of rules: programs, on each CPU; or nobody.
#[derive(Default)]
struct Seen {
    packets: Option<Packets>,
    on_cpus: Vec<OnCpu>,
}

/// Rules, and what carries them out.
pub struct InForce {
    /// The file's.
    pub rules: Rules,
    /// How often rules were judged.
    pub number: u64,
    problems: Vec<String>,
    judge: Judge,
    judged: Vec<Judged>,
    conditions: Conditions,
    /// As judged, of rules by cgroups' attributes: for the latencies that they ask for.
    by_latency: BTreeMap<(usize, u32), Judged>,
    anticipation: Anticipation,
    /// Why, if something is to be.
    not_anticipated: Option<String>,
    // In this order: the threads end, and take their bounds back, before the journals look.
    force: Force,
    packets: Option<Packets>,
    /// And what counting itself takes, ns a run.
    counting: Option<(Counting, u64)>,
    /// What programs did that were at work before.
    accounted_before: Accounted,
    accounting: bool,
    /// One for the CPUs of the start, and one more whenever CPUs came that had not been there.
    journals: Vec<Journal>,
    root: Root,
}

impl InForce {
    /// No rules, and a thread for each CPU; nothing is held before [`InForce::take_up`].
    ///
    /// # Errors
    /// Where no bound can be set here.
    pub fn start(root: &Root, accounting: bool) -> Result<Self> {
        let idle = Idle::read(root)?;
        let counting = accounting.then(counting).flatten();
        let is_uncounted = accounting && counting.is_none();
        let mut in_force = Self {
            rules: Rules::default(),
            number: 0,
            problems: is_uncounted.then(|| UNCOUNTED.into()).into_iter().collect(),
            judged: Vec::new(),
            conditions: Conditions::nothing(),
            by_latency: BTreeMap::new(),
            anticipation: Anticipation::default(),
            not_anticipated: None,
            force: Force::default(),
            packets: None,
            counting,
            accounted_before: Accounted::default(),
            accounting,
            journals: Vec::new(),
            root: root.clone(),
            judge: Judge::of(idle, root),
        };
        in_force.have_threads(&bounded(&in_force.judge.idle))?;
        Ok(in_force)
    }

    /// Judges these rules on the machine as it is now, and has them in force. What was asked for before and is now
    /// stays in force meanwhile; on an error all does. `epoll` announces when there is something for
    /// [`InForce::catch_up`].
    ///
    /// # Errors
    /// Where the machine cannot be read, or the bound of a CPU cannot be set. Without BPF the rules without traffic
    /// work, and a problem names it.
    pub fn take_up(&mut self, rules: Rules, holds: &mut Holds, epoll: &Epoll) -> Result<()> {
        // Before they are judged: a result that appears from now on is announced.
        let conditions =
            (rules != self.rules).then(|| Conditions::watch(&rules, &self.root, epoll));
        // Read once: whether the machine has changed since is asked of the one that judges.
        let judge = Judge::of(Idle::read(&self.root)?, &self.root);
        self.have_threads(&bounded(&judge.idle))?;
        self.problems.retain(|problem| problem == UNCOUNTED);
        if !requests::honoured(&judge.idle) {
            self.problems
                .push("latency bounds have no effect here: no cpuidle driver and governor".into());
        }
        let before = places_before(&rules.rules, &self.rules.rules);
        let seen = self.who_sees(&rules, &before);
        self.judged = judge.all(&rules);
        self.judge = judge;
        if let Some(conditions) = conditions {
            self.conditions = conditions;
        }
        self.rules = rules;
        self.number += 1;
        self.by_latency.clear();
        holds.judge(|asked| self.judge(asked));
        self.hand_on(&before, seen, holds);
        Ok(())
    }

    /// Gives the rules to the CPUs' threads, with who sees their packets; `None`: who does already.
    fn hand_on(&mut self, before: &[Option<usize>], seen: Option<Seen>, holds: &Holds) {
        let (mut others, mut on_cpus) = (None, None);
        if let Some(Seen {
            packets,
            on_cpus: all,
        }) = seen
        {
            others = std::mem::replace(&mut self.packets, packets);
            on_cpus = Some(all.into_iter().map(Some).collect::<Vec<_>>());
        }
        let asked = self.asked(holds);
        // From here on all is quick: what others see is not seen by the threads any more.
        if let (Some((_, nothing_ns)), Some(others)) = (&self.counting, &others)
            && let Ok(of) = others.accounted(*nothing_ns)
        {
            self.accounted_before = self.accounted_before.and(of);
        }
        if let (Some(packets), Some(others)) = (&self.packets, &others) {
            let places = before.iter().enumerate();
            let places = places.filter_map(|(nth, place)| Some((nth, (*place)?)));
            places.for_each(|(nth, place)| packets.go_on(nth, others, place));
        }
        let quiet = self.rules.rules.iter().zip(&self.judged);
        let quiet = quiet.map(|(rule, judged)| Quiet {
            least: judged.quiet(),
            follows: rule.quiet.is_none(),
        });
        let quiet: Vec<Quiet> = quiet.collect();
        for (cpu, asked) in self.force.cpus().iter().zip(asked) {
            let of_cpu = |all: &mut Vec<Option<OnCpu>>| {
                let packets = all.get_mut(cpu.number as usize);
                packets.and_then(Option::take)
            };
            let rules = ForCpu {
                quiet: quiet.clone(),
                before: before.to_vec(),
                packets: on_cpus.as_mut().map(of_cpu),
            };
            cpu.take_up(rules, asked);
        }
    }

    /// Has a thread for each of these CPUs, and for no other.
    fn have_threads(&mut self, cpus: &[u32]) -> Result<()> {
        let is_new = |cpu: &&u32| self.force.cpus().iter().all(|one| one.number != **cpu);
        let new: Vec<u32> = cpus.iter().filter(is_new).copied().collect();
        if !new.is_empty() {
            let mut journal = Journal::new(&self.root, Path::new(journal::FOLDER));
            let bounds = journal.live_bounds(&new)?;
            self.journals.push(journal);
            self.force.add(bounds)?;
        }
        self.force.keep(cpus);
        Ok(())
    }

    /// The kernel's programs for these rules; `None`: those at work, for all of the rules were there before.
    fn who_sees(&mut self, rules: &Rules, before: &[Option<usize>]) -> Option<Seen> {
        let rules = &rules.rules;
        if !rules.iter().any(|rule| rule.when.by_events()) {
            return Some(Seen::default());
        }
        let were_there = before
            .iter()
            .zip(0..)
            .all(|(place, nth)| *place == Some(nth));
        let quiet = |rules: &[Rule]| rules.iter().map(|rule| rule.quiet).collect::<Vec<_>>();
        if self.packets.is_some() && were_there && quiet(rules) == quiet(&self.rules.rules) {
            return None;
        }
        let started = Packets::start(rules, self.accounting);
        let started = started.map(|(packets, on_cpus)| Seen {
            packets: Some(packets),
            on_cpus,
        });
        Some(started.unwrap_or_else(|error| {
            let problem = format!("traffic is not watched: {error}");
            self.problems.push(problem);
            Seen::default()
        }))
    }

    /// Were the rules judged on the machine as it is now?
    pub fn is_of_this_machine(&self) -> bool {
        Idle::read(&self.root).map_or(true, |now| is_alike(&self.judge.idle, &now))
    }

    /// What does not work, a sentence each without its full stop.
    pub fn problems(&self) -> Vec<String> {
        let conditions = self.conditions.problems();
        let own = self.problems.iter().chain(&self.not_anticipated);
        own.cloned().chain(conditions).collect()
    }

    /// Has the CPUs hold what the conditions give.
    pub fn update(&mut self, holds: &Holds) {
        let asked = self.asked(holds);
        for (cpu, asked) in self.force.cpus().iter().zip(asked) {
            cpu.ask(asked);
        }
    }

    /// What the conditions and holds ask for now, of each CPU.
    fn asked(&mut self, holds: &Holds) -> Vec<Asked> {
        let (mut always, mut may) = (0, 0);
        for (nth, rule) in self.rules.rules.iter().enumerate() {
            if !rule.when.by_events() {
                // An anticipated disk has no bound.
                always |= u32::from(rule.when.disk.is_none()) << nth;
            } else if let Some(packets) = &self.packets
                && watch(packets, nth, rule, &self.root)
            {
                may |= 1 << nth;
            }
        }
        let now = Timestamp::now();
        let rules = 0..self.rules.rules.len();
        let standing: Vec<Standing> = rules
            .map(|nth| self.conditions.standing(nth, now))
            .collect();
        self.anticipate(&standing);
        let cpus = self.force.cpus().iter();
        let cpus: Vec<u32> = cpus.map(|cpu| cpu.number).collect();
        let asked = cpus.into_iter().map(|cpu| {
            let bounds_us = self.bounds_on(cpu, &standing);
            let bounds = bounds_us.iter().enumerate();
            let covered = bounds.filter(|(_, bound_us)| bound_us.is_some());
            let covered = covered.fold(0, |covered, (nth, _)| covered | 1 << nth);
            Asked {
                always: always & covered,
                may: may & covered,
                hold_us: holds.bound_us(cpu),
                bounds_us,
            }
        });
        asked.collect()
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
        let set = self.anticipation.set(wanted, Some(&self.judge.idle));
        self.not_anticipated = set
            .err()
            .map(|error| format!("nothing is anticipated: {error}"));
    }

    /// The bounds of the rules whose conditions beside traffic hold on that CPU, µs.
    fn bounds_on(&mut self, cpu: u32, standing: &[Standing]) -> Vec<Option<u32>> {
        let standing = standing.iter().enumerate();
        let bound = |(nth, standing): (usize, &Standing)| match standing.on(cpu)? {
            conditions::Asked::Rules => self.judged[nth].bound_us(cpu),
            conditions::Asked::Latency(us) => self.judged_for(nth, us).bound_us(cpu),
        };
        standing.map(bound).collect()
    }

    /// The rule at that place for the latency that a cgroup asks for, µs.
    fn judged_for(&mut self, nth: usize, latency_us: u32) -> &Judged {
        let rule = &self.rules.rules[nth];
        let latency_us = latency_us.max(rule.at_least_us.unwrap_or(0));
        if self.by_latency.len() >= LATENCIES_MAX {
            self.by_latency.clear();
        }
        let of = self.by_latency.entry((nth, latency_us));
        of.or_insert_with(|| self.judge.with_latency(&self.rules, rule, latency_us))
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
        drop(self.force);
        {
            // Without BPF there is nothing to drop.
            let _packets = self.packets;
        }
        let journals = self.journals.iter_mut();
        let complaints = journals.flat_map(|journal| journal.restore().complaints());
        complaints.collect()
    }

    /// What a program's request means here.
    pub fn judge(&self, asked: &OfProgram) -> Judged {
        let cpus = asked.cpus.clone();
        self.judge
            .of_program(&self.rules, "hold", asked.latency_us, cpus)
    }

    /// The CPUs whose bounds can be set, ascending.
    pub fn cpus(&self) -> &[Arc<Cpu>] {
        self.force.cpus()
    }

    /// What the kernel's programs did; `None` without accounting.
    pub fn accounted(&self) -> Option<Accounted> {
        let (_, nothing_ns) = self.counting.as_ref()?;
        let now = self.packets.as_ref()?.accounted(*nothing_ns).ok()?;
        Some(now.and(self.accounted_before))
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
                let mut judged = judged.clone();
                if rule.when.by_events() {
                    let gaps = states.iter().filter_map(|(cpu, state)| {
                        let gaps = self.packets.as_ref()?.gaps(*cpu, nth);
                        Some((gaps, state.uses[nth].quiet))
                    });
                    judged.is_found(&gaps.collect::<Vec<_>>());
                }
                let is_in_force = |(cpu, state): &&(u32, State)| self.is_in_force(nth, *cpu, state);
                RuleStatus {
                    judged,
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
            None => state.rules & 1 << nth != 0 && state.keeps(self.judged[nth].bound_us(cpu)),
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
                in_force: state.keeps(hold.judged.bound_us(number)),
                why: format!("{}: {}", hold.asked.owner.name, hold.asked.reason),
            }));
            CpuStatus {
                cpu: number,
                bound_us: state.bound_us,
                since_s: state.since.map(|since| since.elapsed().as_secs_f64()),
                in_the_way: self.in_the_way(cpu, &state),
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
    fn in_the_way(&self, cpu: &Cpu, state: &State) -> Option<String> {
        let present = self.root.text(&requests::file_of(cpu.number))?;
        let now = cpu.state();
        // The thread may be about to write it.
        let is_stable = !state.is_being_set && !now.is_being_set && now.bound_us == state.bound_us;
        let ours = state.bound_us.map_or("0".to_owned(), requests::text_of);
        (is_stable && present != ours && present != "0").then_some(present)
    }

    /// Why a rule is in force on a CPU, or is not.
    fn why(&self, nth: usize, judged: &Judged, rule: &Rule, cpu: u32, state: &State) -> String {
        if !rule.covers(cpu) {
            return "the rule is for other CPUs".into();
        }
        if judged.bound_us(cpu).is_none() {
            let group = judged.groups.iter().find(|group| group.cpus.contains(&cpu));
            return match group {
                Some(group) => group.why_nothing.clone().unwrap_or_default(),
                None => judged
                    .notes
                    .first()
                    .cloned()
                    .unwrap_or_else(|| "the CPU is offline".into()),
            };
        }
        let mut findings = self.conditions.findings(nth, cpu, Timestamp::now());
        let traffic = rule.when.traffic.as_ref();
        findings.extend(traffic.map(|of| self.events(nth, of, cpu, state)));
        let disk = rule.when.disk_by_bound();
        findings.extend(disk.map(|of| self.events(nth, of, cpu, state)));
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
    fn events(&self, nth: usize, of: &impl std::fmt::Display, cpu: u32, state: &State) -> Finding {
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
                let quiet = state.uses[nth].quiet;
                let late = quiet::late(&[(packets.gaps(cpu, nth), quiet)]);
                let late = late.map_or(String::new(), |late| format!("; {}", late.words()));
                let [ago, quiet] = [ago as f64, quiet.as_nanos() as f64].map(duration);
                match holds {
                    true => format!("{of}, the last {ago} ago; held for {quiet}{late}"),
                    false => format!("{of}, the last {ago} ago; held for {quiet} only{late}"),
                }
            }
        })
    }
}

/// Without the kernel's count, or the right to it.
const UNCOUNTED: &str =
    "the programs' time is not counted: the kernel does not, or not for this user";

/// Has the kernel count the programs' time; `None` where it does not.
fn counting() -> Option<(Counting, u64)> {
    let counting = Counting::start()?;
    let nothing_ns = counting.of_nothing_ns().ok()?;
    Some((counting, nothing_ns))
}

/// Has the kernel's programs watch the interface or disk of a rule; false if it is missing.
fn watch(packets: &Packets, nth: usize, rule: &Rule, root: &Root) -> bool {
    let when = &rule.when;
    let interface = when.traffic.as_ref();
    let interface = interface.and_then(|of| network::index_here(&of.interface));
    let disk = when.disk_by_bound();
    let disk = disk.and_then(|of| BlockDevice::named(root, &of.device).ok());
    packets.watch(nth, interface);
    packets.watch_disk(nth, disk.as_ref().map(BlockDevice::number));
    interface.is_some() || disk.is_some()
}

/// CPUs that have a bound of their own, ascending.
fn bounded(idle: &Idle) -> Vec<u32> {
    let cpus = idle.cpus.iter();
    let cpus = cpus.filter(|cpu| cpu.resume_latency_us.is_some());
    cpus.map(|cpu| cpu.number).collect()
}

/// Of each rule, the place that it had before. It is the same rule if it has the same name and waits for the same
/// traffic, or disk: so it goes on with what it has seen.
fn places_before(rules: &[Rule], before: &[Rule]) -> Vec<Option<usize>> {
    let is_same = |one: &Rule, other: &Rule| {
        one.name == other.name
            && one.when.traffic == other.when.traffic
            && one.when.disk == other.when.disk
    };
    let place = |rule| before.iter().position(|other| is_same(rule, other));
    rules.iter().map(place).collect()
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
    fn a_machine_that_changes_while_rules_are_judged_is_another_one() {
        let folder = tempfile::tempdir().unwrap();
        let put = |file: &str, text: &str| {
            let path = folder.path().join("sys/devices/system/cpu").join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, format!("{text}\n")).unwrap();
        };
        put("present", "0-1");
        put("online", "0");
        put("cpuidle/current_driver", "acpi_idle");
        put("cpuidle/current_governor", "menu");
        for cpu in 0..2 {
            put(&format!("cpu{cpu}/cpuidle/state0/name"), "C1");
            put(&format!("cpu{cpu}/cpuidle/state0/latency"), "100");
        }
        let root = Root::at(folder.path());
        let judge = Judge::of(Idle::read(&root).unwrap(), &root);
        put("online", "0-1");
        let rules = Rules::parse("[[rule]]\nname = \"a\"\nlatency = \"0\"\n").unwrap();
        let judged = judge.all(&rules);
        assert_eq!(judged[0].groups[0].cpus, [0]);
        assert!(!is_alike(&judge.idle, &Idle::read(&root).unwrap()));
    }

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
