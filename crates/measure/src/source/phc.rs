//! A network card's clock (PHC): readings between two of CLOCK_MONOTONIC, and the line between the two clocks.

use std::fmt::Display;
use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};

use nix::ioctl_readwrite;
use nix::time::{ClockId, clock_gettime};
use reveille_figures::clock_line::{ClockLine, Dropped, Instant, Limits, Sample};

use crate::{Error, Result};

/// Readings of a burst, of which the narrowest counts.
const READINGS: usize = 10;
/// The kernel's PTP_MAX_SAMPLES.
const MOST_READINGS: usize = 25;
/// Tries to read while nobody sets CLOCK_REALTIME.
const TRIES: usize = 10;

/// Crystals are within 100 ppm, NTP slews by up to 500 ppm, and a program that steered the clock once may have left
/// its rate off the crystal's.
const MAX_PPB: u32 = 1_000_000;
/// A crystal's, with its temperature; NTP's changes are counted as changes of the rate.
const WANDER_PPB_PER_S: u32 = 1000;

// From the kernel's include/uapi/linux/ptp_clock.h.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct ClockTime {
    pub sec: i64,
    pub nsec: u32,
    pub reserved: u32,
}

#[repr(C)]
struct SysOffsetExtended {
    n_samples: u32,
    /// Since 6.12; before, this and `reserved` must be zero.
    clock: i32,
    reserved: [u32; 2],
    /// CLOCK of the system, PHC, CLOCK of the system.
    readings: [[ClockTime; 3]; MOST_READINGS],
}
ioctl_readwrite!(sys_offset_extended, b'=', 18, SysOffsetExtended);

impl ClockTime {
    /// From ns.
    pub fn of(ns: u64) -> Self {
        Self {
            sec: (ns / 1_000_000_000) as i64,
            nsec: (ns % 1_000_000_000) as u32,
            reserved: 0,
        }
    }

    fn ns(self) -> i64 {
        self.sec * 1_000_000_000 + i64::from(self.nsec)
    }
}

/// What is known of a driver's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Kind {
    /// How a driver reads it: once, somewhere in the bracket; or twice, and the first read latches the time.
    is_read_twice: bool,
    /// By how much it counts on at a time, ns.
    step_ns: u32,
}

impl Kind {
    /// Source: INCVALUE and INCPERIOD of the drivers, and igc_ptp_gettimex64_i225().
    fn of(driver: &str) -> Self {
        let step_ns = match driver {
            "igc" | "ice" => 8,
            // 82576; the others 8.
            "igb" => 16,
            // X550: 12.5.
            "ixgbe" => 13,
            // e1000e: 125 at each third cycle of 24 MHz; no other is known to be coarser.
            _ => 125,
        };
        Self {
            is_read_twice: driver == "igc",
            step_ns,
        }
    }
}

/// An open card's clock.
#[derive(Debug)]
pub struct Phc {
    device: OwnedFd,
    /// N of /dev/ptpN.
    pub number: u32,
    /// How the messages begin.
    source: &'static str,
    kind: Kind,
    system: System,
    /// The narrowest bracket so far, ns.
    narrowest_ns: u64,
}

/// The system's clock with which the kernel brackets a reading.
#[derive(Debug)]
enum System {
    Monotonic,
    /// Before 6.12: CLOCK_REALTIME, and what is known of its difference to CLOCK_MONOTONIC.
    Realtime(Option<Offset>),
}

/// CLOCK_REALTIME less CLOCK_MONOTONIC, ns, lies between these. It is a constant until somebody sets the clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Offset {
    low: i64,
    high: i64,
}

impl Offset {
    /// From readings of the one clock between two of the other; `None` if they have no offset in common.
    fn read() -> Result<Option<Self>> {
        let mut offset = Self {
            low: i64::MIN,
            high: i64::MAX,
        };
        for _ in 0..READINGS {
            let (before, real, after) = (
                now(ClockId::CLOCK_MONOTONIC)?,
                now(ClockId::CLOCK_REALTIME)?,
                now(ClockId::CLOCK_MONOTONIC)?,
            );
            // Each is rounded down.
            offset = offset.and(Self {
                low: real - after - 1,
                high: real - before + 1,
            });
        }
        Ok(offset.is_possible().then_some(offset))
    }

    fn and(self, other: Self) -> Self {
        Self {
            low: self.low.max(other.low),
            high: self.high.min(other.high),
        }
    }

    fn is_possible(self) -> bool {
        self.low <= self.high
    }
}

fn now(clock: ClockId) -> Result<i64> {
    let time = clock_gettime(clock).map_err(Error::system("clock_gettime"))?;
    Ok(time.tv_sec() * 1_000_000_000 + time.tv_nsec())
}

impl Phc {
    /// Opens /dev/ptpN, the clock of a card of that driver; `source` is how the messages begin.
    ///
    /// # Errors
    /// [`Error::Cannot`] if it cannot be opened or read.
    pub fn open(source: &'static str, number: u32, driver: &str) -> Result<Self> {
        let path = format!("/dev/ptp{number}");
        // For writing: setting outputs needs that.
        let opened = File::options().read(true).write(true).open(&path);
        let device = opened.map_err(|error| {
            let why = match error.kind() {
                std::io::ErrorKind::PermissionDenied => "; run as root (sudo)",
                _ => "",
            };
            Error::Cannot(format!("source {source}: {path}: {error}{why}"))
        })?;
        let mut phc = Self {
            device: device.into(),
            number,
            source,
            kind: Kind::of(driver),
            system: System::Monotonic,
            narrowest_ns: u64::MAX,
        };
        if phc.readings().is_err() {
            phc.system = System::Realtime(None);
        }
        match phc.readings() {
            Ok(_) => Ok(phc),
            Err(error) => Err(Error::Cannot(format!(
                "source {source}: {path}: the kernel does not read it between two readings of the system's clock: \
                 {error}"
            ))),
        }
    }

    /// The open device.
    pub fn device(&self) -> &OwnedFd {
        &self.device
    }

    /// A burst of readings. Each wakes the card's PCIe link: not near a launch.
    ///
    /// # Errors
    /// [`Error::Cannot`] if it cannot be read, or somebody sets CLOCK_REALTIME all the time.
    pub fn burst(&mut self) -> Result<Vec<Sample>> {
        let mut samples = self.read()?;
        if self.kind.is_read_twice {
            confine_to_first_read(&mut samples, &mut self.narrowest_ns);
        }
        Ok(samples)
    }

    fn read(&mut self) -> Result<Vec<Sample>> {
        for _ in 0..TRIES {
            let System::Realtime(known) = &mut self.system else {
                let readings = self.readings().map_err(|error| self.unread(error))?;
                return Ok(samples(&readings, Offset { low: 0, high: 0 }));
            };
            // The offset before and after: if somebody sets the clock in between, they have none in common.
            let known = known.take();
            let before = Offset::read()?;
            let readings = self.readings().map_err(|error| self.unread(error))?;
            let after = Offset::read()?;
            let (Some(before), Some(after)) = (before, after) else {
                continue;
            };
            let here = before.and(after);
            if !here.is_possible() {
                continue;
            }
            // All that was read since the last step confines it further.
            let all = known.map_or(here, |known| known.and(here));
            let offset = if all.is_possible() { all } else { here };
            self.system = System::Realtime(Some(offset));
            return Ok(samples(&readings, offset));
        }
        Err(self.unread("somebody sets CLOCK_REALTIME all the time"))
    }

    /// A line to CLOCK_MONOTONIC that knows no rate yet.
    ///
    /// # Errors
    /// As [`Phc::burst`].
    pub fn line(&mut self) -> Result<ClockLine> {
        // The narrowest bracket is known after that.
        for _ in 0..READINGS {
            self.burst()?;
        }
        Ok(ClockLine::new(Limits {
            max_ppb: MAX_PPB,
            wander_ppb_per_s: WANDER_PPB_PER_S,
            resolution_ns: self.kind.step_ns,
            latch_to_after_ns: 0,
        }))
    }

    /// When the clock came to `time`, or stamped something with it, between a burst before that and one after it.
    ///
    /// # Errors
    /// As [`ClockLine::launch`].
    pub fn launch(
        &self,
        line: &mut ClockLine,
        before: &[Sample],
        time: u64,
        after: &[Sample],
    ) -> std::result::Result<Instant, Dropped> {
        let reached = line.launch(before, time, after)?;
        Ok(within_step_after(reached, self.kind.step_ns))
    }

    fn unread(&self, why: impl Display) -> Error {
        let Self { source, number, .. } = self;
        Error::Cannot(format!(
            "source {source}: the card's clock, /dev/ptp{number}, could not be read: {why}"
        ))
    }

    fn readings(&self) -> nix::Result<[[ClockTime; 3]; READINGS]> {
        let mut asked = SysOffsetExtended {
            n_samples: READINGS as u32,
            clock: match self.system {
                System::Monotonic => ClockId::CLOCK_MONOTONIC.as_raw(),
                System::Realtime(_) => ClockId::CLOCK_REALTIME.as_raw(),
            },
            reserved: [0; 2],
            readings: [[ClockTime::default(); 3]; MOST_READINGS],
        };
        // SAFETY: the kernel fills in `asked`, which has its layout.
        unsafe { sys_offset_extended(self.device.as_raw_fd(), &raw mut asked) }?;
        Ok(std::array::from_fn(|at| asked.readings[at]))
    }
}

/// Of a clock that is read twice and latches in the first read, the second one's time comes off each bracket.
///
/// Both reads go the same way, so each takes half of the narrowest bracket, less a tenth for what is beside them. If
/// the way becomes faster (a CPU's clock, the link), so do the brackets.
fn confine_to_first_read(samples: &mut [Sample], narrowest_ns: &mut u64) {
    let widths = samples.iter().map(|one| one.after_ns - one.before_ns);
    *narrowest_ns = widths.fold(*narrowest_ns, u64::min);
    let second_ns = *narrowest_ns / 5 * 2;
    samples
        .iter_mut()
        .for_each(|sample| sample.after_ns -= second_ns);
}

/// A clock that counts in steps comes to a time, and shows that of a timestamp, up to a step late.
fn within_step_after(instant: Instant, step_ns: u32) -> Instant {
    let step_ns = u64::from(step_ns);
    Instant {
        at_ns: instant.at_ns + step_ns / 2,
        error_ns: instant.error_ns + step_ns.div_ceil(2),
    }
}

/// As samples of CLOCK_MONOTONIC; `offset` is that of the system's clock to it.
fn samples(readings: &[[ClockTime; 3]], offset: Offset) -> Vec<Sample> {
    let sample = |[before, clock, after]: &[ClockTime; 3]| Sample {
        before_ns: (before.ns() - offset.high) as u64,
        foreign_ns: clock.ns() as u64,
        after_ns: (after.ns() - offset.low) as u64,
    };
    readings.iter().map(sample).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bracket_is_widened_by_what_the_offset_is_not_known_to() {
        let reading = [1_000_100, 77, 1_000_900].map(ClockTime::of);
        let offset = Offset {
            low: 1_000_000,
            high: 1_000_030,
        };
        let sample = Sample {
            before_ns: 70,
            foreign_ns: 77,
            after_ns: 900,
        };
        assert_eq!(samples(&[reading], offset), [sample]);
    }

    #[test]
    fn of_a_clock_that_is_read_twice_the_narrowest_bracket_tells_how_long_a_read_takes() {
        let sample = |before_ns, after_ns| Sample {
            before_ns,
            foreign_ns: 77,
            after_ns,
        };
        let mut narrowest = u64::MAX;
        let mut confined = |burst: &[Sample]| {
            let mut burst = burst.to_vec();
            confine_to_first_read(&mut burst, &mut narrowest);
            burst
        };
        let first = confined(&[sample(0, 3000), sample(5000, 7000)]);
        assert_eq!(first, [sample(0, 2200), sample(5000, 6200)]);
        // A narrower one later: not even its own reads take as long as was thought.
        assert_eq!(confined(&[sample(0, 1000)]), [sample(0, 600)]);
        assert_eq!(confined(&[sample(0, 3000)]), [sample(0, 2600)]);
        assert_eq!(confined(&[sample(9, 9)]), [sample(9, 9)]);
    }

    #[test]
    fn a_clock_that_counts_in_steps_is_late_by_up_to_one() {
        let instant = |at_ns, error_ns| Instant { at_ns, error_ns };
        for (step, late) in [(8, instant(1004, 104)), (125, instant(1062, 163))] {
            assert_eq!(within_step_after(instant(1000, 100), step), late);
            // From the beginning of the one to a step after the end of the other.
            assert!(late.at_ns - late.error_ns <= 900);
            assert!(late.at_ns + late.error_ns >= 1100 + u64::from(step));
        }
        assert_eq!(Kind::of("e1000e").step_ns, 125);
        assert_eq!(Kind::of("another").step_ns, 125);
        assert!(Kind::of("igc").is_read_twice && !Kind::of("igb").is_read_twice);
    }

    #[test]
    fn readings_around_a_step_have_no_offset_in_common() {
        let one = Offset { low: 5, high: 90 };
        assert_eq!(
            one.and(Offset { low: 60, high: 99 }),
            Offset { low: 60, high: 90 }
        );
        assert!(one.and(Offset { low: 90, high: 99 }).is_possible());
        assert!(!one.and(Offset { low: 91, high: 99 }).is_possible());
    }

    #[test]
    fn the_offset_that_is_read_contains_the_systems() {
        let offset = Offset::read().unwrap().unwrap();
        let before = now(ClockId::CLOCK_MONOTONIC).unwrap();
        let real = now(ClockId::CLOCK_REALTIME).unwrap();
        let after = now(ClockId::CLOCK_MONOTONIC).unwrap();
        let mine = Offset {
            low: real - after - 1,
            high: real - before + 1,
        };
        assert!(offset.and(mine).is_possible(), "{offset:?} {mine:?}");
    }
}
