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
        },
    }
}

/// What a meter that averages over each interval shows of a machine that draws 130 W, and 5 W in
/// these spans.
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
/// 30 s. The first begins 12.4 s after the meter does.
fn two(interval: Us, count: i64) -> (Meter, Vec<Subject>) {
    let subjects = vec![subject(1, 100.0, 20), subject(2, 115.0, 30)];
    let first = 12_400_000 + 700_000;
    let second = 12_400_000 + 15 * SECOND + 20 * SECOND + 700_000;
    let asleep = [(first, first + 20_010_000), (second, second + 30_010_000)];
    (meter(interval, count, &asleep), subjects)
}

#[test]
fn cycles_are_found_by_the_drop_and_averaged() {
    let (meter, subjects) = two(SECOND, 120);
    let power = lay(&meter, &subjects, None).unwrap();
    assert_eq!(power.laid_by, LaidBy::Drop);
    let start = power.cycles[0].start_us;
    assert!((start - 12_400_000).abs() <= SECOND / 4, "{start}");
    assert_eq!((power.idle_w, power.asleep_w), (Some(130.0), Some(5.0)));
    assert!(power.asleep.samples >= 46, "{:?}", power.asleep);
    // A meter of 1 Hz has no sample within transitions of 0.6 and 0.7 s, and says so.
    assert_eq!(power.transition_w, None);
    assert!(
        power
            .notes
            .iter()
            .any(|note| note.contains("0.700 s at most, and 0 samples"))
    );
}

#[test]
fn energy_is_what_was_drawn_from_suspend_to_resume() {
    let (meter, subjects) = two(SECOND / 10, 1_200);
    let offset = 12_400_000 - SECOND / 10;
    let power = lay(&meter, &subjects, Some(offset)).unwrap();
    assert_eq!(power.laid_by, LaidBy::Offset);
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
fn nothing_is_added_up_over_a_gap() {
    let (mut meter, subjects) = two(SECOND, 120);
    meter
        .samples
        .retain(|sample| !(20 * SECOND..25 * SECOND).contains(&sample.at_us));
    let power = lay(&meter, &subjects, Some(11_400_000)).unwrap();
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
fn the_wall_clock_is_taken_where_both_have_it() {
    let (mut meter, mut subjects) = two(SECOND, 120);
    let midnight = time::parse("2026-11-21 00:00:00", 1e6).unwrap().us;
    for sample in &mut meter.samples {
        sample.at_us += midnight + 18 * 3600 * SECOND;
    }
    meter.clock = Clock::Local;
    subjects[0].at = Some("Nov 21 18:00:12.4".into());
    subjects[1].at = Some("2026-11-21T18:00:47.4".into());
    let power = lay(&meter, &subjects, None).unwrap();
    assert_eq!(power.laid_by, LaidBy::WallClock);
    assert_eq!(
        power.cycles[1].start_us - power.cycles[0].start_us,
        35 * SECOND
    );
    assert_eq!((power.idle_w, power.asleep_w), (Some(130.0), Some(5.0)));

    // One that names its zone beside one that does not: they may be hours apart.
    meter.clock = Clock::Utc;
    let power = lay(&meter, &subjects, None).unwrap();
    assert_eq!(power.laid_by, LaidBy::Drop);
    assert!(power.notes[0].contains("time zone"), "{:?}", power.notes);
}

#[test]
fn without_a_time_asleep_the_meter_tells_it() {
    let (meter, mut subjects) = two(SECOND, 120);
    for subject in &mut subjects {
        subject.times.asleep_us = None;
        subject.times.away_us = None;
    }
    let power = lay(&meter, &subjects, None).unwrap();
    assert_eq!(power.asleep_w, Some(5.0));
    let error = lay(&meter, &subjects[..1], None).unwrap_err();
    assert!(
        error.contains("drops 2 times, the log has 1 cycles"),
        "{error}"
    );
}

#[test]
fn power_that_never_drops_is_said() {
    let (_, subjects) = two(SECOND, 120);
    let error = lay(&meter(SECOND, 60, &[]), &subjects, None).unwrap_err();
    assert!(error.contains("never drops"), "{error}");
}
