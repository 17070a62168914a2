//! What it costs a CPU to be awake rather than asleep, W.
//!
//! The packages' power by CPUs is not that: most of it is spent whether this CPU sleeps or not. So
//! one CPU is kept awake for a while and left alone for as long, in turns, and the difference is
//! taken of each pair of turns. Their order changes from pair to pair, so that what drifts (the
//! temperature, the machine's other work) weighs on both alike.

use std::thread::sleep;
use std::time::{Duration, Instant};

use reveille_kernel::energy::Packages;
use reveille_kernel::{Awake, Root, affinity, interrupts};
use serde::Serialize;

use crate::{Error, Result};
use reveille_figures::rounds::Estimate;

/// The counters are renewed each millisecond: a turn of a hundred is known to 1%.
const TURN: Duration = Duration::from_millis(100);
/// Seven pairs give an interval of 98%; six would be the fewest for one of 95%.
const PAIRS: u32 = 7;

/// By how much the power of all processor packages together is greater while one CPU more is awake:
/// the median of pairs of turns, and its interval of at least 95%, W.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct AwakePower {
    /// The median of the pairs of turns, W.
    pub median_w: f64,
    /// The interval's lower end, W.
    pub low_w: f64,
    /// The interval's upper end, W.
    pub high_w: f64,
}

impl AwakePower {
    /// Measures it by RAPL, on a CPU that is mostly idle; that takes less than two seconds.
    ///
    /// # Errors
    /// [`Error::Cannot`], with the reason: there is no counter, it cannot be read, or the
    /// machine's other work hides it.
    pub fn measure(root: &Root) -> Result<Self> {
        let packages = Packages::of(root)
            .ok_or_else(|| Error::Cannot("no energy counter of the processor (RAPL)".into()))?;
        let cpu = interrupts::quiet_cpu_or_last(root, &affinity::allowed())
            .ok_or_else(|| Error::Cannot("the CPUs of this process are unknown".into()))?;
        by_turns(&packages, &mut |awake| {
            let began = Instant::now();
            let _awake = awake.then(|| Awake::keep(&[cpu])).transpose()?;
            sleep(TURN);
            Ok(began.elapsed())
        })
    }
}

/// `turn` waits, with the CPU kept awake or not, and returns for how long.
fn by_turns(
    packages: &Packages,
    turn: &mut dyn FnMut(bool) -> Result<Duration>,
) -> Result<AwakePower> {
    let mut power_w = |awake| {
        let before = packages.read();
        let elapsed_s = turn(awake)?.as_secs_f64();
        let after = packages.read();
        let used_j = packages.between_j(&before, &after).ok_or_else(|| {
            Error::Cannot("the processor's energy counters cannot be read (RAPL)".into())
        })?;
        Ok::<_, Error>(used_j / elapsed_s)
    };
    let mut differences = Vec::new();
    for pair in 0..PAIRS {
        let awake_first = pair % 2 == 1;
        let (first_w, second_w) = (power_w(awake_first)?, power_w(!awake_first)?);
        differences.push(match awake_first {
            true => first_w - second_w,
            false => second_w - first_w,
        });
    }
    let figure = Estimate::over(differences);
    let shown = figure.filter(Estimate::is_above_zero).and_then(|figure| {
        let (low_w, high_w) = figure.interval?;
        Some(AwakePower {
            median_w: figure.estimate,
            low_w,
            high_w,
        })
    });
    shown.ok_or_else(|| {
        Error::Cannot("the processor's other work hides the power of one more CPU awake".into())
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// A package that draws these watts with the CPU asleep and awake, alternately.
    fn measured(watts: &mut dyn FnMut(bool) -> f64) -> Result<AwakePower> {
        let folder = tempfile::tempdir().unwrap();
        let zone = folder.path().join("sys/class/powercap/intel-rapl:0");
        fs::create_dir_all(&zone).unwrap();
        fs::write(zone.join("name"), "package-0\n").unwrap();
        fs::write(zone.join("max_energy_range_uj"), "2000000\n").unwrap();
        fs::write(zone.join("energy_uj"), "0\n").unwrap();
        let packages = Packages::of(&Root::at(folder.path())).unwrap();
        let mut total_uj = 0.0;
        by_turns(&packages, &mut |awake| {
            total_uj += watts(awake) * TURN.as_secs_f64() * 1e6;
            // The counter wraps after 2 J.
            let counter = total_uj as u64 % 2_000_001;
            fs::write(zone.join("energy_uj"), counter.to_string()).unwrap();
            Ok(TURN)
        })
    }

    #[test]
    fn the_power_is_the_difference_of_one_more_awake_cpu() {
        // The machine warms up: each turn draws 0.1 W more than the previous one.
        let mut turns = 0;
        let power = measured(&mut |awake| {
            turns += 1;
            10.0 + 0.1 * f64::from(turns) + if awake { 4.0 } else { 0.0 }
        });
        let power = power.unwrap();
        let near = |watts: f64, wanted: f64| (watts - wanted).abs() < 1e-3;
        assert!(
            near(power.low_w, 3.9) && near(power.high_w, 4.1),
            "{power:?}"
        );
        assert!(near((power.median_w - 4.0).abs(), 0.1), "{power:?}");
    }

    #[test]
    fn power_hidden_by_other_work_is_unknown() {
        let mut turns = 0;
        let noise = measured(&mut |_| {
            turns += 1;
            [10.0, 30.0, 20.0][turns % 3]
        });
        assert!(matches!(noise, Err(Error::Cannot(why)) if why.contains("hides")));
        assert!(measured(&mut |_| 10.0).is_err());
    }

    #[test]
    fn a_machine_without_counters_reports_that() {
        let folder = tempfile::tempdir().unwrap();
        let none = AwakePower::measure(&Root::at(folder.path()));
        assert!(matches!(none, Err(Error::Cannot(why)) if why.contains("RAPL")));
    }
}
