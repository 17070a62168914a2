//! The difference of the 99th percentiles, paired by round.
//!
//! A round of a hundred requests has no p99, but all rounds together have one. The interval has those
//! differences that a test does not refute. If the settings differed by just that, and it were taken
//! off, a round's two turns could as well be exchanged, because their order was drawn. So the turns of
//! some rounds are exchanged, in up to [`EXCHANGES`] ways, and a difference is refuted if at most 5% of
//! these have p99s as far apart as the trial has. This is exact for settings that are otherwise the
//! same, whatever disturbs a turn (Lehmann and Romano, "Testing Statistical Hypotheses", 3rd edition
//! 2005, section 15.2). For others it is valid for large samples, because the distance of the p99s
//! is measured in the spread of the figures around them (Janssen, "Studentized permutation tests for
//! non-i.i.d. hypotheses and the generalized Behrens-Fisher problem", Statistics & Probability
//! Letters 36, 1997).

use super::{ERROR, Estimate, rounds_needed, summarise};
use crate::interval::{SIDE, boundary};
use crate::quantile::P99;

/// The number of ways in which more than ten rounds are exchanged. Any two of them, one after the other, are
/// a third one, as with all ways of fewer rounds: the test is exact with such a part of all (Hemerik and Goeman,
/// "Exact testing with random permutations", TEST 27, 2018).
const EXCHANGES: u64 = 1 << EXCHANGE_BITS;
const EXCHANGE_BITS: usize = 10;

/// A fixed seed, so that the same figures always give the same interval.
const SEED: u64 = 0x7265_7665_696c_6c65;

/// Figures that differ by less than this share of the largest are equal but for rounding.
const ROUNDING: f64 = 1e-12;

/// The p99 of `of` less that of `from`; each round's figures have the same index in both. `None` if
/// either has too few figures for a p99.
///
/// The interval is there from as many rounds on as the medians' needs. It has no end, and is `None`, where
/// the figures are so coarse that their spread is unknown.
pub fn p99_difference(of: &[&[f64]], from: &[&[f64]]) -> Option<Estimate> {
    let rounds = of.iter().zip(from);
    let rounds: Vec<[&[f64]; 2]> = rounds
        .filter(|(of, from)| !of.is_empty() && !from.is_empty())
        .map(|(of, from)| [*of, *from])
        .collect();
    let p99 = |side: usize| summarise(rounds.iter().flat_map(|round| round[side]).copied())?.p99;
    let estimate = p99(0)? - p99(1)?;
    let is_enough = rounds.len() >= rounds_needed(ERROR);
    Some(Estimate {
        estimate,
        interval: is_enough
            .then(|| Exchanges::of(&rounds).interval(estimate))
            .flatten(),
        rounds: rounds.len() as u64,
    })
}

/// Whether a share is larger under the one setting than under the other, beyond noise. A round has of each setting, this
/// one first, how many of how many. `None` with too few rounds.
///
/// If it were not, as large a lead or a larger one would come of at most 2.5% of the ways to exchange turns: what comes
/// together in one turn counts as one.
pub fn share_is_larger(rounds: &[[[u64; 2]; 2]]) -> Option<bool> {
    if rounds.len() < rounds_needed(ERROR) {
        return None;
    }
    let lead = |way: Vec<usize>| {
        let mut sums = [[0.0; 2]; 2];
        for (turns, exchanged) in rounds.iter().zip(way) {
            for (side, [part, whole]) in turns.iter().enumerate() {
                sums[side ^ exchanged][0] += *part as f64;
                sums[side ^ exchanged][1] += *whole as f64;
            }
        }
        let [of, than] = sums.map(|[part, whole]: [f64; 2]| part / whole.max(1.0));
        of - than
    };
    let mut leads = ways(rounds.len()).map(lead);
    let least = leads.next()? - ROUNDING;
    let all = leads.len() + 1;
    let as_large = 1 + leads.filter(|lead| *lead >= least).count();
    Some(as_large as f64 <= SIDE * all as f64)
}

/// The ways to exchange the turns of so many rounds. A way has 1 for a round whose turns are exchanged, 0 for another.
/// The first way exchanges none.
fn ways(rounds: usize) -> impl ExactSizeIterator<Item = Vec<usize>> {
    // A way is a number. It exchanges the rounds of which it has an odd number of bits.
    let mut random = fastrand::Rng::with_seed(SEED);
    let bits = |round: usize| match round < EXCHANGE_BITS {
        true => 1 << round,
        false => random.u64(1..EXCHANGES),
    };
    let bits: Vec<u64> = (0..rounds).map(bits).collect();
    (0..1 << rounds.min(EXCHANGE_BITS)).map(move |way: u32| {
        let exchanged = bits
            .iter()
            .map(|bits| (bits & u64::from(way)).count_ones() % 2);
        exchanged.map(|exchanged| exchanged as usize).collect()
    })
}

/// A figure, and where it was.
#[derive(Clone, Copy)]
struct Figure {
    value: f64,
    round: usize,
    /// The setting: 0 or 1.
    side: usize,
}

/// The p99s of two samples.
struct Distance {
    /// The first one less the second one, without its sign.
    between: f64,
    /// How far figures are apart around the two, from the value that twice as many exceed to the one that
    /// half as many do.
    spread: f64,
}

/// The turns of two settings, and the ways to exchange them.
struct Exchanges {
    /// Of each setting, the largest first.
    figures: [Vec<Figure>; 2],
    /// How many figures each round has of each setting.
    counts: Vec<[usize; 2]>,
    /// As [`ways`].
    ways: Vec<Vec<usize>>,
}

impl Exchanges {
    fn of(rounds: &[[&[f64]; 2]]) -> Self {
        let figures = |side: usize| {
            let all = rounds.iter().enumerate().flat_map(|(round, turns)| {
                let values = turns[side].iter();
                values.map(move |&value| Figure { value, round, side })
            });
            let mut all: Vec<Figure> = all.collect();
            all.sort_unstable_by(|one, other| other.value.total_cmp(&one.value));
            all
        };
        Self {
            figures: [figures(0), figures(1)],
            counts: rounds.iter().map(|turns| turns.map(<[f64]>::len)).collect(),
            ways: ways(rounds.len()).collect(),
        }
    }

    /// The differences that are not refuted, from the smallest to the largest. They contain `estimate`, which
    /// nothing refutes.
    fn interval(&self, estimate: f64) -> Option<(f64, f64)> {
        // Zero is tested by itself: whether the settings differ must not depend on the search.
        let is_zero_within = !self.refutes(0.0);
        let step = estimate
            .abs()
            .max(self.distance(&self.alike(0.0), &self.ways[0]).spread)
            / 8.0;
        let end = |step: f64| {
            let zero_is_ahead = estimate * step < 0.0;
            match (zero_is_ahead, is_zero_within) {
                (true, false) => Some(self.last(estimate, 0.0)),
                (true, true) => self.beyond(0.0, step),
                (false, _) => self.beyond(estimate, step),
            }
        };
        let (low, high) = (end(-step)?, end(step)?);
        (low < high).then_some((low, high))
    }

    /// The last difference that is not refuted on the way from `within`, which is not, in steps that double.
    fn beyond(&self, within: f64, step: f64) -> Option<f64> {
        const STEPS: i32 = 40;
        let mut within = within;
        for doubled in 0..STEPS {
            let next = within + step * f64::from(doubled).exp2();
            if self.refutes(next) {
                return Some(self.last(within, next));
            }
            within = next;
        }
        None
    }

    fn last(&self, within: f64, out: f64) -> f64 {
        const HALVINGS: u32 = 12;
        boundary(within, out, HALVINGS, |difference| {
            !self.refutes(difference)
        })
    }

    fn refutes(&self, difference: f64) -> bool {
        let alike = self.alike(difference);
        let seen = self.distance(&alike, &self.ways[0]);
        let rounding = ROUNDING * alike.first().map_or(0.0, |largest| largest.value.abs());
        let allowed = (ERROR * self.ways.len() as f64) as usize;
        let is_as_far = |way: &&Vec<usize>| {
            let other = self.distance(&alike, way);
            (other.between + rounding) * seen.spread >= seen.between * other.spread
        };
        let as_far = self.ways.iter().filter(is_as_far);
        as_far.take(allowed + 1).count() <= allowed
    }

    /// The figures of both settings, the largest first, those of the first one less `difference`.
    fn alike(&self, difference: f64) -> Vec<Figure> {
        let [of, from] = &self.figures;
        let of = of.iter().map(|figure| Figure {
            value: figure.value - difference,
            ..*figure
        });
        let mut all: Vec<Figure> = of.chain(from.iter().copied()).collect();
        // Two runs in order: this merges them.
        all.sort_by(|one, other| other.value.total_cmp(&one.value));
        all
    }

    fn distance(&self, figures: &[Figure], exchanged: &[usize]) -> Distance {
        let mut counts = [0; 2];
        for (turns, exchanged) in self.counts.iter().zip(exchanged) {
            counts[*exchanged] += turns[0];
            counts[1 - exchanged] += turns[1];
        }
        // Each sample's place of its p99 from the largest on, from 1.
        let places = counts.map(|count| count - P99.rank(count) + 1);
        let mut passed = [0; 2];
        let (mut above, mut p99, mut below) = ([0.0; 2], [0.0; 2], [0.0; 2]);
        for figure in figures {
            let sample = figure.side ^ exchanged[figure.round];
            let place = places[sample];
            passed[sample] += 1;
            for (value, at) in [
                (&mut above, place.div_ceil(2)),
                (&mut p99, place),
                (&mut below, 2 * place),
            ] {
                if passed[sample] == at {
                    value[sample] = figure.value;
                }
            }
            if passed[0] >= 2 * places[0] && passed[1] >= 2 * places[1] {
                break;
            }
        }
        Distance {
            between: (p99[0] - p99[1]).abs(),
            spread: (above[0] - below[0]).hypot(above[1] - below[1]),
        }
    }
}

#[cfg(test)]
mod tests;
