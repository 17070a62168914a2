//! The place of each cycle among a meter's samples: by the user's word, by the clocks of both, else by the
//! drop in power while the machine sleeps.

use super::{
    AlignedBy, CyclePower, Power, Subject, averaged, by_wall_clock, chain, covered, few, placed,
};
use crate::cycle::Us;
use crate::power::Meter;

/// Aligns a meter's samples with the cycles. `offset` is the time from the meter's first sample to
/// the beginning of the first cycle, where the user knows it.
///
/// # Errors
/// One line: why the cycles could not be found among the samples.
pub fn align(meter: &Meter, subjects: &[Subject], offset: Option<Us>) -> Result<Power, String> {
    let mut notes = Vec::new();
    let (aligned_by, cycles) = place(meter, subjects, offset, &mut notes)?;
    let left = subjects.len() - cycles.len();
    if left > 0 {
        notes.push(format!(
            "{left} of {} cycles have no place among the samples: the time of a sleep before them \
             is unknown, or they are cut",
            subjects.len()
        ));
    }
    let covered = covered(meter);
    let mut power = averaged(meter, &covered, aligned_by, cycles);
    few(&power, &mut notes);
    let both = power.idle_w.zip(power.asleep_w);
    if both.is_some_and(|(idle, asleep)| asleep >= idle) {
        notes.push(
            "its power asleep is not below idle: the clocks may be misaligned; --power-offset \
             places the first cycle by hand"
                .to_owned(),
        );
    }
    power.notes = notes;
    Ok(power)
}

fn place(
    meter: &Meter,
    subjects: &[Subject],
    offset: Option<Us>,
    notes: &mut Vec<String>,
) -> Result<(AlignedBy, Vec<CyclePower>), String> {
    if let Some(offset) = offset {
        let start = meter.samples[0].at_us + offset;
        return Ok((AlignedBy::Offset, chain(subjects, start)));
    }
    match by_wall_clock(meter, subjects) {
        Ok(cycles) => return Ok((AlignedBy::WallClock, cycles)),
        Err(why) => notes.push(format!("{why}: aligned by the drop in power instead")),
    }
    let start = by_drop(meter, subjects)?;
    Ok((AlignedBy::Drop, start))
}

/// Asleep it draws at most this share of what it draws awake; a smaller drop may be anything.
const SHARE: f64 = 0.8;

/// Instants between two samples that are tried: a meter samples more coarsely than a log.
const STEPS: Us = 8;

/// Most drops that are tried as the first cycle's.
const MOST: usize = 2_000;

/// The cycles where they fit best: so that the samples asleep and those awake differ as much as they
/// can, each among themselves as little (least sum of squares).
fn by_drop(meter: &Meter, subjects: &[Subject]) -> Result<Vec<CyclePower>, String> {
    let Some(threshold) = threshold(meter) else {
        return Err(
            "power never drops as it does when a machine sleeps; place the first cycle by hand with \
             --power-offset"
                .to_owned(),
        );
    };
    let runs = runs(meter, threshold);
    let known = subjects.first().filter(|one| one.times.away_us.is_some());
    let Some(first) = known else {
        return by_runs(meter, subjects, &runs);
    };
    let sums = sums(meter);
    let suspend = first.times.suspend_us.unwrap_or(0);
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

/// If the log does not have the time asleep, the meter does, if it saw as many sleeps.
fn by_runs(
    meter: &Meter,
    subjects: &[Subject],
    runs: &[(Us, Us)],
) -> Result<Vec<CyclePower>, String> {
    if runs.len() != subjects.len() {
        return Err(format!(
            "power drops {} times, the log has {} cycles without a time asleep; choose one with \
             --cycle, and cut the file to it",
            runs.len(),
            subjects.len()
        ));
    }
    let one = |(subject, (begin, end)): (&Subject, &(Us, Us))| {
        let mut subject = subject.clone();
        // The first sample of a sleep averages over some time awake, too.
        let from = begin - meter.interval_us / 2;
        subject.times.away_us = Some(end - from);
        placed(&subject, from - subject.times.suspend_us?)
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
    let (mut count, mut sum) = (0.0, 0.0);
    for cycle in cycles {
        let (from, to) = (place(cycle.suspended_us), place(cycle.woken_us));
        count += (to - from) as f64;
        sum += sums[to].0 - sums[from].0;
    }
    let all = sums[sums.len() - 1];
    let awake = meter.samples.len() as f64 - count;
    if count < 1.0 || awake < 1.0 || sum / count > (all.0 - sum) / awake * SHARE {
        return None;
    }
    // Of each part: the squares less the mean's share of them. The squares of both are those of all.
    let rest = all.0 - sum;
    Some(all.1 - sum * sum / count - rest * rest / awake)
}

#[cfg(test)]
mod tests {
    use super::super::Mean;
    use super::*;
    use crate::power::{Clock, Format, LeftOut, Sample};
    use crate::times::Times;

    const SECOND: Us = 1_000_000;

    /// A sample each second, the first at 1 s.
    fn meter(watts: &[f64]) -> Meter {
        let samples = (1..).zip(watts).map(|(second, &watts)| Sample {
            at_us: second * SECOND,
            watts,
        });
        Meter {
            samples: samples.collect(),
            clock: Clock::Elapsed,
            interval_us: SECOND,
            format: Format::Csv,
            left_out: LeftOut::default(),
        }
    }

    fn cycle(suspended: Us, woken: Us) -> CyclePower {
        CyclePower {
            number: 1,
            start_us: suspended,
            suspended_us: suspended,
            woken_us: woken,
            end_us: woken,
            energy_j: None,
            asleep: Mean::default(),
            platform_us: 0,
        }
    }

    /// A cycle that suspends for 0.7 s and resumes for 0.6 s.
    fn subject(asleep_us: Option<Us>) -> Subject {
        Subject {
            number: 1,
            at: None,
            times: Times {
                start: 0,
                end: 1_300_000,
                suspend_us: Some(700_000),
                platform_us: Some(10_000),
                asleep_us,
                away_us: asleep_us.map(|asleep_us| asleep_us + 10_000),
                own_end: 1_300_000,
                resume_us: Some(600_000),
                resume_start: Some(700_000),
                aborted: false,
                ..Times::default()
            },
        }
    }

    #[test]
    fn the_threshold_is_where_the_two_levels_differ_most() {
        // Below: 4 · 3 · 7.5² = 675 by the chosen cut, less by every other one.
        assert_eq!(
            threshold(&meter(&[10.0, 1.0, 3.0, 9.0, 2.0, 2.0, 9.5])),
            Some(6.0)
        );
        assert_eq!(threshold(&meter(&[8.0, 10.0, 10.0, 8.0])), Some(9.0));
        assert_eq!(threshold(&meter(&[8.1, 10.0, 10.0, 8.1])), None);
        assert_eq!(threshold(&meter(&[0.0, 0.0, 0.0])), None);
        assert_eq!(threshold(&meter(&[5.0, 5.0])), None);
        // Unequal groups: one low of five, one high of five.
        assert_eq!(threshold(&meter(&[10.0, 10.0, 10.0, 10.0, 2.0])), Some(6.0));
        assert_eq!(threshold(&meter(&[2.0, 2.0, 2.0, 2.0, 10.0])), Some(6.0));
        // One value far from two groups does not decide it: 4 · 5 · 11.8² = 2785 against 8 · 1 ·
        // 18.5² = 2738.
        let high = [&[1.0; 4][..], &[10.0; 4], &[24.0]].concat();
        assert_eq!(threshold(&meter(&high)), Some(5.5));
        let low = [&[0.0][..], &[14.0; 4], &[23.0; 4]].concat();
        assert_eq!(threshold(&meter(&low)), Some(18.5));
    }

    #[test]
    fn a_sleep_lasts_from_its_first_low_sample_to_its_last() {
        let meter = meter(&[9.0, 1.0, 2.0, 9.0, 2.0, 9.0, 2.1]);
        let at = |from: Us, to: Us| (from * SECOND, to * SECOND);
        assert_eq!(runs(&meter, 2.0), [at(2, 3), at(5, 5)]);
    }

    #[test]
    fn the_misfit_is_the_sum_of_squares_within_both_levels() {
        let fit = |watts: &[f64], cycles: &[(Us, Us)]| {
            let meter = meter(watts);
            let cycles: Vec<CyclePower> = cycles
                .iter()
                .map(|&(from, to)| cycle(from * SECOND, to * SECOND))
                .collect();
            misfit(&meter, &sums(&meter), &cycles)
        };
        // Asleep 2 and 4: 2; awake 10, 12, 10, 12: 4.
        let watts = [10.0, 12.0, 2.0, 4.0, 10.0, 12.0];
        assert_eq!(fit(&watts, &[(2, 4)]), Some(6.0));
        // Asleep 2 and 4, and 3: 2; awake 10, 12 and 11: 2.
        let twice = [10.0, 2.0, 4.0, 12.0, 3.0, 11.0];
        assert_eq!(fit(&twice, &[(1, 3), (4, 5)]), Some(4.0));
        assert_eq!(fit(&watts, &[(2, 2)]), None, "no sample asleep");
        assert_eq!(fit(&watts, &[(0, 6)]), None, "none awake");
        assert_eq!(
            fit(&watts, &[(2, 3)]),
            Some(0.0 + 516.0 - 48.0 * 48.0 / 5.0 - 12.0 + 0.0)
        );
        assert_eq!(fit(&watts, &[(4, 6)]), None, "more asleep than awake");
        assert_eq!(fit(&[8.0, 10.0], &[(0, 1)]), Some(0.0));
        assert_eq!(fit(&[8.1, 10.0], &[(0, 1)]), None);
    }

    #[test]
    fn the_first_of_equally_good_places_is_used() {
        let starts = |watts: &[f64], asleep: Us| {
            let found = by_drop(&meter(watts), &[subject(Some(asleep * SECOND))]).unwrap();
            found[0].start_us
        };
        // Samples from 11 to 20 s are low: asleep from 10 s on, or from any instant in the second
        // after.
        let mut watts = [[130.0; 10], [5.0; 10], [130.0; 10]].concat();
        assert_eq!(starts(&watts, 10), 10 * SECOND - 700_000);
        // It falls slowly at first, and was asleep for the last ten low samples.
        watts[10..12].copy_from_slice(&[40.0, 30.0]);
        watts[20..22].copy_from_slice(&[5.0; 2]);
        assert_eq!(starts(&watts, 10), 12 * SECOND - 700_000);
        // One low second is no sleep of a hundred.
        let watts = [&[130.0; 10][..], &[5.0], &[130.0; 20]].concat();
        let error = by_drop(&meter(&watts), &[subject(Some(100 * SECOND))]).unwrap_err();
        assert!(error.contains("do not fit"), "{error}");
    }

    #[test]
    fn a_sleep_of_unknown_length_is_the_run_and_half_an_interval_before_it() {
        let watts = [[130.0; 10], [5.0; 10], [130.0; 10]].concat();
        let found = by_drop(&meter(&watts), &[subject(None)]).unwrap();
        let times = (
            found[0].start_us,
            found[0].suspended_us,
            found[0].woken_us,
            found[0].end_us,
        );
        assert_eq!(times, (9_800_000, 10_500_000, 20_000_000, 20_600_000));
    }
}
