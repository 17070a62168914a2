//! Instants of a foreign clock (a network card's, a timer chip's) on CLOCK_MONOTONIC, each with a bound.
//!
//! Each reading of the foreign clock between two of CLOCK_MONOTONIC confines the line between the clocks to
//! an interval; there is no statistics in it. A launch lies between two bursts of readings, so its
//! instant follows twice: forward from the burst before it, backward from the burst after it. The hull
//! of both contains the truth. The book's page "Two clocks, one line" has the reasons and the figures.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;

/// How many bursts the rate comes from.
const MEMORY: usize = 64;

/// The least distance of these on the foreign clock, ns: together 3 s. With a wander of 0.1 to 1 ppm/s
/// older ones no longer narrow the rate.
const SPACING_NS: i128 = 50_000_000;

/// Rates are in parts per 10^12, so that one of their steps in an hour is 4 ns.
const RATE: i128 = 1_000_000_000_000;
const RATE_PER_PPB: i128 = 1000;

/// One reading of the foreign clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    /// CLOCK_MONOTONIC just before, ns.
    pub before_ns: u64,
    /// The foreign clock, ns from any origin; the whole range of `u64` is exact.
    pub foreign_ns: u64,
    /// CLOCK_MONOTONIC just after, ns.
    pub after_ns: u64,
}

/// What is known of the foreign clock. The bounds hold if these do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// How far the rate, ns of CLOCK_MONOTONIC per ns of the foreign clock, may lie from 1, either way. Both
    /// crystals count, and the slewing of CLOCK_MONOTONIC by NTP (at most 500 ppm).
    pub max_ppb: u32,
    /// How fast the rate may change, per second of the foreign clock.
    pub wander_ppb_per_s: u32,
    /// The foreign clock's step, ns: it reads at most this much less than the time is. At least 1.
    pub resolution_ns: u32,
    /// The least time from the instant that a sample reads to its `after_ns`, ns; 0 if unknown. A card that
    /// is read twice and latches in the first (igc): the least time of one read.
    pub latch_to_after_ns: u32,
}

/// A launch on CLOCK_MONOTONIC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Instant {
    /// The estimate, ns.
    pub at_ns: u64,
    /// The truth lies within this of the estimate, ns, either way: `launch_error_ns`.
    pub error_ns: u64,
}

/// Why a launch has no instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dropped {
    /// A burst has no sample, or none whose bracket is as long as `latch_to_after_ns`.
    NoSample,
    /// No line within the limits connects the two bursts: a clock stepped, or the machine slept.
    Stepped,
    /// The launch does not lie between the bursts.
    Outside,
}

/// All values from `low` to `high`: instants of CLOCK_MONOTONIC in ns, or rates less 1 in parts per 10^12.
#[derive(Debug, Clone, Copy)]
struct Range {
    low: i128,
    high: i128,
}

impl Range {
    fn overlap(self, other: Self) -> Self {
        Self {
            low: self.low.max(other.low),
            high: self.high.min(other.high),
        }
    }

    fn is_empty(self) -> bool {
        self.low > self.high
    }

    /// The middle. CLOCK_MONOTONIC itself is within `u64`, so what lies outside is cut off.
    fn instant(self) -> Instant {
        let within = |value: i128| value.clamp(0, i128::from(u64::MAX)) as u64;
        let (low, high) = (within(self.low), within(self.high));
        let at_ns = low + (high - low) / 2;
        Instant {
            at_ns,
            error_ns: high - at_ns,
        }
    }
}

/// At which instants the foreign clock read `foreign`.
#[derive(Debug, Clone, Copy)]
struct Reading {
    foreign: i128,
    at: Range,
}

impl Reading {
    /// The narrowest of a burst: one instant, so a step within the burst is before or after it.
    fn narrowest(burst: &[Sample], limits: &Limits) -> Option<Self> {
        let readings = burst.iter().map(|sample| Self {
            foreign: sample.foreign_ns.into(),
            at: Range {
                low: sample.before_ns.into(),
                high: i128::from(sample.after_ns) - i128::from(limits.latch_to_after_ns),
            },
        });
        let narrowest = readings
            .filter(|reading| !reading.at.is_empty())
            .min_by_key(|reading| reading.at.high - reading.at.low)?;
        // All three are rounded down: the foreign clock to its resolution, which on CLOCK_MONOTONIC may take
        // longer, and the others to 1 ns.
        let resolution = i128::from(limits.resolution_ns);
        let slack = resolution + resolution * i128::from(limits.max_ppb) / 1_000_000_000 + 1;
        Some(Self {
            foreign: narrowest.foreign,
            at: Range {
                low: narrowest.at.low - slack,
                high: narrowest.at.high + 1,
            },
        })
    }

    /// When the foreign clock reads `foreign` if it runs at one of these rates from here to there.
    fn project(&self, foreign: i128, rate: Range) -> Range {
        let distance = foreign - self.foreign;
        let (one, other) = (distance * rate.low, distance * rate.high);
        Range {
            low: self.at.low + distance + one.min(other).div_euclid(RATE),
            high: self.at.high + distance - (-one.max(other)).div_euclid(RATE),
        }
    }

    /// The mean rate from `earlier` to here, which must be later on the foreign clock.
    fn rate_since(&self, earlier: &Self) -> Range {
        let distance = self.foreign - earlier.foreign;
        let low = self.at.low - earlier.at.high - distance;
        let high = self.at.high - earlier.at.low - distance;
        Range {
            low: (low * RATE).div_euclid(distance),
            high: -(-high * RATE).div_euclid(distance),
        }
    }
}

/// The line between a foreign clock and CLOCK_MONOTONIC, from bursts of samples in order of time.
#[derive(Debug, Clone)]
pub struct ClockLine {
    limits: Limits,
    newest: Option<Reading>,
    /// At least [`SPACING_NS`] apart, oldest first.
    memory: VecDeque<Reading>,
    steps: u64,
    rate_changes: u64,
}

impl ClockLine {
    /// A line through no samples.
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            newest: None,
            memory: VecDeque::with_capacity(MEMORY),
            steps: 0,
            rate_changes: 0,
        }
    }

    /// Steps of either clock, in launches and between them.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// How often the rate changed faster than it may wander. A step within the brackets may pass for that.
    pub fn rate_changes(&self) -> u64 {
        self.rate_changes
    }

    /// Adds a burst without a launch, for the rate. Until there are two, half a second apart, the bounds
    /// of distant launches are wide.
    pub fn add(&mut self, burst: &[Sample]) -> Result<(), Dropped> {
        let new = Reading::narrowest(burst, &self.limits).ok_or(Dropped::NoSample)?;
        self.follow(new).map(|_| ())
    }

    /// The instant at which the foreign clock read `foreign_ns`, between a burst before it and one after it.
    ///
    /// The bound holds as long as both clocks keep within the limits; and with one step, or one sudden change
    /// of the rate, among these two bursts and the 64 that the rate comes from. A step that the brackets show
    /// is [`Dropped::Stepped`].
    pub fn launch(
        &mut self,
        before: &[Sample],
        foreign_ns: u64,
        after: &[Sample],
    ) -> Result<Instant, Dropped> {
        let [earlier, later] = [before, after].map(|burst| Reading::narrowest(burst, &self.limits));
        let (earlier, later) = earlier.zip(later).ok_or(Dropped::NoSample)?;
        // A step between launches is none across this one.
        let _ = self.follow(earlier);
        let rate = self.follow(later)?;
        let foreign = i128::from(foreign_ns);
        if foreign < earlier.foreign || later.foreign < foreign {
            return Err(Dropped::Outside);
        }
        let forward = earlier.project(foreign, rate);
        let backward = later.project(foreign, rate);
        let bend = self.bend(later.foreign - earlier.foreign);
        let hull = Range {
            low: forward.low.min(backward.low) - bend,
            high: forward.high.max(backward.high) + bend,
        };
        Ok(hull.instant())
    }

    /// The instant from the newest burst alone, for a launch without a burst after it; `None` before the
    /// first burst. The bound holds if there was no step and no sudden change of the rate since, and
    /// none among the 64 bursts that the rate comes from.
    pub fn extrapolate(&self, foreign_ns: u64) -> Option<Instant> {
        let (newest, foreign) = (self.newest?, i128::from(foreign_ns));
        let (rate, _) = self.rate(&newest, foreign);
        Some(newest.project(foreign, rate).instant())
    }

    /// Takes up the next reading, and returns the rate from the one before it.
    fn follow(&mut self, new: Reading) -> Result<Range, Dropped> {
        let newest = self.newest.replace(new).unwrap_or(new);
        let (rate, consistent) = self.rate(&newest, new.foreign);
        let forgotten = self.memory.len() - consistent;
        self.rate_changes += u64::from(forgotten > 0);
        self.memory.drain(..forgotten);
        let expected = newest.project(new.foreign, rate);
        let stepped = expected.overlap(new.at).is_empty();
        if stepped {
            self.memory.clear();
            self.steps += 1;
        }
        let last = self.memory.back();
        if last.is_none_or(|last| new.foreign - last.foreign >= SPACING_NS) {
            if self.memory.len() == MEMORY {
                self.memory.pop_front();
            }
            self.memory.push_back(new);
        }
        if stepped {
            Err(Dropped::Stepped)
        } else {
            Ok(rate)
        }
    }

    /// The rate from `from`, the newest reading, to `until`, and how many of the memory's newest readings
    /// agree on it. The rate at an instant is the mean rate over an interval, give or take the wander from
    /// the interval's middle to the instant.
    fn rate(&self, from: &Reading, until: i128) -> (Range, usize) {
        let limit = i128::from(self.limits.max_ppb) * RATE_PER_PPB;
        let mut rate = Range {
            low: -limit,
            high: limit,
        };
        for (agree, earlier) in self.memory.iter().rev().enumerate() {
            // Zero for the newest itself, which bounds nothing.
            if from.foreign <= earlier.foreign {
                continue;
            }
            let mean = from.rate_since(earlier);
            let interval = from.foreign - earlier.foreign;
            let twice_from_middle = (2 * until - from.foreign - earlier.foreign).abs();
            let per_s = i128::from(self.limits.wander_ppb_per_s) * RATE_PER_PPB;
            let wander = twice_from_middle.max(interval) * per_s / 2_000_000_000 + 1;
            let narrower = rate.overlap(Range {
                low: mean.low - wander,
                high: mean.high + wander,
            });
            if narrower.is_empty() {
                return (rate, agree);
            }
            rate = narrower;
        }
        (rate, self.memory.len())
    }

    /// How far the clocks' line can leave a straight one over `distance`, ns.
    ///
    /// The mean rates before and after a launch differ by at most the wander over half the distance, and act
    /// over the shorter part, at most half the distance.
    fn bend(&self, distance: i128) -> i128 {
        let wander = i128::from(self.limits.wander_ppb_per_s);
        let square = distance.saturating_mul(distance);
        // 10^9 for ppb, 10^9 for "per second", and two halves.
        square.saturating_mul(wander) / 4_000_000_000_000_000_000 + 1
    }
}
