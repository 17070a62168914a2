//! The benchmark, from its options to its result.

use std::sync::atomic::{AtomicBool, Ordering};

use reveille_kernel::{Root, affinity, interrupts};
use reveille_meter::{Steady, Watched};
use reveille_results::description::Ended;
use reveille_results::kept::About;
use reveille_trial::rounds::Progress;
use reveille_trial::setting::Machine;

use crate::bench::accelerator::Accelerator;
#[cfg(feature = "bpf")]
use crate::bench::by_engine::ByEngine;
use crate::bench::by_library::ByLibrary;
#[cfg(feature = "bpf")]
use crate::bench::by_live::ByLive;
use crate::bench::packets::{self, Packets};
use crate::bench::policy::{Policy, shallowest};
use crate::bench::result::{Bench, Plan, conclude};
use crate::bench::run;
use crate::bench::storage::{self, Source, Storage, Target};
use crate::bench::work::Work;
use crate::{Error, Result};

/// What is waited for.
#[derive(Debug, Clone, PartialEq)]
pub enum Waits {
    /// I/O.
    Storage(Source, storage::Options),
    /// The stand-in for an accelerator.
    Accelerator,
    /// Packets.
    Packets(packets::Options),
}

/// What is compared.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// The workload.
    pub waits: Waits,
    /// The rounds.
    pub plan: Plan,
    /// Each must be available; empty for all that are available and differ here.
    pub policies: Vec<Policy>,
    /// The share of each CPU's time for which the engine may keep it awake.
    pub budget: f64,
}

/// The CPU on which the workload waits: the given one, otherwise a quiet one.
///
/// # Errors
/// [`Error::Usage`] for a CPU that this process cannot use.
pub fn cpu(root: &Root, given: Option<u32>) -> Result<u32> {
    let allowed = affinity::allowed();
    match given.or_else(|| interrupts::quiet_cpu_or_last(root, &allowed)) {
        Some(cpu) if allowed.contains(&cpu) => Ok(cpu),
        Some(cpu) => Err(Error::Usage(format!(
            "CPU {cpu}: no such CPU, it is offline, or this process may not use it"
        ))),
        None => Err(Error::Cannot("the CPUs of this process are unknown".into())),
    }
}

/// Runs the rounds and compares the policies. `notes` are known before; `about` describes a run of that
/// workload that ended so; a `meter` measures the power of each turn. `None` if it was interrupted before the rounds.
///
/// # Errors
/// As [`run::run`], and for a target that cannot be used.
pub fn compare(
    machine: &Machine,
    options: &Options,
    mut notes: Vec<String>,
    meter: Option<(Watched, Steady<'_>)>,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(&Progress),
    about: impl FnOnce(&str, Ended) -> About,
) -> Result<Option<Bench>> {
    let (watched, meter) = meter.unzip();
    let plan = options.plan.clone();
    let bench = match &options.waits {
        Waits::Accelerator => {
            let library = ByLibrary::new(options.budget);
            let work = Accelerator::new(machine, plan, Some(&library))?;
            rounds(machine, &work, options, meter, stop, progress, about)?
        }
        Waits::Packets(packets) => {
            #[cfg(feature = "bpf")]
            let live = ByLive::new(&machine.root, options.budget, packets.hint_ns.is_some())?;
            #[cfg(feature = "bpf")]
            let work = Packets::new(machine, packets.clone(), plan, Some(&live))?;
            #[cfg(not(feature = "bpf"))]
            let work = Packets::new(machine, packets.clone(), plan, None)?;
            rounds(machine, &work, options, meter, stop, progress, about)?
        }
        Waits::Storage(source, ios) => {
            let target = Target::open(&machine.root, source, ios.operation, ios.size, stop);
            if stop.load(Ordering::Relaxed) {
                return Ok(None);
            }
            let target = target?;
            notes.extend(target.notes.iter().cloned());
            #[cfg(feature = "bpf")]
            let engine = ByEngine::new(&machine.root, options.budget);
            #[cfg(feature = "bpf")]
            let work = Storage::new(machine, target, ios.clone(), plan, Some(&engine))?;
            #[cfg(not(feature = "bpf"))]
            let work = Storage::new(machine, target, ios.clone(), plan, None)?;
            rounds(machine, &work, options, meter, stop, progress, about)?
        }
    };
    Ok(Some(Bench {
        notes: [notes, bench.notes].concat(),
        meter: watched,
        ..bench
    }))
}

fn rounds(
    machine: &Machine,
    work: &dyn Work,
    options: &Options,
    meter: Option<Steady<'_>>,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(&Progress),
    about: impl FnOnce(&str, Ended) -> About,
) -> Result<Bench> {
    let defaults = default_policies(machine, options);
    let policies = match options.policies.as_slice() {
        [] => (defaults.as_slice(), false),
        named => (named, true),
    };
    let plan = &options.plan;
    let is_metered = meter.is_some();
    let ran = run::run(machine, work, plan, policies, meter, stop, progress)?;
    let unknown = ran.turns.iter().filter(|turn| turn.power_w.is_none());
    let (unknown, all) = (unknown.count(), ran.turns.len());
    let unknown = (is_metered && unknown > 0).then(|| {
        let why = ran.why_no_power.as_ref();
        let why = why.map_or(String::new(), |why| format!(", or the meter failed ({why})"));
        format!("The power of {unknown} of {all} turns is unknown: they were too short for the meter{why}.")
    });
    let workload = work.describe();
    let points = work.points().to_vec();
    let (mut rows, gains) = conclude(points.len(), &ran.policies, &ran.turns);
    if let Some((point, own)) = ran.own_cost {
        let mut rows = rows.iter_mut();
        let row = rows.find(|row| (row.point, row.policy) == (point, Policy::Anticipate));
        let row = row.expect("it had turns");
        row.own_cost_ns = Some(own.ns);
        row.own_cost_at_requests_ns = Some(own.at_requests_ns);
    }
    Ok(Bench {
        about: about(&workload.what, ran.ended),
        plan: plan.clone(),
        meter: None,
        workload,
        points,
        policies: ran.policies,
        skipped: ran.skipped,
        rows,
        gains,
        notes: unknown.into_iter().collect(),
        turns: ran.turns,
    })
}

/// All that differ here: "shallowest" if there is a deeper state, polling unless "no sleep" polls.
fn default_policies(machine: &Machine, options: &Options) -> Vec<Policy> {
    let mut policies = Policy::ALL.to_vec();
    policies.retain(|policy| match policy {
        Policy::Shallowest => shallowest(&machine.idle, options.plan.cpu).is_some(),
        Policy::Poll => matches!(options.waits, Waits::Storage(..)),
        _ => true,
    });
    policies
}
