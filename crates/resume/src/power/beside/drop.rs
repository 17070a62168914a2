//! Cycles are found by the drop in power while the machine sleeps, where no clock tells.

use super::{CyclePower, Subject, chain};
use crate::cycle::Us;
use crate::power::Meter;

/// Asleep it draws at most this share of what it draws awake; a smaller drop may be anything.
const SHARE: f64 = 0.8;

/// Instants between two samples that are tried: a meter samples more coarsely than a log.
const STEPS: Us = 8;

/// Most drops that are tried as the first cycle's.
const MOST: usize = 2_000;

/// The cycles where they fit best: so that the samples asleep and those awake differ as much as they
/// can, each among themselves as little (least sum of squares).
///
/// # Errors
/// One line: there is no drop, or nothing tells which of them are the cycles'.
pub fn find(meter: &Meter, subjects: &[Subject]) -> Result<Vec<CyclePower>, String> {
    let Some(threshold) = threshold(meter) else {
        return Err(
            "power never drops as it does when a machine sleeps; place the first cycle by hand with \
             --power-offset"
                .to_owned(),
        );
    };
    let runs = runs(meter, threshold);
    let known = subjects
        .first()
        .is_some_and(|one| one.times.away_us.is_some());
    if !known {
        return by_runs(meter, subjects, &runs);
    }
    let sums = sums(meter);
    let suspend = subjects[0].times.suspend_us.unwrap_or(0);
    let step = (meter.interval_us / STEPS).max(1);
    let places = runs.iter().take(MOST).flat_map(|(begin, _)| {
        (0..=2 * STEPS).map(move |steps| begin - meter.interval_us + steps * step - suspend)
    });
    let fits = places.filter_map(|start| {
        let cycles = chain(subjects, start);
        Some((misfit(meter, &sums, &cycles)?, cycles))
    });
    let best = fits.min_by(|a, b| a.0.total_cmp(&b.0));
    best.map(|(_, cycles)| cycles).ok_or_else(|| {
        "the drops in its power do not fit the times asleep in the log; place the first cycle by \
         hand with --power-offset"
            .to_owned()
    })
}

/// Where the log does not tell the time asleep, the meter does, if it saw as many sleeps.
fn by_runs(
    meter: &Meter,
    subjects: &[Subject],
    runs: &[(Us, Us)],
) -> Result<Vec<CyclePower>, String> {
    if runs.len() != subjects.len() {
        return Err(format!(
            "power drops {} times, the log has {} cycles and does not tell how long they slept; \
             choose one with --cycle, and cut the file to it",
            runs.len(),
            subjects.len()
        ));
    }
    let one = |(subject, (begin, end)): (&Subject, &(Us, Us))| {
        let mut subject = subject.clone();
        // The first sample of a sleep averages over some time awake, too.
        let from = begin - meter.interval_us / 2;
        subject.times.away_us = Some(end - from);
        super::placed(&subject, from - subject.times.suspend_us?)
    };
    Ok(subjects.iter().zip(runs).filter_map(one).collect())
}

/// Between two levels: where the samples below and those above differ most among each other (Otsu
/// 1979: the greatest variance between two classes). `None` where they differ little.
fn threshold(meter: &Meter) -> Option<f64> {
    let mut watts: Vec<f64> = meter.samples.iter().map(|sample| sample.watts).collect();
    watts.sort_by(f64::total_cmp);
    let (count, sum) = (watts.len() as f64, watts.iter().sum::<f64>());
    let mut below = 0.0;
    let mut best = (0.0, 0.0, false);
    for (place, two) in watts.windows(2).enumerate() {
        below += two[0];
        let few = (place + 1) as f64;
        let (low, high) = (below / few, (sum - below) / (count - few));
        let between = few * (count - few) * (high - low).powi(2);
        if between > best.0 {
            best = (between, f64::midpoint(two[0], two[1]), low <= high * SHARE);
        }
    }
    best.2.then_some(best.1)
}

/// From the first sample of each sleep to the last.
fn runs(meter: &Meter, threshold: f64) -> Vec<(Us, Us)> {
    let mut runs: Vec<(Us, Us)> = Vec::new();
    let mut is_low = false;
    for sample in &meter.samples {
        let low = sample.watts <= threshold;
        match runs.last_mut() {
            Some(run) if low && is_low => run.1 = sample.at_us,
            _ if low => runs.push((sample.at_us, sample.at_us)),
            _ => {}
        }
        is_low = low;
    }
    runs
}

/// Sums of all samples before each place, of watts and of their squares.
fn sums(meter: &Meter) -> Vec<(f64, f64)> {
    let mut sums = vec![(0.0, 0.0)];
    let mut sum = (0.0, 0.0);
    for sample in &meter.samples {
        sum.0 += sample.watts;
        sum.1 += sample.watts * sample.watts;
        sums.push(sum);
    }
    sums
}

/// The sum of squares within the samples asleep and within the others; `None` where no sample, or
/// every one, is asleep, or it draws more asleep than awake.
fn misfit(meter: &Meter, sums: &[(f64, f64)], cycles: &[CyclePower]) -> Option<f64> {
    let place = |us: Us| meter.samples.partition_point(|sample| sample.at_us <= us);
    let (mut count, mut sum, mut squares) = (0.0, 0.0, 0.0);
    for cycle in cycles {
        let (from, to) = (place(cycle.suspended_us), place(cycle.woken_us));
        count += (to - from) as f64;
        sum += sums[to].0 - sums[from].0;
        squares += sums[to].1 - sums[from].1;
    }
    let all = sums[sums.len() - 1];
    let awake = meter.samples.len() as f64 - count;
    if count < 1.0 || awake < 1.0 || sum / count > (all.0 - sum) / awake * SHARE {
        return None;
    }
    let within = |count: f64, sum: f64, squares: f64| squares - sum * sum / count;
    Some(within(count, sum, squares) + within(awake, all.0 - sum, all.1 - squares))
}
