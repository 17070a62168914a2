//! Reproducible random numbers for simulated samples, so that reports are reproducible.

/// Steele, Lea and Flood's SplitMix64, "Fast Splittable Pseudorandom Number Generators" (2014).
pub struct Random(pub u64);

impl Random {
    /// Seeded by these figures: the same for the same ones, and for others as good as independent.
    pub fn of(figures: &[f64]) -> Self {
        figures.iter().fold(Self(0), |before, figure| {
            Self(Self(before.0 ^ figure.to_bits()).next())
        })
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// In (0, 1), without the ends.
    pub fn uniform(&mut self) -> f64 {
        ((self.next() >> 12) as f64 + 0.5) / (1_u64 << 52) as f64
    }

    /// With mean 1.
    pub fn exponential(&mut self) -> f64 {
        -self.uniform().ln()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_are_those_of_the_published_generator() {
        // The five reference values of the seed 1234567.
        let mut random = Random(1_234_567);
        let numbers: Vec<u64> = (0..5).map(|_| random.next()).collect();
        assert_eq!(
            numbers,
            [
                6_457_827_717_110_365_317,
                3_203_168_211_198_807_973,
                9_817_491_932_198_370_423,
                4_593_380_528_125_082_431,
                16_408_922_859_458_223_821
            ]
        );
    }

    #[test]
    fn the_same_figures_give_the_same_numbers_and_any_others_different_ones() {
        let first = |figures: &[f64]| Random::of(figures).uniform();
        assert_eq!(first(&[1.0, 2.0]), first(&[1.0, 2.0]));
        let others: [&[f64]; 5] = [&[], &[1.0], &[2.0, 1.0], &[1.0, 2.0, 0.0], &[1.0, 2.5]];
        assert!(
            others
                .iter()
                .all(|other| first(other) != first(&[1.0, 2.0]))
        );
    }

    #[test]
    fn the_smallest_and_the_largest_number_are_within_zero_and_one() {
        // The generator run backwards: states that give 0, 2^63 and 2^64 - 1.
        let uniform = |state: u64| Random(state).uniform();
        let half_step = 0.5_f64.powi(53);
        assert_eq!(uniform(0x61c8_8646_80b5_83eb), half_step);
        assert_eq!(uniform(0x2fed_f1ef_ce1d_5545), 0.5 + half_step);
        assert_eq!(uniform(0x3162_8af6_7b21_31ab), 1.0 - half_step);
    }
}
