#![no_main]

use libfuzzer_sys::fuzz_target;
use reveille_resume::power::Meter;
use reveille_resume::power::align::{Subject, align};
use reveille_resume::times::Times;

/// A cycle from a complete log, with its wall clock.
fn subject(number: usize, at: Option<&str>) -> Subject {
    let start = number as i64 * 100_000_000;
    Subject {
        number,
        at: at.map(str::to_owned),
        times: Times {
            start,
            end: start + 1_310_000,
            suspend_us: Some(700_000),
            platform_us: Some(10_000),
            asleep_us: Some(20_000_000),
            resume_us: Some(600_000),
            away_us: Some(20_010_000),
            resume_start: Some(start + 710_000),
            own_end: start + 1_310_000,
            ..Times::default()
        },
    }
}

// A power meter's file: refused in a line, or samples in order, which are then aligned with
// cycles by each of the clocks that a log may have.
fuzz_target!(|bytes: &[u8]| {
    let meter = match Meter::parse(bytes) {
        Ok(meter) => meter,
        Err(why) => return assert!(!why.contains('\n') && !why.is_empty()),
    };
    assert!(meter.samples.windows(2).all(|two| two[0].at_us < two[1].at_us));
    assert!(meter.samples.iter().all(|sample| sample.watts >= 0.0));
    for at in [None, Some("Nov 21 18:00:00"), Some("2026-11-21T18:00:00.5Z")] {
        let subjects = [subject(1, at), subject(2, at)];
        for offset in [None, Some(0), Some(5_000_000)] {
            let Ok(power) = align(&meter, &subjects, offset) else {
                continue;
            };
            let inside = power.asleep.samples + power.suspend.samples + power.resume.samples;
            assert!(inside + power.idle.samples <= 2 * power.samples);
            assert!(power.notes.iter().all(|note| !note.contains('\n')));
        }
    }
});
