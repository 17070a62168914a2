//! What is to happen to servers, by time.
//!
//! A calendar queue (R. Brown, *Calendar queues*, CACM 31, 1988) with one liberty: what is due up to
//! an instant comes in any order. The dispatchers ask only how things stand when a request comes.

/// No node.
const NONE: u32 = u32::MAX;

#[derive(Debug, Clone)]
struct Node<T> {
    at: f64,
    what: T,
    next: u32,
}

/// Days of equal length in a ring, each with a list of what falls on it, this year or later.
#[derive(Debug, Clone)]
pub(super) struct Calendar<T> {
    days: Vec<u32>,
    days_per_second: f64,
    /// Counted from time 0.
    today: u64,
    nodes: Vec<Node<T>>,
    spare: u32,
}

impl<T: Copy> Calendar<T> {
    /// For about `rate` entries a second, `open` of them at a time.
    pub(super) fn new(rate: f64, open: usize) -> Self {
        const FEWEST_DAYS: usize = 1 << 8;
        const MOST_DAYS: usize = 1 << 20;
        let days = open.next_power_of_two().clamp(FEWEST_DAYS, MOST_DAYS);
        Self {
            days: vec![NONE; days],
            days_per_second: rate,
            today: 0,
            nodes: Vec::new(),
            spare: NONE,
        }
    }

    /// `at` must not be before what was last asked for.
    #[inline]
    pub(super) fn insert(&mut self, at: f64, what: T) {
        let day = (at * self.days_per_second) as u64 as usize & (self.days.len() - 1);
        let node = Node {
            at,
            what,
            next: self.days[day],
        };
        self.days[day] = match self.spare {
            NONE => {
                self.nodes.push(node);
                (self.nodes.len() - 1) as u32
            }
            spare => {
                self.spare = self.nodes[spare as usize].next;
                self.nodes[spare as usize] = node;
                spare
            }
        };
    }

    /// Takes out all that is due at `now` or before, and appends it to `due`.
    #[inline]
    pub(super) fn take(&mut self, now: f64, due: &mut Vec<(f64, T)>) {
        let day = (now * self.days_per_second) as u64;
        let ring = self.days.len() as u64;
        // More than a year later each day has to be looked at once.
        let end = day.saturating_add(1).min(self.today.saturating_add(ring));
        for day in self.today..end {
            self.take_from((day & (ring - 1)) as usize, now, due);
        }
        self.today = day;
    }

    #[inline]
    fn take_from(&mut self, day: usize, now: f64, due: &mut Vec<(f64, T)>) {
        let (mut before, mut at) = (NONE, self.days[day]);
        while at != NONE {
            let node = &self.nodes[at as usize];
            let next = node.next;
            if node.at <= now {
                due.push((node.at, node.what));
                match before {
                    NONE => self.days[day] = next,
                    before => self.nodes[before as usize].next = next,
                }
                self.nodes[at as usize].next = self.spare;
                self.spare = at;
            } else {
                before = at;
            }
            at = next;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn each_due_event_is_taken_once(
            steps in prop::collection::vec((0.0..3.0f64, prop::collection::vec(0.0..900.0f64, 0..4)), 1..300),
            rate in 0.01..50.0f64,
        ) {
            let mut calendar = Calendar::new(rate, 1);
            let (mut now, mut open, mut number) = (0.0, Vec::new(), 0u32);
            for (step, ahead) in steps {
                // Some steps are longer than a year.
                now += step * step * step * 10.0;
                let mut due = Vec::new();
                calendar.take(now, &mut due);
                let mut due: Vec<u32> = due.into_iter().map(|(_, what)| what).collect();
                due.sort_unstable();
                let expected: Vec<u32> = open.iter().filter(|(at, _)| *at <= now).map(|(_, n)| *n).collect();
                prop_assert_eq!(due, expected);
                open.retain(|(at, _)| *at > now);
                for ahead in ahead {
                    calendar.insert(now + ahead, number);
                    open.push((now + ahead, number));
                    number += 1;
                }
            }
        }
    }
}
