//! Rules that are in force: what carries them out, and how they stand.

use std::sync::Arc;
use std::time::Duration;

use humantime::format_duration;
use reveille_kernel::{Idle, Journal, Result, Root, network, requests};

use super::journal_folder;
use crate::force::{Asked, Cpu, Force, State};
use crate::holds::{Asked as OfProgram, Hold, Holds};
use crate::judge::{self, Judged, OfPrograms};
use crate::packets::{Counting, Packets};
use crate::rules::{Rule, Rules};
use crate::status::{Accounted, CpuStatus, HoldStatus, RuleStatus, Why};

/// Rules, and what carries them out.
pub struct InForce {
    /// The file's.
    pub rules: Rules,
    /// What does not work, a sentence each without its full stop.
    pub problems: Vec<String>,
    judged: Vec<Judged>,
    of_programs: Option<OfPrograms>,
    // In this order: the threads end, and take their bounds back, before the journal looks.
    force: Option<Force>,
    packets: Option<Packets>,
    counting: Option<Counting>,
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
            of_programs: None,
            force: None,
            packets: None,
            counting: None,
            journal: None,
            root: Root::default(),
        }
    }

    /// Judges the rules and makes all ready; nothing is held before [`InForce::update`].
    ///
    /// # Errors
    /// Where no bound can be set here. Without BPF the rules without traffic work, and a problem names it.
    pub fn start(rules: Rules, root: &Root, accounting: bool) -> Result<Self> {
        let judged = judge::all(&rules, root)?;
        let idle = Idle::read(root)?;
        let mut problems = Vec::new();
        let mut journal = Journal::new(root, journal_folder());
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
        let has_traffic = rules.rules.iter().any(|rule| rule.when.traffic.is_some());
        let (packets, on_cpus) = match has_traffic.then(|| Packets::start(&rules.rules, accounting))
        {
            Some(Ok((packets, on_cpus))) => (Some(packets), on_cpus),
            Some(Err(error)) => {
                problems.push(format!("traffic is not watched: {error}"));
                (None, Vec::new())
            }
            None => (None, Vec::new()),
        };
        Ok(Self {
            force: Some(Force::start(bounds, on_cpus, &judged)?),
            of_programs: Some(OfPrograms::read(&rules, root)?),
            rules,
            problems,
            judged,
            packets,
            counting: accounting.then(Counting::start).flatten(),
            journal: Some(journal),
            root: root.clone(),
        })
    }

    /// Looks at the conditions, and has the CPUs hold what they give.
    pub fn update(&self, holds: &Holds) {
        let (mut always, mut may) = (0, 0);
        for (nth, rule) in self.rules.rules.iter().enumerate() {
            match &rule.when.traffic {
                None => always |= 1 << nth,
                Some(traffic) => {
                    let interface = network::index_here(&traffic.interface);
                    if let Some(packets) = &self.packets {
                        packets.watch(nth, interface);
                    }
                    if interface.is_some() {
                        may |= 1 << nth;
                    }
                }
            }
        }
        for cpu in self.cpus() {
            let covered = self.covering(cpu.number);
            cpu.ask(Asked {
                always: always & covered,
                may: may & covered,
                hold_us: holds.bound_us(cpu.number),
            });
        }
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

    /// The rules that hold a bound on that CPU when their conditions hold, a bit each.
    fn covering(&self, cpu: u32) -> u32 {
        let rules = self.judged.iter().enumerate();
        let covering = rules.filter(|(_, rule)| rule.bound_us(cpu).is_some());
        covering.map(|(nth, _)| 1 << nth).sum()
    }

    /// What the kernel's programs did; `None` without accounting.
    pub fn accounted(&self) -> Option<Accounted> {
        let counting = self.counting.as_ref()?;
        self.packets.as_ref()?.accounted(counting).ok()
    }

    /// How each rule stands.
    pub fn rule_statuses(&self) -> Vec<RuleStatus> {
        let states: Vec<(u32, State)> = self
            .cpus()
            .iter()
            .map(|cpu| (cpu.number, cpu.state()))
            .collect();
        let rules = self.judged.iter().zip(&self.rules.rules).enumerate();
        rules
            .map(|(nth, (judged, rule))| {
                let uses = states.iter().map(|(_, state)| &state.uses[nth]);
                let is_in_force = |(_, state): &&(u32, State)| state.rules & 1 << nth != 0;
                RuleStatus {
                    judged: judged.clone(),
                    waits_for: waits_for(rule),
                    in_force: states
                        .iter()
                        .filter(is_in_force)
                        .map(|(cpu, _)| *cpu)
                        .collect(),
                    times: uses.clone().map(|of| of.times).sum(),
                    held_s: uses.map(|of| of.held().as_secs_f64()).sum(),
                    packets: self
                        .packets
                        .as_ref()
                        .filter(|_| rule.when.traffic.is_some())
                        .map(|packets| packets.count(nth)),
                }
            })
            .collect()
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
                    in_force: state.rules & 1 << nth != 0,
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
        let Some(traffic) = &rule.when.traffic else {
            return "always".into();
        };
        if let Some(missing) = waits_for(rule) {
            return format!("{missing} is missing");
        }
        let Some(packets) = &self.packets else {
            return "traffic is not watched".into();
        };
        let of = format!("{traffic}");
        match packets.last_ns(cpu, nth) {
            0 => format!("no {of} came to this CPU yet"),
            last => {
                let ago = reveille_kernel::now_ns().saturating_sub(last);
                let ago = format_duration(Duration::from_micros(ago / 1000));
                let quiet = format_duration(judged.quiet());
                match state.rules & 1 << nth != 0 {
                    true => format!("{of}: the last {ago} ago; held for {quiet} after it"),
                    false => format!("{of}: the last {ago} ago; that is more than {quiet}"),
                }
            }
        }
    }
}

/// What a rule lacks.
fn waits_for(rule: &Rule) -> Option<String> {
    let traffic = rule.when.traffic.as_ref()?;
    let is_there = network::index_here(&traffic.interface).is_some();
    (!is_there).then(|| format!("interface {}", traffic.interface))
}
