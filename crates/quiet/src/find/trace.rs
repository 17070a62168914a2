//! What the programs recorded, without BPF: tests make it up.

use std::collections::BTreeMap;

/// What happened on a CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// It enters an idle state that does not poll.
    Sleep,
    /// It leaves one.
    Wake,
    /// `thread` becomes runnable by the timer of its sleep or wait, due at `due_ns`, to be delayed by `slack_ns` at most.
    SleepTimer {
        /// The thread.
        thread: u32,
        /// CLOCK_MONOTONIC, ns.
        due_ns: u64,
        /// Its timer slack then, ns.
        slack_ns: u64,
    },
    /// By a timer to which timer slack does not apply.
    Timer {
        /// The thread.
        thread: u32,
    },
    /// By another interrupt, on an idle CPU.
    Interrupt {
        /// The thread.
        thread: u32,
    },
    /// By another thread, or by an interrupt while that ran.
    Task {
        /// The thread.
        thread: u32,
        /// The thread that ran.
        waker: u32,
    },
    /// The CPU's idle task is replaced by `thread`.
    Run {
        /// The thread.
        thread: u32,
    },
}

/// One event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// CLOCK_MONOTONIC, ns.
    pub time_ns: u64,
    /// The CPU that recorded it.
    pub cpu: u32,
    /// What happened.
    pub what: What,
}

/// All events of a time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Trace {
    /// CLOCK_MONOTONIC, ns. Earlier events tell only how a CPU was then.
    pub began_ns: u64,
    /// CLOCK_MONOTONIC, ns.
    pub ended_ns: u64,
    /// The CPUs that are online.
    pub cpus: Vec<u32>,
    /// In the order of their times.
    pub events: Vec<Event>,
}

/// Why a CPU was woken: a thread that became runnable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Root {
    /// The thread that became runnable, or, of [`By::Message`], that made one runnable for this CPU.
    pub thread: u32,
    /// By what.
    pub by: By,
}

/// What made it runnable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
    /// The timer of its sleep, due then.
    SleepTimer {
        /// CLOCK_MONOTONIC, ns.
        due_ns: u64,
    },
    /// Another timer.
    Timer,
    /// Another interrupt.
    Interrupt,
    /// Another CPU.
    Message,
}

/// A time between two sleeps of a CPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Busy {
    /// The CPU.
    pub cpu: u32,
    /// CLOCK_MONOTONIC, ns.
    pub start_ns: u64,
    /// CLOCK_MONOTONIC, ns.
    pub end_ns: u64,
    /// What would have woken it by itself, in order; empty if nobody became runnable: the kernel's own work, such as a
    /// tick.
    pub roots: Vec<Root>,
    /// It begins with a wake-up in this time, and not before it.
    pub woke: bool,
}

impl Trace {
    /// The times between sleeps, within this time, in the order of their starts.
    pub fn busy(&self) -> Vec<Busy> {
        let mut open: BTreeMap<u32, Busy> = BTreeMap::new();
        // Without an event a CPU was busy all the time.
        for &cpu in &self.cpus {
            open.insert(cpu, Busy::new(cpu, self.began_ns, false));
        }
        let woken = |event: &Event| {
            let start_ns = event.time_ns.max(self.began_ns);
            Busy::new(event.cpu, start_ns, event.time_ns >= self.began_ns)
        };
        let mut wakings: BTreeMap<u32, Root> = BTreeMap::new();
        let mut all = Vec::new();
        for event in &self.events {
            let within = event.time_ns >= self.began_ns;
            let cpu = event.cpu;
            let on = |thread, by| Root { thread, by };
            let root = match event.what {
                What::Sleep => {
                    if let Some(busy) = open.remove(&cpu).filter(|_| within) {
                        all.push(busy.until(event.time_ns));
                    }
                    continue;
                }
                What::Wake => {
                    // It may have taken the interrupt before.
                    open.entry(cpu).or_insert_with(|| woken(event));
                    continue;
                }
                What::SleepTimer { thread, due_ns, .. } => on(thread, By::SleepTimer { due_ns }),
                What::Timer { thread } => on(thread, By::Timer),
                What::Interrupt { thread } => on(thread, By::Interrupt),
                What::Task { thread, waker } => {
                    wakings.insert(thread, on(waker, By::Message));
                    continue;
                }
                What::Run { thread } => {
                    // Nothing on this CPU made it runnable, so that came from another one.
                    let message = wakings.get(&thread).copied();
                    if let (Some(root), Some(busy)) = (message, open.get_mut(&cpu))
                        && busy.roots.is_empty()
                    {
                        busy.roots.push(root);
                    }
                    continue;
                }
            };
            wakings.insert(
                root.thread,
                Root {
                    by: By::Message,
                    ..root
                },
            );
            let busy = open.entry(cpu).or_insert_with(|| woken(event));
            busy.roots.push(root);
        }
        all.extend(open.into_values().map(|busy| busy.until(self.ended_ns)));
        all.retain(|busy| busy.end_ns > busy.start_ns);
        all.sort_by_key(|busy| (busy.start_ns, busy.cpu));
        all
    }
}

impl Busy {
    fn new(cpu: u32, start_ns: u64, woke: bool) -> Self {
        Self {
            cpu,
            start_ns,
            end_ns: start_ns,
            roots: Vec::new(),
            woke,
        }
    }

    fn until(self, end_ns: u64) -> Self {
        Self { end_ns, ..self }
    }

    /// Its length, ns.
    pub fn length_ns(&self) -> u64 {
        self.end_ns - self.start_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn trace(events: &[(u64, u32, What)]) -> Trace {
        let event = |&(ms, cpu, what): &(u64, u32, What)| Event {
            time_ns: ms * MS,
            cpu,
            what,
        };
        Trace {
            began_ns: 100 * MS,
            ended_ns: 200 * MS,
            cpus: vec![0, 1],
            events: events.iter().map(event).collect(),
        }
    }

    fn short(busy: &Busy) -> (u32, u64, u64, Vec<u32>, bool) {
        let roots = busy.roots.iter().map(|root| root.thread).collect();
        (
            busy.cpu,
            busy.start_ns / MS,
            busy.end_ns / MS,
            roots,
            busy.woke,
        )
    }

    #[test]
    fn a_cpu_is_busy_between_sleeps_and_for_those_that_its_interrupts_and_others_made_runnable() {
        let due_ns = 119 * MS;
        let timer = What::SleepTimer {
            thread: 7,
            due_ns,
            slack_ns: 50_000,
        };
        let all = trace(&[
            (90, 0, What::Sleep),
            (91, 1, What::Sleep),
            (120, 0, timer),
            (121, 0, What::Wake),
            (121, 0, What::Run { thread: 7 }),
            (
                121,
                0,
                What::Task {
                    thread: 8,
                    waker: 7,
                },
            ),
            (122, 1, What::Wake),
            (122, 1, What::Run { thread: 8 }),
            (123, 1, What::Sleep),
            (124, 0, What::Timer { thread: 9 }),
            (125, 0, What::Sleep),
            (130, 1, What::Wake),
            (131, 1, What::Sleep),
        ])
        .busy();
        let found: Vec<_> = all.iter().map(short).collect();
        assert_eq!(
            found,
            [
                (0, 120, 125, vec![7, 9], true),
                (1, 122, 123, vec![7], true),
                (1, 130, 131, vec![], true),
            ]
        );
        assert_eq!(all[0].roots[0].by, By::SleepTimer { due_ns });
        assert_eq!(all[1].roots[0].by, By::Message);
    }

    #[test]
    fn what_a_cpu_did_at_the_ends_is_known_from_before_or_else_it_was_busy() {
        let all = trace(&[
            (95, 1, What::Wake),
            (110, 1, What::Sleep),
            (190, 1, What::Wake),
        ])
        .busy();
        let found: Vec<_> = all.iter().map(short).collect();
        assert_eq!(
            found,
            [
                (0, 100, 200, vec![], false),
                (1, 100, 110, vec![], false),
                (1, 190, 200, vec![], true),
            ]
        );
    }
}
