//! Datapoints by requested state and source. Sources are not mixed: what each includes differs.

use reveille_figures::quantile::P99_9;

use crate::columns::NO_NAME;
use crate::statistics::UNKNOWN;
use crate::{Columns, NULL};

use super::input::{Error, Result};

/// What distinguishes groups, within a result and between results.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Key {
    pub state: String,
    pub source: String,
}

/// The state; with its source if there are several among `sources`.
pub fn named<'s>(
    state: &str,
    source: &str,
    mut sources: impl Iterator<Item = &'s String>,
) -> String {
    match sources.any(|other| other != source) {
        true => format!("{state} ({source})"),
        false => state.to_owned(),
    }
}

/// The datapoints of one state and source.
#[derive(Debug, Clone, PartialEq)]
pub struct Group {
    pub key: Key,
    /// As cpuidle numbers the state; `None` if it is unknown.
    pub index: Option<i64>,
    /// Wake latencies, ns, ascending.
    pub latencies: Vec<i64>,
    /// The rows drawn singly, ascending: those beyond the group's 99.9th percentile (inverse of the
    /// empirical distribution); of fewer than 1000 datapoints, where nothing is beyond it, one that
    /// has the greatest latency.
    pub outliers: Vec<u32>,
}

/// The groups of one result, by state index and source, and which group each row is in.
#[derive(Debug, Clone, PartialEq)]
pub struct Groups {
    pub groups: Vec<Group>,
    membership: Vec<u16>,
}

/// In `membership`: in no group, because the row has no wake latency.
const NOWHERE: u16 = u16::MAX;

impl Groups {
    /// Groups the rows of `columns`; an error for datapoints without a column `wake_latency_ns`.
    pub fn of(columns: &Columns) -> Result<Self> {
        let latency = match columns.integers("wake_latency_ns") {
            Some(latency) => latency,
            None if columns.rows == 0 => &[],
            None => return Err(Error::NoLatency),
        };
        let states = columns.names("requested_state");
        let sources = columns.names("source");
        let indices = columns.integers("requested_state_index");

        // Codes are bytes: a pair of them indexes a small table, so that no row needs hashing.
        let mut place = vec![NOWHERE; 1 << 16];
        let mut groups: Vec<Group> = Vec::new();
        let mut membership = vec![NOWHERE; columns.rows];
        for (row, &latency) in latency
            .iter()
            .enumerate()
            .filter(|(_, value)| **value != NULL)
        {
            let state = states.map_or(NO_NAME, |(codes, _)| codes[row]);
            let source = sources.map_or(NO_NAME, |(codes, _)| codes[row]);
            let place = &mut place[usize::from(state) << 8 | usize::from(source)];
            if *place == NOWHERE {
                *place = find_or_add(
                    &mut groups,
                    Key {
                        state: name(states, state),
                        source: name(sources, source),
                    },
                );
            }
            let group = &mut groups[usize::from(*place)];
            group.latencies.push(latency);
            if group.index.is_none() {
                group.index = indices
                    .map(|indices| indices[row])
                    .filter(|index| *index != NULL);
            }
            membership[row] = *place;
        }
        for group in &mut groups {
            group.latencies.sort_unstable();
        }
        let mut this = Self { groups, membership };
        this.order();
        this.find_outliers(latency);
        Ok(this)
    }

    /// The group that a row is in, by its place in `groups`.
    pub fn of_row(&self, row: usize) -> Option<usize> {
        let place = *self.membership.get(row)?;
        (place != NOWHERE).then_some(usize::from(place))
    }

    /// The group of that key.
    pub fn get(&self, key: &Key) -> Option<&Group> {
        self.groups.iter().find(|group| group.key == *key)
    }

    fn order(&mut self) {
        let mut order: Vec<(usize, Group)> = self.groups.drain(..).enumerate().collect();
        order.sort_by_key(|(_, group)| {
            // Without an index the median has the order of depth, as in the statistics.
            let median = group.latencies[(group.latencies.len() - 1) / 2];
            (
                group.index.unwrap_or(i64::MAX),
                median,
                group.key.source.clone(),
            )
        });
        let mut new_place = vec![NOWHERE; 1 << 16];
        for (new, (old, group)) in order.into_iter().enumerate() {
            new_place[old] = new as u16;
            self.groups.push(group);
        }
        for place in &mut self.membership {
            *place = new_place[usize::from(*place)];
        }
    }

    fn find_outliers(&mut self, latency: &[i64]) {
        let thresholds: Vec<i64> = self.groups.iter().map(singly_above).collect();
        for (row, &latency) in latency.iter().enumerate() {
            if let Some(place) = self.of_row(row)
                && latency > thresholds[place]
            {
                self.groups[place].outliers.push(row as u32);
            }
        }
        let small = |group: &&mut Group| group.latencies.len() < 1000;
        for group in self.groups.iter_mut().filter(small) {
            group.outliers.truncate(1);
        }
    }
}

/// The latency above which a group's datapoints are drawn singly.
fn singly_above(group: &Group) -> i64 {
    let count = group.latencies.len();
    match count < 1000 {
        true => group.latencies[count - 1] - 1,
        false => group.latencies[P99_9.rank(count) - 1],
    }
}

fn find_or_add(groups: &mut Vec<Group>, key: Key) -> u16 {
    let place = groups
        .iter()
        .position(|group| group.key == key)
        .unwrap_or_else(|| {
            groups.push(Group {
                key,
                index: None,
                latencies: Vec::new(),
                outliers: Vec::new(),
            });
            groups.len() - 1
        });
    // There are at most 256 · 256 pairs of codes, and (NO_NAME, NO_NAME) shares its key with no
    // more than one of them; the last place is NOWHERE's and is not reached by real files.
    place.min(usize::from(NOWHERE) - 1) as u16
}

fn name(column: Option<(&[u8], &[String])>, code: u8) -> String {
    let name = column.and_then(|(_, names)| names.get(usize::from(code)));
    name.cloned().unwrap_or_else(|| UNKNOWN.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::show::sample::{Row, columns_of, columns_of_rows};

    #[test]
    fn exactly_the_datapoints_beyond_p99_9_are_outliers() {
        let columns = columns_of("C1", "timer", (1..=20_500).rev());
        let groups = Groups::of(&columns).unwrap();
        // 99.9% of 20 500 is 20 479.5: the 20 480th is p99.9, and 20 lie beyond it.
        assert_eq!(groups.groups[0].outliers, (0..20).collect::<Vec<u32>>());
    }

    #[test]
    fn of_few_datapoints_the_largest_is_an_outlier() {
        let columns = columns_of("C1", "timer", [3, 9, 9, 1]);
        assert_eq!(Groups::of(&columns).unwrap().groups[0].outliers, [1]);
    }

    #[test]
    fn groups_and_their_rows_are_ordered_by_index() {
        let row = |state, index, source, latency| Row {
            state,
            index,
            source,
            latency,
        };
        let columns = columns_of_rows(&[
            row("C6", 3, "timer", 60),
            row("C6", 3, "timer", 61),
            row("C1", 1, "timer", 11),
            row("C1", 1, "remote", 10),
            row("C1", 1, "timer", 12),
            row("C1", 1, "timer", 13),
        ]);
        let groups = Groups::of(&columns).unwrap();
        let keys: Vec<_> = groups
            .groups
            .iter()
            .map(|group| (&*group.key.state, &*group.key.source, group.latencies.len()))
            .collect();
        assert_eq!(
            keys,
            [("C1", "remote", 1), ("C1", "timer", 3), ("C6", "timer", 2)]
        );
        assert_eq!(groups.of_row(0), Some(2));
        assert_eq!(groups.of_row(3), Some(0));
    }

    #[test]
    fn a_row_without_latency_is_in_no_group() {
        let columns = columns_of("C1", "timer", [5, NULL, 6]);
        let groups = Groups::of(&columns).unwrap();
        assert_eq!(groups.groups[0].latencies, [5, 6]);
        assert_eq!(groups.of_row(1), None);
    }
}
