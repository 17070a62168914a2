//! An external clock: the wake latency of an event that another device's clock times.
//!
//! A network card raises an interrupt at an instant of its own clock. The CPU reads that clock over the
//! bus, which takes longer than to leave a shallow idle state, and the interrupt follows the launch time
//! with a delay. These are equations 5 to 9 of the thesis (chapter 4); its equations 3 and 4 combine
//! them. The book's page `method/thesis.md` says where they contradict each other. No source needs them:
//! `figures::clock_line` converts the instants of another clock.

/// A reading of the device's clock, between two readings of the CPU's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Latch {
    /// The CPU's clock before, ns.
    pub before_ns: i64,
    /// The device's clock, ns. It latched at an unknown instant between the two others.
    pub device_ns: i64,
    /// The CPU's clock after, ns; not below `before_ns`.
    pub after_ns: i64,
}

impl Latch {
    /// The instant of `before_ns` in the device's clock, ns: equation 6, by which the device latched in
    /// the middle. [`Latch::error_ns`] bounds its error.
    pub fn began_ns(self) -> i64 {
        self.device_ns - (self.after_ns - self.before_ns) / 2
    }

    /// The most that [`Latch::began_ns`] is wrong by, either way, ns: half of the reading.
    pub fn error_ns(self) -> i64 {
        let reading = self.after_ns - self.before_ns;
        reading - reading / 2
    }

    /// An instant of the CPU's clock in the device's, ns: equation 5, by which the device latched at once.
    /// Never too early, and too late by the whole reading at most.
    pub fn to_device_ns(self, cpu_ns: i64) -> i64 {
        cpu_ns + (self.device_ns - self.before_ns)
    }
}

/// The package while the card reads the packet from memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Package {
    /// Memory is accessible (PC2 or shallower).
    Awake,
    /// The read wakes it, which is part of the wake latency.
    Asleep,
}

/// What lies between a card's launch time and its interrupt if nothing sleeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CardDelays {
    /// From the launch time to the start of the read (`DMAstart - LT`), ns.
    pub to_read_ns: i64,
    /// The read (`DMA`), ns.
    pub read_ns: i64,
    /// From the end of the read to the interrupt (`IO_NIC`), ns.
    pub to_interrupt_ns: i64,
}

impl CardDelays {
    /// How long after the launch time the CPU is due, ns.
    ///
    /// Equation 8 if the package was asleep: the read remains in the latency, because its length shows
    /// the package's exit. Equation 9 if it was awake, which lacks `to_read_ns`: here that counts in
    /// both, since no read starts earlier.
    pub fn interrupt_offset_ns(self, package: Package) -> i64 {
        let read_ns = match package {
            Package::Awake => self.read_ns,
            Package::Asleep => 0,
        };
        self.to_read_ns + read_ns + self.to_interrupt_ns
    }
}

/// Equation 7, ns: from the interrupt, `offset_ns` after the launch time, to the wake-up time. Both instants
/// are of the device's clock.
pub fn wake_latency_ns(woke_ns: i64, launch_ns: i64, offset_ns: i64) -> i64 {
    woke_ns - launch_ns - offset_ns
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The device's clock is ahead of the CPU's.
    const AHEAD_NS: i64 = 37_000_000_000;
    const DELAYS: CardDelays = CardDelays {
        to_read_ns: 300,
        read_ns: 900,
        to_interrupt_ns: 1800,
    };

    /// A reading that begins at `began_ns` of the device's clock.
    fn latch(began_ns: i64, reading_ns: i64, latched_after_ns: i64) -> Latch {
        Latch {
            before_ns: began_ns - AHEAD_NS,
            device_ns: began_ns + latched_after_ns,
            after_ns: began_ns - AHEAD_NS + reading_ns,
        }
    }

    #[test]
    fn a_reading_that_latches_in_its_middle_shows_when_it_began() {
        assert_eq!(latch(5_000_000, 1400, 700).began_ns(), 5_000_000);
        assert_eq!(latch(5_000_000, 1400, 0).began_ns(), 4_999_300);
        assert_eq!(latch(5_000_000, 1400, 1400).began_ns(), 5_000_700);
        assert_eq!(latch(0, 1400, 0).error_ns(), 700);
        assert_eq!(latch(0, 1401, 0).error_ns(), 701);
        assert_eq!(latch(0, 0, 0).error_ns(), 0);
    }

    proptest! {
        #[test]
        fn an_instant_in_the_devices_clock_is_within_its_error(
            began in 0..1_000_000_000_i64, reading in 0..5000_i64, share in 0.0..=1.0, later in 0..100_000_i64
        ) {
            let latch = latch(began, reading, (reading as f64 * share) as i64);
            prop_assert!((latch.began_ns() - began).abs() <= latch.error_ns());
            let late = latch.to_device_ns(began - AHEAD_NS + later) - (began + later);
            prop_assert!((0..=reading).contains(&late), "{} ns late", late);
        }
    }

    #[test]
    fn with_the_package_awake_the_cards_read_is_no_part_of_the_latency() {
        let launch = 1_000_000;
        let interrupt = launch + 300 + 900 + 1800;
        let offset = DELAYS.interrupt_offset_ns(Package::Awake);
        assert_eq!(wake_latency_ns(interrupt + 2000, launch, offset), 2000);
    }

    #[test]
    fn with_the_package_asleep_the_cards_read_is_part_of_the_latency() {
        let (launch, longer_read) = (1_000_000, 900 + 25_000);
        let interrupt = launch + 300 + longer_read + 1800;
        let offset = DELAYS.interrupt_offset_ns(Package::Asleep);
        assert_eq!(
            wake_latency_ns(interrupt + 50_000, launch, offset),
            longer_read + 50_000
        );
    }
}
