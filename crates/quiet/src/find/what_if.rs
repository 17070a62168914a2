//! Wake-ups and joint sleep as they were, and as they would be if some threads' wake-ups waited.
//!
//! A made-up order of the recorded times, not a model: a wake-up that waits moves its work behind it, and nothing else
//! changes. A loop that sleeps again after its work comes later from then on, so that it also comes less often; that is
//! left out.

use std::collections::BTreeMap;

use super::trace::{Busy, By, Root};

/// How CPUs slept.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Sleep {
    /// Wake-ups of all CPUs.
    pub wakeups: u64,
    /// The time in which all CPUs slept, ns.
    pub joint_ns: u64,
    /// How often they did.
    pub joint_times: u64,
}

/// A span of time, ns.
type Span = (u64, u64);

/// As it was.
pub fn recorded(busy: &[Busy], within: Span) -> Sleep {
    let mut spans: BTreeMap<u32, Vec<Span>> = BTreeMap::new();
    for one in busy {
        spans
            .entry(one.cpu)
            .or_default()
            .push((one.start_ns, one.end_ns));
    }
    sleep(spans, within)
}

/// If sleeps of the threads that `may_wait` names were delayed by a timer slack of `slack_ns`: each CPU ends them at
/// its next timer interrupt, or when the first one must end.
pub fn with_slack(
    busy: &[Busy],
    within: Span,
    slack_ns: u64,
    may_wait: impl Fn(u32) -> bool,
) -> Sleep {
    let mut of_cpus: BTreeMap<u32, Vec<&Busy>> = BTreeMap::new();
    for one in busy {
        of_cpus.entry(one.cpu).or_default().push(one);
    }
    let waits = |root: &Root| matches!(root.by, By::SleepTimer { .. }) && may_wait(root.thread);
    let timer = |root: &Root| matches!(root.by, By::SleepTimer { .. } | By::Timer);
    let mut spans = BTreeMap::new();
    for (cpu, all) in of_cpus {
        let mut waiting = Waiting::default();
        let mut moved = Vec::new();
        for one in all {
            waiting.release_before(one.start_ns, |at, work| moved.push((at, at + work)));
            if one.woke && !one.roots.is_empty() && one.roots.iter().all(waits) {
                waiting.add(last_ns(&one.roots, one.start_ns, slack_ns), one.length_ns());
                continue;
            }
            let timer = one.roots.iter().any(timer);
            let work = if timer { waiting.release() } else { 0 };
            moved.push((one.start_ns, one.end_ns + work));
        }
        waiting.release_before(u64::MAX, |at, work| moved.push((at, at + work)));
        spans.insert(cpu, moved);
    }
    sleep(spans, within)
}

/// If all that the threads do by themselves were held, until another wake-up of its CPU and at most for `limit_ns`: when
/// the first one must run, all of the machine do.
pub fn held(busy: &[Busy], within: Span, limit_ns: u64, may_wait: impl Fn(u32) -> bool) -> Sleep {
    let waits = |root: &Root| may_wait(root.thread);
    let mut waiting: BTreeMap<u32, Waiting> = BTreeMap::new();
    let mut spans: BTreeMap<u32, Vec<Span>> = BTreeMap::new();
    for one in busy {
        release_all(&mut waiting, &mut spans, one.start_ns);
        let of_cpu = waiting.entry(one.cpu).or_default();
        if one.woke && !one.roots.is_empty() && one.roots.iter().all(waits) {
            of_cpu.add(one.start_ns + limit_ns, one.length_ns());
            continue;
        }
        let end = one.end_ns + of_cpu.release();
        spans.entry(one.cpu).or_default().push((one.start_ns, end));
    }
    release_all(&mut waiting, &mut spans, u64::MAX);
    sleep(spans, within)
}

/// Releases all when the first must go, if that is before this time.
fn release_all(
    waiting: &mut BTreeMap<u32, Waiting>,
    spans: &mut BTreeMap<u32, Vec<Span>>,
    before_ns: u64,
) {
    let first = waiting.values().filter_map(|one| one.last_ns).min();
    let Some(first) = first.filter(|first| *first < before_ns) else {
        return;
    };
    for (&cpu, waiting) in waiting {
        let work = waiting.release();
        if work > 0 {
            spans.entry(cpu).or_default().push((first, first + work));
        }
    }
}

/// When the first of these must run.
fn last_ns(roots: &[Root], start_ns: u64, slack_ns: u64) -> u64 {
    let due = |root: &Root| match root.by {
        By::SleepTimer { due_ns } => due_ns,
        _ => start_ns,
    };
    let due = roots.iter().map(due).min().unwrap_or(start_ns);
    // It did not run earlier than it did.
    (due + slack_ns).max(start_ns)
}

/// What waits on a CPU: when it must run at the latest, and how long it takes.
#[derive(Default)]
struct Waiting {
    last_ns: Option<u64>,
    work_ns: u64,
}

impl Waiting {
    fn add(&mut self, last_ns: u64, work_ns: u64) {
        self.last_ns = Some(self.last_ns.map_or(last_ns, |known| known.min(last_ns)));
        self.work_ns += work_ns;
    }

    fn release(&mut self) -> u64 {
        self.last_ns = None;
        std::mem::take(&mut self.work_ns)
    }

    fn release_before(&mut self, time_ns: u64, mut run: impl FnMut(u64, u64)) {
        if let Some(last) = self.last_ns.filter(|last| *last < time_ns) {
            run(last, self.release());
        }
    }
}

/// Of the times at which each CPU is busy.
fn sleep(spans: BTreeMap<u32, Vec<Span>>, (began, ended): Span) -> Sleep {
    let mut wakeups = 0;
    let mut all = Vec::new();
    for (_, spans) in spans {
        let joined = joined(spans);
        // What begins with the recording is no wake-up in it.
        wakeups += joined
            .iter()
            .filter(|(start, _)| (began + 1..ended).contains(start))
            .count() as u64;
        all.extend(joined);
    }
    let (mut joint_ns, mut joint_times) = (0, 0);
    let mut asleep_since = began;
    for (start, end) in joined(all).into_iter().chain([(ended, ended)]) {
        let start = start.min(ended);
        if start > asleep_since {
            joint_ns += start - asleep_since;
            joint_times += 1;
        }
        asleep_since = asleep_since.max(end);
    }
    Sleep {
        wakeups,
        joint_ns,
        joint_times,
    }
}

/// Spans that meet as one, ascending.
fn joined(mut spans: Vec<Span>) -> Vec<Span> {
    spans.sort_unstable();
    let mut all: Vec<Span> = Vec::with_capacity(spans.len());
    for (start, end) in spans {
        match all.last_mut() {
            Some(last) if start <= last.1 => last.1 = last.1.max(end),
            _ => all.push((start, end)),
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MS: u64 = 1_000_000;
    const ALL: Span = (0, 1000 * MS);

    /// On `cpu` from `ms` on for 1 ms, for the sleep of `thread`.
    fn busy(cpu: u32, ms: u64, thread: u32) -> Busy {
        Busy {
            cpu,
            start_ns: ms * MS,
            end_ns: (ms + 1) * MS,
            roots: vec![Root {
                thread,
                by: By::SleepTimer { due_ns: ms * MS },
            }],
            woke: true,
        }
    }

    fn by(mut busy: Busy, by: By) -> Busy {
        busy.roots[0].by = by;
        busy
    }

    #[test]
    fn sleeps_wait_for_a_timer_of_their_cpu_or_for_the_first_that_must_end() {
        let all = [
            busy(0, 10, 1),
            busy(0, 20, 2),
            busy(0, 30, 3),
            busy(1, 40, 1),
        ];
        let was = recorded(&all, ALL);
        assert_eq!(
            was,
            Sleep {
                wakeups: 4,
                joint_ns: 996 * MS,
                joint_times: 5
            }
        );
        let background = |thread| thread < 3;
        let two = with_slack(&all, ALL, 50 * MS, background);
        // 3's timer at 30 ms ends those of 1 and 2 on CPU 0; on CPU 1 the limit does, at 90 ms.
        assert_eq!(
            two,
            Sleep {
                wakeups: 2,
                joint_ns: 996 * MS,
                joint_times: 3
            }
        );
        let device = [
            busy(0, 10, 1),
            busy(0, 20, 2),
            by(busy(0, 30, 3), By::Interrupt),
        ];
        assert_eq!(with_slack(&device, ALL, 50 * MS, background).wakeups, 2);
        // Without slack nothing changes.
        assert_eq!(with_slack(&all, ALL, 0, background), was);
        assert_eq!(with_slack(&all, ALL, 50 * MS, |_| false), was);
    }

    #[test]
    fn held_work_runs_beside_its_cpus_other_work_or_all_at_once() {
        let all = [
            by(busy(0, 10, 1), By::Timer),
            by(busy(1, 20, 2), By::Interrupt),
            by(busy(1, 30, 3), By::Interrupt),
            busy(1, 40, 2),
        ];
        let held = held(&all, ALL, 50 * MS, |thread| thread < 3);
        // CPU 1 runs 20 ms' beside 3's, and 40 ms' when that of CPU 0 must run, at 60 ms.
        assert_eq!(
            held,
            Sleep {
                wakeups: 3,
                joint_ns: 997 * MS,
                joint_times: 3
            }
        );
    }

    #[test]
    fn work_that_is_no_wake_up_of_its_own_stays() {
        let mut own = busy(0, 10, 1);
        own.roots.push(Root {
            thread: 9,
            by: By::Timer,
        });
        let kernel = Busy {
            roots: vec![],
            ..busy(0, 20, 1)
        };
        let before = Busy {
            woke: false,
            ..busy(0, 30, 1)
        };
        let all = [own, kernel, before];
        assert_eq!(
            with_slack(&all, ALL, 50 * MS, |thread| thread == 1),
            recorded(&all, ALL)
        );
    }

    proptest! {
        /// Waiting loses no work, and makes no wake-up.
        #[test]
        fn nothing_is_lost(starts in prop::collection::vec((0_u32..3, 1_u64..400, 0_u32..6), 1..60), slack in 0_u64..200) {
            let mut free = BTreeMap::new();
            let mut all = Vec::new();
            let mut sorted = starts;
            sorted.sort_by_key(|one| one.1);
            for (cpu, at, thread) in sorted {
                // A CPU sleeps before it wakes.
                let start = at.max(free.get(&cpu).copied().unwrap_or(0));
                free.insert(cpu, start + 2);
                all.push(busy(cpu, start, thread));
            }
            all.sort_by_key(|one| one.start_ns);
            let was = recorded(&all, ALL);
            let slept = |sleep: &Sleep| sleep.joint_ns;
            for now in [
                with_slack(&all, ALL, slack * MS, |thread| thread < 3),
                held(&all, ALL, slack * MS, |thread| thread < 3),
            ] {
                prop_assert!(now.wakeups <= was.wakeups, "{now:?} {was:?}");
                // The machine is busy at least as long as its busiest CPU was, and at most as long as all were.
                let all_ms: u64 = all.iter().map(Busy::length_ns).sum();
                prop_assert!(slept(&now) >= ALL.1 - all_ms, "{now:?}");
            }
        }
    }
}
