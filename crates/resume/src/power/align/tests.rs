use reveille_snapshot::snapshot;

use super::*;

const SECOND: Us = 1_000_000;

/// A cycle that suspends for 0.7 s, sleeps and resumes for 0.6 s.
fn subject(number: usize, start_s: f64, asleep_s: i64) -> Subject {
    let start = (start_s * 1e6) as Us;
    Subject {
        number,
        at: None,
        times: Times {
            start,
            end: start + 1_310_000,
            suspend_us: Some(700_000),
            platform_us: Some(10_000),
            asleep_us: Some(asleep_s * SECOND),
            resume_us: Some(600_000),
            away_us: Some(asleep_s * SECOND + 10_000),
            resume_start: Some(start + 710_000),
            own_end: start + 1_310_000,
            aborted: false,
            ..Times::default()
        },
    }
}

/// The samples of a meter that averages over each interval, for a machine that draws 130 W, and 5 W
/// in these spans.
fn meter(interval: Us, count: i64, asleep: &[(Us, Us)]) -> Meter {
    let samples = (1..=count).map(|place| {
        let (from, to) = ((place - 1) * interval, place * interval);
        let low: Us = asleep
            .iter()
            .map(|span| (span.1.min(to) - span.0.max(from)).max(0))
            .sum();
        let share = low as f64 / interval as f64;
        Sample {
            at_us: to,
            watts: 5.0 * share + 130.0 * (1.0 - share),
        }
    });
    Meter {
        samples: samples.collect(),
        clock: Clock::Elapsed,
        interval_us: interval,
        format: Format::Csv,
        left_out: LeftOut::default(),
    }
}

/// Two cycles by the log's clock at 100 s and at 115 s; the first sleeps for 20 s, the second for
/// 30 s. The first starts 12.4 s after the meter does.
fn two(interval: Us, count: i64) -> (Meter, Vec<Subject>) {
    let subjects = vec![subject(1, 100.0, 20), subject(2, 115.0, 30)];
    let first = 12_400_000 + 700_000;
    let second = 12_400_000 + 15 * SECOND + 20 * SECOND + 700_000;
    let asleep = [(first, first + 20_010_000), (second, second + 30_010_000)];
    (meter(interval, count, &asleep), subjects)
}

#[test]
fn cycles_are_found_by_the_power_drop_and_averaged() {
    let (meter, subjects) = two(SECOND, 120);
    let power = align(&meter, &subjects, None).unwrap();
    assert_eq!(power.aligned_by, AlignedBy::Drop);
    let start = power.cycles[0].start_us;
    assert!((start - 12_400_000).abs() <= SECOND / 4, "{start}");
    assert_eq!((power.idle_w, power.asleep_w), (Some(130.0), Some(5.0)));
    assert!(power.asleep.samples >= 46, "{:?}", power.asleep);
    // A meter of 1 Hz has no sample within transitions of 0.6 and 0.7 s, and that is reported.
    assert_eq!(power.transition_w, None);
    assert!(
        power
            .notes
            .iter()
            .any(|note| note.contains("700 ms at most") && note.ends_with(": 0"))
    );
}

#[test]
fn energy_covers_suspend_to_resume() {
    let (meter, subjects) = two(SECOND / 10, 1_200);
    let offset = 12_400_000 - SECOND / 10;
    let power = align(&meter, &subjects, Some(offset)).unwrap();
    assert_eq!(power.aligned_by, AlignedBy::Offset);
    // 1.3 s awake and 20.01 s asleep.
    let expected = 1.3 * 130.0 + 20.01 * 5.0;
    let found = power.cycles[0].energy_j.unwrap();
    assert!(
        (found - expected).abs() < 1e-6 * expected,
        "{found} {expected}"
    );
    // 6 to 7 samples in each transition.
    assert_eq!(power.transition_w, Some(130.0));
    assert!(power.notes.is_empty(), "{:?}", power.notes);
}

#[test]
fn a_gap_has_no_energy() {
    let (mut meter, subjects) = two(SECOND, 120);
    meter
        .samples
        .retain(|sample| !(20 * SECOND..25 * SECOND).contains(&sample.at_us));
    let power = align(&meter, &subjects, Some(11_400_000)).unwrap();
    assert_eq!((power.gaps, power.gaps_us), (1, 6 * SECOND));
    assert_eq!(power.cycles[0].energy_j, None);
    assert!(power.cycles[1].energy_j.is_some());
    assert_eq!(power.asleep_w, Some(5.0));
    assert!(
        power
            .notes
            .iter()
            .any(|note| note.contains("no energy for 1 of 2 cycles"))
    );
}

#[test]
fn the_wall_clock_is_used_if_both_have_it() {
    let (mut meter, mut subjects) = two(SECOND, 120);
    let midnight = time::parse("2026-11-21 00:00:00", 1e6).unwrap().us;
    for sample in &mut meter.samples {
        sample.at_us += midnight + 18 * 3600 * SECOND;
    }
    meter.clock = Clock::Local;
    subjects[0].at = Some("Nov 21 18:00:12.4".into());
    subjects[1].at = Some("2026-11-21T18:00:47.4".into());
    let power = align(&meter, &subjects, None).unwrap();
    assert_eq!(power.aligned_by, AlignedBy::WallClock);
    assert_eq!(
        power.cycles[1].start_us - power.cycles[0].start_us,
        35 * SECOND
    );
    assert_eq!((power.idle_w, power.asleep_w), (Some(130.0), Some(5.0)));

    // One that names its zone beside one that does not: they may be hours apart.
    meter.clock = Clock::Utc;
    let power = align(&meter, &subjects, None).unwrap();
    assert_eq!(power.aligned_by, AlignedBy::Drop);
    assert!(power.notes[0].contains("time zone"), "{:?}", power.notes);
}

#[test]
fn without_a_time_asleep_the_meter_gives_it() {
    let (meter, mut subjects) = two(SECOND, 120);
    for subject in &mut subjects {
        subject.times.asleep_us = None;
        subject.times.away_us = None;
    }
    let power = align(&meter, &subjects, None).unwrap();
    assert_eq!(power.asleep_w, Some(5.0));
    let error = align(&meter, &subjects[..1], None).unwrap_err();
    assert!(
        error.contains("drops 2 times") && error.contains("1 cycles"),
        "{error}"
    );
}

#[test]
fn power_that_never_drops_is_reported() {
    let (_, subjects) = two(SECOND, 120);
    let error = align(&meter(SECOND, 60, &[]), &subjects, None).unwrap_err();
    assert!(error.contains("never drops"), "{error}");
}

/// Samples without a cycle: their times in seconds.
fn sampled(clock: Clock, samples: &[(f64, f64)]) -> Meter {
    let samples = samples.iter().map(|&(at_s, watts)| Sample {
        at_us: (at_s * 1e6).round() as Us,
        watts,
    });
    Meter {
        samples: samples.collect(),
        clock,
        interval_us: SECOND,
        format: Format::Csv,
        left_out: LeftOut::default(),
    }
}

/// By the meter's clock, in seconds.
fn cycle(start: Us, suspended: Us, woken: Us, end: Us) -> CyclePower {
    CyclePower {
        number: 1,
        start_us: start * SECOND,
        suspended_us: suspended * SECOND,
        woken_us: woken * SECOND,
        end_us: end * SECOND,
        energy_j: None,
        asleep: Mean::default(),
        platform_us: 0,
    }
}

/// A watt more with each second: 1 W from 0 to 1 s.
fn stairs(count: i32) -> Vec<(Us, Us, f64)> {
    let step = |n: i32| {
        (
            Us::from(n) * SECOND,
            Us::from(n + 1) * SECOND,
            f64::from(n + 1),
        )
    };
    (0..count).map(step).collect()
}

#[test]
fn a_mean_and_its_deviation_match_a_calculation_by_hand() {
    let mean = Mean::of(&[1.0, 2.0, 6.0, 3.0]);
    // (4 + 1 + 9 + 0) / 3
    let deviation = (14.0_f64 / 3.0).sqrt();
    assert_eq!((mean.samples, mean.mean_w), (4, Some(3.0)));
    assert_eq!((mean.min_w, mean.max_w), (Some(1.0), Some(6.0)));
    assert_eq!(mean.standard_deviation_w, Some(deviation));
    assert_eq!(Mean::of(&[1.0, 2.0, 3.0]).mean_w, Some(2.0));
    let two = Mean::of(&[1.0, 2.0]);
    assert_eq!((two.mean_w, two.standard_deviation_w), (None, None));
    assert_eq!((two.samples, two.max_w), (2, Some(2.0)));
    assert_eq!(Mean::of(&[]), Mean::default());
}

#[test]
fn a_sample_covers_the_time_since_the_previous_one_and_after_a_gap_one_interval() {
    let meter = sampled(
        Clock::Elapsed,
        &[(1.0, 1.0), (3.0, 2.0), (5.5, 3.0), (8.01, 4.0)],
    );
    let spans: Vec<(Us, Us)> = covered(&meter).iter().map(|one| (one.0, one.1)).collect();
    let ms = |from: Us, to: Us| (from * 1000, to * 1000);
    // 2.5 intervals are not a gap yet.
    assert_eq!(
        spans,
        [ms(0, 1000), ms(1000, 3000), ms(3000, 5500), ms(7010, 8010)]
    );
}

#[test]
fn one_hole_among_three_samples_is_a_gap() {
    let meter = Meter::parse(b"0,130\n1,130\n101,5\n").unwrap();
    let power = averaged(&meter, &covered(&meter), AlignedBy::Offset, Vec::new());
    assert_eq!(power.interval_us, SECOND);
    assert_eq!((power.gaps, power.gaps_us), (1, 100 * SECOND));
    // The last sample covers a second, and not a hundred.
    assert_eq!(covered(&meter)[2], (100 * SECOND, 101 * SECOND, 5.0));
}

#[test]
fn samples_are_inside_or_outside_or_count_as_neither() {
    let stairs = stairs(9);
    let in_s = |from: f64, to: f64| within(&stairs, ((from * 1e6) as Us, (to * 1e6) as Us));
    assert_eq!(in_s(2.0, 5.0), [3.0, 4.0, 5.0]);
    assert_eq!(in_s(1.5, 5.5), [3.0, 4.0, 5.0]);
    assert_eq!(in_s(2.1, 2.9), [0.0; 0]);
    // Cycles from 2 to 4 s and from 6 to 7 s, out of order.
    let cycles = [cycle(6, 6, 7, 7), cycle(2, 3, 3, 4)];
    assert_eq!(outside(&stairs, &cycles), [1.0, 2.0, 5.0, 6.0, 8.0, 9.0]);
    let halves = [CyclePower {
        start_us: 2_500_000,
        end_us: 4_500_000,
        ..cycle(2, 3, 3, 4)
    }];
    assert_eq!(outside(&stairs, &halves)[..3], [1.0, 2.0, 6.0]);
}

#[test]
fn energy_uses_the_part_of_each_sample_and_skips_gaps() {
    let stairs = stairs(5);
    let of = |from: Us, to: Us| energy(&stairs, (from, to), SECOND);
    // Half of 2 W, 3 W, a quarter of 4 W.
    assert_eq!(of(1_500_000, 3_250_000), Some(1.0 + 3.0 + 1.0));
    assert_eq!(of(SECOND, 3 * SECOND), Some(5.0));
    // Up to half an interval may be missing.
    assert_eq!(of(4 * SECOND, 5_500_000), Some(5.0));
    assert_eq!(of(4 * SECOND, 5_500_001), None);
}

#[test]
fn a_chart_keeps_the_extremes_of_neighbours_and_the_gaps() {
    // Two samples per point, because 1501 are more than a chart has columns.
    let mut samples: Vec<(f64, f64)> = (0..1501)
        .map(|n| (f64::from(n), f64::from(n % 2)))
        .collect();
    // 2 s between two samples are allowed here, 3 s are not.
    samples[1].0 += 0.5;
    for sample in &mut samples[4..] {
        sample.0 += 1.0;
    }
    for sample in &mut samples[7..] {
        sample.0 += 2.0;
    }
    let points = series(&sampled(Clock::Elapsed, &samples), 2 * SECOND);
    assert_eq!(points.len(), 751);
    let point = |at_us, min_w, max_w, after_gap| Point {
        at_us,
        min_w,
        max_w,
        after_gap,
    };
    assert_eq!(
        points[..4],
        [
            point(1_500_000, 0.0, 1.0, false),
            point(3 * SECOND, 0.0, 1.0, false),
            point(6 * SECOND, 0.0, 1.0, false),
            point(10 * SECOND, 0.0, 1.0, true),
        ]
    );
    assert_eq!(points[750], point(1503 * SECOND, 0.0, 0.0, false));
    assert_eq!(
        points.iter().filter(|point| point.after_gap).count(),
        1,
        "the first one follows nothing"
    );
    // Samples are missing before both of a point.
    for sample in &mut samples[8..] {
        sample.0 += 3.0;
    }
    for sample in &mut samples[9..] {
        sample.0 += 3.0;
    }
    let points = series(&sampled(Clock::Elapsed, &samples), 2 * SECOND);
    assert!(points[4].after_gap && !points[5].after_gap);
    let few = series(&sampled(Clock::Elapsed, &samples[..1500]), 2 * SECOND);
    assert_eq!(few.len(), 1500);
}

#[test]
fn clocks_are_aligned_only_if_they_have_the_same_origin() {
    let stamp = |us, clock| Stamp { us, clock };
    let hour = 3600 * SECOND;
    // A meter that starts at 23:00 and passes midnight.
    let of_day = |us| same_clock(stamp(us, Clock::Local), Clock::TimeOfDay, 23 * hour);
    let days = 20_000 * 24 * hour;
    assert_eq!(of_day(days + 23 * hour + 1), Ok(23 * hour + 1));
    assert_eq!(of_day(days + hour / 2), Ok(24 * hour + hour / 2));
    assert_eq!(of_day(days + 11 * hour), Ok(11 * hour));
    assert_eq!(of_day(days + 11 * hour - 1), Ok(35 * hour - 1));
    let utc = |clock| same_clock(stamp(7, Clock::Utc), clock, 0);
    assert_eq!(utc(Clock::Utc), Ok(7));
    assert!(utc(Clock::Local).unwrap_err().contains("time zone"));
    let elapsed = same_clock(stamp(7, Clock::Elapsed), Clock::Utc, 0);
    assert!(elapsed.is_err_and(|why| why.contains("log has no wall clock")));
}

#[test]
fn cycles_that_only_touch_the_meters_times_are_excluded() {
    let (_, mut subjects) = two(SECOND, 120);
    subjects.truncate(1);
    let stamped = |from: Us, to: Us, at: Option<&str>| {
        let mut subjects = subjects.clone();
        subjects[0].at = at.map(str::to_owned);
        let samples = [(from as f64 / 1e6, 1.0), (to as f64 / 1e6, 1.0)];
        let cycles = by_wall_clock(&sampled(Clock::Utc, &samples), &subjects);
        cycles.map(|cycles| cycles.len())
    };
    let start = 1_795_284_000 * SECOND;
    // 0.7 s, 10 ms, 20 s and 0.6 s later.
    let end = start + 21_310_000;
    let at = Some("2026-11-21T18:00:00Z");
    assert_eq!(stamped(start - SECOND, start + 1, at), Ok(1));
    assert_eq!(stamped(end - 1, end + SECOND, at), Ok(1));
    let meter = sampled(Clock::Elapsed, &[(0.0, 1.0), (1.0, 1.0)]);
    let refused = [
        ("before", stamped(start - SECOND, start, at).unwrap_err()),
        ("after", stamped(end, end + SECOND, at).unwrap_err()),
        (
            "a log without a clock",
            stamped(start, end, None).unwrap_err(),
        ),
        (
            "a meter without one",
            by_wall_clock(&meter, &subjects).unwrap_err(),
        ),
    ];
    snapshot!("power", refused);
}

#[test]
fn a_chain_of_cycles_counts_the_sleeps_and_ends_at_a_reboot() {
    let starts = |subjects: &[Subject]| -> Vec<(Us, Us, Us, Us)> {
        let chain = chain(subjects, 7 * SECOND);
        let times = chain
            .iter()
            .map(|one| (one.start_us, one.suspended_us, one.woken_us, one.end_us));
        times.collect()
    };
    let mut subjects = vec![
        subject(1, 100.0, 20),
        subject(2, 101.31, 30),
        subject(3, 110.0, 40),
    ];
    let ms = |all: [Us; 4]| {
        let [a, b, c, d] = all.map(|ms| ms * 1000);
        (a, b, c, d)
    };
    // The second starts at the end of the first.
    let expected = [
        ms([7_000, 7_700, 27_710, 28_310]),
        ms([28_310, 29_010, 59_020, 59_620]),
        ms([67_000, 67_700, 107_710, 108_310]),
    ];
    assert_eq!(starts(&subjects), expected);
    subjects[2].times.start = subjects[1].times.end - 1;
    assert_eq!(starts(&subjects), expected[..2]);
    subjects[1].times.aborted = true;
    assert_eq!(starts(&subjects), expected[..1]);
    assert_eq!(chain(&[], 0), []);
}

/// Three cycles of steps: their parts, their medians.
#[test]
fn each_part_of_a_cycle_has_its_own_samples() {
    let samples: Vec<(f64, f64)> = (1..=40).map(|n| (f64::from(n), f64::from(n))).collect();
    let mut meter = sampled(Clock::Elapsed, &samples);
    let laid = |meter: &Meter, cycles: &[CyclePower]| {
        averaged(meter, &covered(meter), AlignedBy::Offset, cycles.to_vec())
    };
    // Suspends from 4 to 7 s, wakes at 14 s, with a second of firmware at both ends.
    let first = CyclePower {
        platform_us: SECOND,
        ..cycle(4, 7, 14, 17)
    };
    let second = cycle(20, 21, 22, 24);
    let third = cycle(30, 31, 32, 33);
    let power = laid(&meter, &[first.clone(), second.clone(), third.clone()]);
    // 9 to 13 W and 22 W and 32 W.
    assert_eq!(power.cycles[0].asleep.mean_w, Some(11.0));
    assert_eq!(power.asleep.samples, 7);
    assert_eq!(power.asleep_w, Some((55.0 + 22.0 + 32.0) / 7.0));
    // 5, 6, 7 W, 21 W, 31 W.
    assert_eq!(power.suspend.samples, 5);
    assert_eq!(power.suspend.mean_w, Some(14.0));
    // 15, 16, 17 W, 23, 24 W, 33 W.
    assert_eq!(power.resume.samples, 6);
    assert_eq!(power.transition_w, Some((70.0 + 128.0) / 11.0));
    // 5 to 17 W, 21 to 24 W, 31 to 33 W are not idle: (1 + ... + 40) minus these.
    assert_eq!(power.idle.samples, 40 - 13 - 4 - 3);
    let idle = (820.0 - 143.0 - 90.0 - 96.0) / 20.0;
    assert_eq!(power.idle_w, Some(idle));
    assert_eq!(power.asleep_share_of_idle, Some(109.0 / 7.0 / idle));
    let energies: Vec<_> = power.cycles.iter().map(|one| one.energy_j).collect();
    assert_eq!(energies, [Some(143.0), Some(90.0), Some(96.0)]);
    assert_eq!(power.energy_j, Some(96.0));
    assert_eq!((power.gaps, power.gaps_us), (0, 0));
    // The median of two is their mean; of none it is unknown.
    assert_eq!(laid(&meter, &[first, second]).energy_j, Some(116.5));
    assert_eq!(laid(&meter, &[third]).energy_j, Some(96.0));
    assert_eq!(laid(&meter, &[]).energy_j, None);

    // 2.5 intervals are no gap, more are.
    meter.samples[10].at_us += SECOND / 2;
    meter.samples.remove(9);
    assert_eq!(laid(&meter, &[]).gaps, 0);
    meter.samples[9].at_us += 1;
    let power = laid(&meter, &[]);
    assert_eq!((power.gaps, power.gaps_us), (1, 2_500_001));
    assert!(power.series[9].after_gap);
    meter.samples.iter_mut().for_each(|one| one.watts = 0.0);
    let power = laid(&meter, &[cycle(4, 8, 14, 17)]);
    assert_eq!(
        (power.idle_w, power.asleep_share_of_idle),
        (Some(0.0), None)
    );
}

#[test]
fn firmware_time_at_both_ends_never_exceeds_the_sleep() {
    let mut subject = subject(1, 100.0, 20);
    assert_eq!(placed(&subject, 0).unwrap().platform_us, 10_000);
    subject.times.platform_us = Some(15 * SECOND);
    subject.times.away_us = Some(35 * SECOND);
    assert_eq!(placed(&subject, 0).unwrap().platform_us, 10 * SECOND);
    subject.times.platform_us = None;
    subject.times.away_us = Some(20 * SECOND);
    let cycle = placed(&subject, 5).unwrap();
    assert_eq!((cycle.platform_us, cycle.end_us), (0, 21_300_005));
    for lack in [
        |times: &mut Times| times.away_us = None,
        |times: &mut Times| times.suspend_us = None,
        |times: &mut Times| times.resume_us = None,
        |times: &mut Times| times.aborted = true,
    ] {
        let mut lacking = subject.clone();
        lack(&mut lacking.times);
        assert_eq!(placed(&lacking, 0), None);
    }
}

#[test]
fn a_missing_mean_has_a_reason_and_a_sleep_that_saves_nothing_has_a_warning() {
    let samples: Vec<(f64, f64)> = (1..=6).map(|n| (f64::from(n), 9.0)).collect();
    let (meter, subjects) = (sampled(Clock::Elapsed, &samples), [subject(1, 100.0, 2)]);
    // From 1 s on: asleep from 1.7 to 3.71 s, awake at 4.31 s.
    let power = align(&meter, &subjects, Some(0)).unwrap();
    snapshot!("power", power.notes.iter().enumerate());
    let samples: Vec<(f64, f64)> = (1..=40).map(|n| (f64::from(n), 9.0)).collect();
    let (meter, subjects) = (sampled(Clock::Elapsed, &samples), [subject(1, 100.0, 9)]);
    let doubt = |power: &Power| {
        power
            .notes
            .iter()
            .any(|note| note.contains("asleep is not below idle"))
    };
    assert!(doubt(&align(&meter, &subjects, Some(0)).unwrap()));
    // The second of two has no place if the time asleep of the first is unknown.
    let mut subjects = [subjects[0].clone(), subject(2, 110.0, 9)];
    assert_eq!(align(&meter, &subjects, Some(0)).unwrap().cycles.len(), 2);
    subjects[1].times.away_us = None;
    let power = align(&meter, &subjects, Some(0)).unwrap();
    assert!(power.notes[0].starts_with("1 of 2 cycles have no place"));
}

#[test]
fn a_transition_without_a_mean_gives_the_longer_duration_and_its_samples() {
    // A second each: from 1 s on it suspends for 1.7 s, sleeps from 2.7 to 5.71 s and resumes for
    // 1.6 s.
    let samples: Vec<(f64, f64)> = (1..=20).map(|n| (f64::from(n), 9.0)).collect();
    let meter = sampled(Clock::Elapsed, &samples);
    let note = |suspend_us: Us, resume_us: Us| {
        let mut subject = subject(1, 100.0, 3);
        subject.times.suspend_us = Some(suspend_us);
        subject.times.resume_us = Some(resume_us);
        align(&meter, &[subject], Some(0)).unwrap().notes.remove(0)
    };
    // In the suspend the second from 1 to 2 s, in the resume none from 5.71 s, or that from 6 to 7
    // s.
    let said = [
        (1_700_000, 600_000),
        (1_700_000, 1_600_000),
        (700_000, 1_600_000),
    ]
    .map(|(suspend_us, resume_us)| {
        (
            format!("{suspend_us} {resume_us}"),
            note(suspend_us, resume_us),
        )
    });
    snapshot!("power", said);
}
