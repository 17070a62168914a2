//! A set of servers: a bit each, and a bit for each word that has any.

#[derive(Debug, Clone)]
pub(super) struct Places {
    words: Vec<u64>,
    /// Bit i of word j: words[64·j + i] is not 0.
    summary: Vec<u64>,
}

impl Places {
    pub(super) fn none(of: usize) -> Self {
        let words = of.div_ceil(64);
        Self {
            words: vec![0; words],
            summary: vec![0; words.div_ceil(64)],
        }
    }

    #[inline]
    pub(super) fn insert(&mut self, place: usize) {
        self.words[place / 64] |= 1 << (place % 64);
        self.summary[place / 4096] |= 1 << (place / 64 % 64);
    }

    #[inline]
    pub(super) fn remove(&mut self, place: usize) {
        let word = &mut self.words[place / 64];
        *word &= !(1 << (place % 64));
        if *word == 0 {
            self.summary[place / 4096] &= !(1 << (place / 64 % 64));
        }
    }

    /// The lowest.
    #[inline]
    pub(super) fn first(&self) -> Option<usize> {
        self.from(0)
    }

    /// The lowest at or above `place`, or else the lowest of all.
    #[inline]
    pub(super) fn next(&self, place: usize) -> Option<usize> {
        self.from(place).or_else(|| self.first())
    }

    #[inline]
    fn from(&self, place: usize) -> Option<usize> {
        let word = place / 64;
        if let Some(bits) = self.words.get(word)
            && bits >> (place % 64) != 0
        {
            return Some(place + (bits >> (place % 64)).trailing_zeros() as usize);
        }
        let next = word + 1;
        let mut mask = u64::MAX << (next % 64);
        for (group, bits) in self.summary.iter().enumerate().skip(next / 64) {
            if bits & mask != 0 {
                let word = 64 * group + (bits & mask).trailing_zeros() as usize;
                return Some(64 * word + self.words[word].trailing_zeros() as usize);
            }
            mask = u64::MAX;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn places_are_found_as_in_an_ordered_set(
            steps in prop::collection::vec((any::<bool>(), 0..9000usize, 0..9000usize), 1..200)
        ) {
            let (mut places, mut set) = (Places::none(9000), BTreeSet::new());
            for (is_in, place, from) in steps {
                match is_in {
                    true => { places.insert(place); set.insert(place); }
                    false => { places.remove(place); set.remove(&place); }
                }
                prop_assert_eq!(places.first(), set.first().copied());
                let next = set.range(from..).next().or(set.first()).copied();
                prop_assert_eq!(places.next(from), next);
            }
        }
    }
}
