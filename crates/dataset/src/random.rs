//! Random numbers for simulated samples: always the same ones, so that a report is, too.

/// Steele, Lea and Flood's SplitMix64, "Fast Splittable Pseudorandom Number Generators" (2014).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// In (0, 1), never one of the ends.
    pub(crate) fn uniform(&mut self) -> f64 {
        ((self.next() >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
    }

    /// With mean 1.
    #[cfg(test)]
    pub(crate) fn exponential(&mut self) -> f64 {
        -self.uniform().ln()
    }
}
