//! One measurement: CPUs are busy, and a meter and the counters are read.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use reveille_kernel::{Error, Idle, Result, Root};
use reveille_meter::{Meter, REFRESHES, Steady, Watched, pause};

use crate::asleep::{Between, Watch};
use crate::busy::{Busy, Load};

/// The shortest dwell by default.
const LEAST: Duration = Duration::from_secs(2);

/// The warm-up: frequency and voltage settle within some 100 ms, and a meter shows it a few values later.
const SETTLE: Duration = Duration::from_millis(500);

/// New values of the meter in the warm-up.
const SETTLE_REFRESHES: f64 = 3.0;

/// CPU time that others may take, in CPUs: beyond it a step is wrong by more than its tenth.
const OTHERS_MAX: f64 = 0.1;

/// So often a dwell is tried again that others disturbed.
const TRIES: u32 = 5;

/// How long each dwell and its warm-up take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Times {
    /// What counts.
    pub dwell: Duration,
    /// What is dropped before.
    pub settle: Duration,
    /// Of the meter.
    pub refresh: Duration,
}

impl Times {
    /// With this dwell, or one that fits the meter.
    ///
    /// # Errors
    /// [`reveille_kernel::Error::Usage`] if the meter is too coarse for the dwell.
    pub fn of(meter: &Watched, dwell: Option<Duration>) -> Result<Self> {
        let refresh = match dwell {
            Some(dwell) => meter.refresh_within("--dwell", dwell)?,
            None => meter.refresh(),
        };
        Ok(Self {
            dwell: dwell.unwrap_or_else(|| refresh.mul_f64(REFRESHES).max(LEAST)),
            settle: SETTLE.max(refresh.mul_f64(SETTLE_REFRESHES)),
            refresh,
        })
    }

    /// Both together.
    pub fn whole(&self) -> Duration {
        self.dwell + self.settle
    }
}

/// What a dwell gave.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Dwell {
    /// Mean power.
    pub power_w: f64,
    /// All CPUs slept at once at least and at most so long, per cent.
    pub joint_percent: Option<(f64, f64)>,
    /// The packages' own sleep, per cent.
    pub package_percent: Option<f64>,
}

/// What dwells: this machine, or a simulated one.
pub trait Dwells {
    /// Keeps these CPUs busy for a while. `None` if `stop` ended it.
    ///
    /// # Errors
    /// Those of the meter; [`Error::Disturbed`] by other load.
    fn dwell(&mut self, busy: &[u32], stop: &AtomicBool) -> Result<Option<Dwell>>;
}

/// This machine and a meter.
pub struct Here<'m> {
    steady: Steady<'m>,
    watch: Watch,
    times: Times,
}

impl<'m> Here<'m> {
    /// By this meter.
    pub fn new(root: &Root, idle: &Idle, meter: &'m mut dyn Meter, times: Times) -> Self {
        Self {
            steady: Steady::new(meter, times.refresh),
            watch: Watch::new(root, idle),
            times,
        }
    }
}

impl Here<'_> {
    /// The CPUs that are watched.
    pub fn cpus(&self) -> &[u32] {
        self.watch.cpus()
    }

    /// W, and what happened meanwhile, under a load that has these CPUs and takes `own` of the others, in CPUs. It is
    /// tried again if others disturb it, or the meter fails.
    ///
    /// # Errors
    /// As [`Dwells::dwell`].
    pub fn under<L: Load>(
        &mut self,
        load: &dyn Fn() -> Result<L>,
        cpus: &[u32],
        own: f64,
        stop: &AtomicBool,
    ) -> Result<Option<(f64, Between)>> {
        let (mut others, mut failed) = (0.0, None);
        for _ in 0..TRIES {
            let load = load()?;
            pause(self.times.settle, stop);
            let before = self.watch.read();
            let power_w = self.steady.mean_w(self.times.dwell, stop);
            let after = self.watch.read();
            let lost = load.end()?;
            failed = power_w.as_ref().err().map(ToString::to_string);
            let Ok(power_w) = power_w else {
                continue;
            };
            let Some(power_w) = power_w else {
                return Ok(None);
            };
            let between = self.watch.between(&before, &after, cpus);
            others = between.others.unwrap_or(0.0) + lost - own;
            if others <= OTHERS_MAX {
                return Ok(Some((power_w, between)));
            }
        }
        if let Some(why) = failed {
            return Err(Error::Failed(format!(
                "{why} (in the last of {TRIES} tries)"
            )));
        }
        Err(Error::Disturbed(format!(
            "other load took {:.0}% of a CPU in each of {TRIES} tries (at most {:.0}% is allowed); end it, or measure \
             when the machine is idle",
            100.0 * others,
            100.0 * OTHERS_MAX
        )))
    }
}

impl Dwells for Here<'_> {
    fn dwell(&mut self, cpus: &[u32], stop: &AtomicBool) -> Result<Option<Dwell>> {
        let measured = self.under(&|| Busy::keep(cpus), cpus, 0.0, stop)?;
        Ok(measured.map(|(power_w, between)| Dwell {
            power_w,
            joint_percent: between.joint_percent,
            package_percent: between.package_percent,
        }))
    }
}

#[cfg(test)]
mod tests {
    use reveille_meter::{About, Counts, Scope};

    use super::*;

    #[test]
    fn a_dwell_has_thirty_new_values_of_the_meter() {
        let meter = |refresh_s| Watched {
            about: About {
                name: "dcmi".to_owned(),
                scope: Scope::Platform,
                counts: Counts::Power,
                resolution: Some(1.0),
                range_j: None,
            },
            readings: 9,
            reading_s: 0.1,
            refresh_s,
            least_change: Some(1.0),
            power_w: Some(100.0),
        };
        let s = Duration::from_secs;
        let times = Times::of(&meter(Some(1.0)), None).unwrap();
        assert_eq!((times.dwell, times.settle), (s(30), s(3)));
        assert_eq!(Times::of(&meter(Some(0.001)), None).unwrap().dwell, LEAST);
        let short = Times::of(&meter(Some(1.0)), Some(s(29)))
            .unwrap_err()
            .to_string();
        assert!(short.contains("at least 30.0s"), "{short}");
        assert_eq!(
            Times::of(&meter(Some(1.0)), Some(s(40))).unwrap().dwell,
            s(40)
        );
        assert_eq!(
            reveille_meter::show::words(&meter(Some(1.0))),
            "dcmi (platform; power, a new value every 1 s)"
        );
    }
}
