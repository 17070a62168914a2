//! A network card's clock (PHC): readings between two of CLOCK_MONOTONIC, and the line between the two clocks.

use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};

use nix::ioctl_readwrite;
use nix::time::{ClockId, clock_gettime};
use reveille_figures::clock_line::{ClockLine, Limits, Sample};
use reveille_kernel::Root;

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
/// The clocks of igb and igc count in cycles of 8 ns.
const RESOLUTION_NS: u32 = 8;

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

/// How a driver reads its card's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reads {
    /// Once: somewhere in the bracket.
    Once,
    /// Twice, and the first read latches the time (igc).
    TwiceFirstLatches,
}

/// An open card's clock.
#[derive(Debug)]
pub struct Phc {
    device: OwnedFd,
    /// N of /dev/ptpN.
    pub number: u32,
    reads: Reads,
    system: System,
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
    /// N of the /dev/ptpN of that network interface, if it has one.
    pub fn number_of(root: &Root, interface: &str) -> Option<u32> {
        let names = root.names(&format!("sys/class/net/{interface}/device/ptp"));
        let mut names = names.unwrap_or_default().into_iter();
        names.find_map(|name| name.strip_prefix("ptp")?.parse().ok())
    }

    /// Opens the clock of that network interface.
    ///
    /// # Errors
    /// [`Error::Cannot`] if it has none, or it cannot be opened or read; `source` is how the messages begin.
    pub fn of(source: &str, interface: &str, reads: Reads) -> Result<Self> {
        let Some(number) = Self::number_of(&Root::default(), interface) else {
            return Err(Error::Cannot(format!(
                "source {source}: {interface} has no hardware clock by /sys: its driver has none, or the kernel no \
                 CONFIG_PTP_1588_CLOCK"
            )));
        };
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
            reads,
            system: System::Monotonic,
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
    /// If it cannot be read, or somebody sets CLOCK_REALTIME all the time.
    pub fn burst(&mut self) -> Result<Vec<Sample>> {
        for _ in 0..TRIES {
            let System::Realtime(known) = &mut self.system else {
                let readings = self.readings().map_err(reading)?;
                return Ok(samples(&readings, Offset { low: 0, high: 0 }));
            };
            // The offset before and after: if somebody sets the clock in between, they have none in common.
            let known = known.take();
            let before = Offset::read()?;
            let readings = self.readings().map_err(reading)?;
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
        Err(Error::Cannot(
            "reading the card's clock: CLOCK_REALTIME is set all the time".into(),
        ))
    }

    /// A line to CLOCK_MONOTONIC that knows no rate yet.
    ///
    /// # Errors
    /// As [`Phc::burst`].
    pub fn line(&mut self) -> Result<ClockLine> {
        let latch_to_after_ns = match self.reads {
            Reads::Once => 0,
            // Both reads go the same way; a tenth for what is beside them in the narrowest bracket.
            Reads::TwiceFirstLatches => {
                let mut narrowest = u64::MAX;
                for _ in 0..READINGS {
                    let widths = self.burst()?.into_iter().map(|s| s.after_ns - s.before_ns);
                    narrowest = widths.fold(narrowest, u64::min);
                }
                (narrowest * 2 / 5) as u32
            }
        };
        Ok(ClockLine::new(Limits {
            max_ppb: MAX_PPB,
            wander_ppb_per_s: WANDER_PPB_PER_S,
            resolution_ns: RESOLUTION_NS,
            latch_to_after_ns,
        }))
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

fn reading(error: nix::Error) -> Error {
    Error::system("PTP_SYS_OFFSET_EXTENDED2")(error)
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
