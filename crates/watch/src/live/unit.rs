//! CPUs grouped: a row of the view.

use reveille_kernel::frequency::Range;
use reveille_kernel::{Cpu, Idle};

use crate::live::change::{Change, StateChange};
use crate::live::model::{CountedBy, Frequency, Level, Snapshot, StateShare, Unit};

/// Frequency ranges by CPU, and whether turbo is allowed.
#[derive(Default)]
pub struct Speeds {
    pub ranges: Vec<(u32, Range)>,
    pub turbo: Option<bool>,
}

/// The rows of all levels. Packages and cores are empty if the kernel does not report them.
pub fn units(idle: &Idle, changes: &[Change], speeds: &Speeds) -> Snapshot {
    let place = |number: u32| {
        idle.cpu(number)
            .and_then(|cpu| Some((cpu.package?, cpu.core?)))
    };
    let mut packages: Vec<u32> = idle.cpus.iter().filter_map(|cpu| cpu.package).collect();
    packages.sort_unstable();
    packages.dedup();
    let mut cores: Vec<(u32, u32)> = idle
        .cpus
        .iter()
        .filter_map(|cpu| place(cpu.number))
        .collect();
    cores.sort_unstable();
    cores.dedup();
    let of = |level, label: String, belongs: &dyn Fn(&Cpu) -> bool| {
        let numbers = idle.cpus.iter().filter(|cpu| belongs(cpu));
        let numbers: Vec<u32> = numbers.map(|cpu| cpu.number).collect();
        unit(level, label, idle, &numbers, changes, speeds)
    };
    let core_label = |(package, core): (u32, u32)| match packages.len() {
        0 | 1 => format!("core {core}"),
        _ => format!("core {package}:{core}"),
    };
    let package_unit = |&number: &u32| {
        let belongs = |cpu: &Cpu| cpu.package == Some(number);
        of(Level::Package, format!("package {number}"), &belongs)
    };
    let core_unit = |&core: &(u32, u32)| {
        let belongs = |cpu: &Cpu| cpu.package.zip(cpu.core) == Some(core);
        of(Level::Core, core_label(core), &belongs)
    };
    let cpu_unit = |cpu: &Cpu| {
        let belongs = |other: &Cpu| other.number == cpu.number;
        of(Level::Cpu, format!("CPU {}", cpu.number), &belongs)
    };
    Snapshot {
        machine: of(Level::Machine, "machine".to_owned(), &|_| true),
        packages: packages.iter().map(package_unit).collect(),
        cores: cores.iter().map(core_unit).collect(),
        cpus: idle.cpus.iter().map(cpu_unit).collect(),
        ..Snapshot::default()
    }
}

fn unit(
    level: Level,
    label: String,
    idle: &Idle,
    numbers: &[u32],
    changes: &[Change],
    speeds: &Speeds,
) -> Unit {
    let online: Vec<&Change> = changes
        .iter()
        .filter(|change| change.online && numbers.contains(&change.number))
        .collect();
    let mut kinds = numbers
        .iter()
        .map(|&number| idle.cpu(number).and_then(|cpu| cpu.kind.clone()));
    let kind = kinds.next().flatten();
    let kind = kind.filter(|kind| kinds.all(|other| other.as_ref() == Some(kind)));
    let states = states(&online);
    let uses = sum(states.iter().map(|state| state.0.counted_uses));
    let share_of_uses = |of: fn(&StateChange) -> Option<u64>| {
        share(sum(states.iter().map(|state| of(&state.0)))?, uses?)
    };
    let above_percent = share_of_uses(|state| state.above);
    let below_percent = share_of_uses(|state| state.below);
    let leaving_percent = leaving_percent(&states, &online);
    let states = states.into_iter().map(|(state, _)| shown(state, &online));
    let states = states.chain(hardware(level, &online)).collect();
    let rate = |of: fn(&Change) -> Option<f64>| -> Option<f64> {
        (!online.is_empty()).then(|| online.iter().map(|change| of(change)).sum())?
    };
    Unit {
        level,
        label,
        kind: kind.map(|kind| kind.to_string()),
        cpus: numbers.to_vec(),
        online: !online.is_empty(),
        states,
        awake_percent: mean(online.iter().map(|change| change.awake_percent())),
        wakeups_per_s: rate(|change| Some(change.wakeups? as f64 / change.elapsed_s)),
        joint_sleep: None,
        idle_entries_per_s: rate(|change| Some(change.entries? as f64 / change.elapsed_s)),
        frequency: frequency(&online, speeds),
        power: Vec::new(),
        above_percent,
        below_percent,
        leaving_percent,
        left_out_percent: left_out_percent(&online),
        bound_us: online.iter().filter_map(|change| change.bound_us).min(),
        smi_per_s: rate(|change| change.smis.map(|(count, seconds)| count as f64 / seconds)),
    }
}

/// The CPUs' states by name, and how many CPUs have each. Different names of a hybrid machine's
/// kinds stay separate.
fn states(online: &[&Change]) -> Vec<(StateChange, usize)> {
    let mut together: Vec<(StateChange, usize)> = Vec::new();
    for state in online.iter().flat_map(|change| &change.states) {
        let same = together
            .iter_mut()
            .find(|(other, _)| other.name == state.name);
        match same {
            Some((sum, cpus)) => {
                *cpus += 1;
                add(sum, state);
            }
            None => together.push((state.clone(), 1)),
        }
    }
    together.sort_by_key(|(state, _)| state.index);
    together
}

fn add(sum: &mut StateChange, state: &StateChange) {
    let counts = |a: Option<u64>, b: Option<u64>| Some(a? + b?);
    let times = |a: Option<f64>, b: Option<f64>| Some(a? + b?);
    sum.time_ns = times(sum.time_ns, state.time_ns);
    sum.stays_ns = times(sum.stays_ns, state.stays_ns);
    sum.uses = counts(sum.uses, state.uses);
    sum.counted_uses = counts(sum.counted_uses, state.counted_uses);
    sum.above = counts(sum.above, state.above);
    sum.below = counts(sum.below, state.below);
    sum.disabled = Some(sum.disabled.unwrap_or(false) && state.disabled.unwrap_or(false))
        .filter(|_| sum.disabled.is_some() && state.disabled.is_some());
    let same = |a: Option<u64>, b: Option<u64>| a.filter(|_| a == b);
    sum.exit_latency_us = same(sum.exit_latency_us, state.exit_latency_us);
    sum.target_residency_us = same(sum.target_residency_us, state.target_residency_us);
    sum.latencies.add(&state.latencies);
}

fn shown(state: StateChange, online: &[&Change]) -> StateShare {
    // Relative to all CPUs' time: those without the state spend none in it.
    let whole_s: f64 = online.iter().map(|change| change.elapsed_s).sum();
    let elapsed_s = whole_s / online.len().max(1) as f64;
    let percent = |time: f64| (time / (whole_s * 1e9) * 100.0).clamp(0.0, 100.0);
    let stay = |(stays, uses): (f64, u64)| (uses > 0).then(|| stays / uses as f64 / 1e3);
    let of_uses = |count: Option<u64>| share(count?, state.counted_uses?);
    let uses = state.uses.filter(|_| elapsed_s > 0.0);
    StateShare {
        share_percent: state.time_ns.filter(|_| whole_s > 0.0).map(percent),
        mean_stay_us: state.stays_ns.zip(state.uses).and_then(stay),
        uses_per_s: uses.map(|uses| uses as f64 / elapsed_s),
        above_percent: of_uses(state.above),
        below_percent: of_uses(state.below),
        disabled: state.disabled,
        exit_latency_us: state.exit_latency_us,
        target_residency_us: state.target_residency_us,
        wake_latency: state.latencies.summary(),
        index: Some(state.index),
        counted_by: state.counted_by,
        name: state.name,
    }
}

/// Share of the time spent leaving idle states: uses × mean latency, over states with a latency, at
/// most the stays' total time (a state that is left at once is used often).
fn leaving_percent(states: &[(StateChange, usize)], online: &[&Change]) -> Option<f64> {
    let whole_ns: f64 = online.iter().map(|change| change.elapsed_s * 1e9).sum();
    let leaving = |state: &StateChange| {
        let seen = (state.latencies.count > 0).then(|| state.latencies.mean_ns());
        Some((state.uses? as f64 * seen?).min(state.stays_ns.unwrap_or(f64::INFINITY)))
    };
    let known = states.iter().filter_map(|(state, _)| leaving(state));
    let known: Vec<f64> = known.collect();
    (!known.is_empty() && whole_ns > 0.0)
        .then(|| (known.iter().sum::<f64>() / whole_ns * 100.0).min(100.0))
}

fn left_out_percent(online: &[&Change]) -> Option<f64> {
    let by_timer = online.iter().filter_map(|change| change.by_timer);
    let (woken, with_latency) = by_timer.fold((0, 0), |sum, cpu| (sum.0 + cpu.0, sum.1 + cpu.1));
    share(woken.checked_sub(with_latency)?, woken)
}

/// The processor's residencies, each the mean over the CPUs that have it.
fn hardware(level: Level, online: &[&Change]) -> Vec<StateShare> {
    let mut by_name: Vec<(&str, Vec<f64>)> = Vec::new();
    for share in online.iter().flat_map(|change| &change.hardware) {
        if level <= Level::Package || share.for_cpus {
            match by_name.iter_mut().find(|(name, _)| *name == share.name) {
                Some((_, percents)) => percents.push(share.percent),
                None => by_name.push((&share.name, vec![share.percent])),
            }
        }
    }
    let shown = |(name, percents): (&str, Vec<f64>)| StateShare {
        name: name.to_owned(),
        counted_by: CountedBy::Hardware,
        share_percent: mean(percents.iter().map(|&percent| Some(percent))),
        ..StateShare::default()
    };
    by_name.into_iter().map(shown).collect()
}

fn frequency(online: &[&Change], speeds: &Speeds) -> Option<Frequency> {
    let known: Vec<_> = online.iter().filter_map(|change| change.mhz).collect();
    let &(_, told_by) = known.first()?;
    let alike = known.iter().filter(|(_, by)| *by == told_by);
    let mhz = mean(alike.map(|&(mhz, _)| Some(mhz)))?;
    let numbers: Vec<u32> = online.iter().map(|change| change.number).collect();
    let extreme = |of: fn(&Range) -> Option<f64>, pick: fn(f64, f64) -> f64| {
        let here = speeds
            .ranges
            .iter()
            .filter(|(cpu, _)| numbers.contains(cpu));
        here.filter_map(|(_, range)| of(range)).reduce(pick)
    };
    Some(Frequency {
        mhz,
        told_by,
        min_mhz: extreme(|range| range.min_mhz, f64::min),
        max_mhz: extreme(|range| range.max_mhz, f64::max),
        base_mhz: extreme(|range| range.base_mhz, f64::max),
        turbo: speeds.turbo,
    })
}

/// The sum, if there are values and all are known.
fn sum(values: impl Iterator<Item = Option<u64>>) -> Option<u64> {
    let values: Vec<u64> = values.collect::<Option<_>>()?;
    (!values.is_empty()).then(|| values.iter().sum())
}

/// The mean of the known values.
fn mean(values: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    let values: Vec<f64> = values.flatten().collect();
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Per cent; unknown if the whole is 0.
fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| (part as f64 / whole as f64 * 100.0).min(100.0))
}
