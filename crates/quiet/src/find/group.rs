//! From a trace to its result: who wakes CPUs, whether it may wait, and what that would save.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use reveille_figures::quantile::{MEDIAN, Share};
use reveille_kernel::timer_slack;
use serde::{Deserialize, Serialize};

use super::process::{Process, Reason};
use super::recorded::Recorded;
use super::trace::{self, What};
use super::what_if;

/// From this share of its wake-ups on at which it wakes others, a group is what those wait for.
const OTHERS_WAIT: f64 = 0.1;

/// Intervals of this share about the median make a period.
const QUARTILES: [Share; 2] = [Share(1, 4), Share(3, 4)];
const MOST_SPREAD: f64 = 0.25;

/// What others wait for, if the user names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Foreground {
    /// Every other process.
    Anybody,
    /// The processes of a cgroup and those below it, from the root of cgroup2 on.
    Cgroup(String),
}

impl Foreground {
    fn has(&self, process: &Process) -> bool {
        let Self::Cgroup(name) = self else {
            return false;
        };
        let below = |cgroup: &String| {
            let rest = cgroup.strip_prefix(name.trim_end_matches('/'));
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        process.cgroup.as_ref().is_some_and(below)
    }
}

/// How the machine slept, or would.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Slept {
    /// Wake-ups of all CPUs.
    pub wakeups_per_s: f64,
    /// All CPUs slept at once, of the time.
    pub joint_percent: f64,
    /// How often they did.
    pub joint_per_s: f64,
    /// How long they did at a time; `None` if they never did.
    pub joint_mean_ns: Option<f64>,
}

impl Slept {
    fn of(sleep: what_if::Sleep, elapsed_ns: u64) -> Self {
        let elapsed = elapsed_ns.max(1) as f64;
        let times = sleep.joint_times as f64;
        Self {
            wakeups_per_s: sleep.wakeups as f64 * 1e9 / elapsed,
            joint_percent: 100.0 * sleep.joint_ns as f64 / elapsed,
            joint_per_s: times * 1e9 / elapsed,
            joint_mean_ns: (times > 0.0).then(|| sleep.joint_ns as f64 / times),
        }
    }
}

/// The processes of one command in one cgroup.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Group {
    /// The processes' name; `nobody` for wake-ups with which no thread became runnable, such as ticks, and `others` for
    /// threads of other PID namespaces.
    pub command: String,
    /// From the root of cgroup2 on; `None` if unknown.
    pub cgroup: Option<String>,
    /// That were seen.
    pub processes: u64,
    /// CPUs' wake-ups for it, alone or with others.
    pub wakeups_per_s: f64,
    /// Between two timers of a thread, if it is regular; ns.
    pub period_ns: Option<u64>,
    /// The median timer slack of its sleeps, ns; `None` if it does not sleep.
    pub slack_ns: Option<u64>,
    /// Of its wake-ups by interrupts, those by the timer of a sleep, to which timer slack applies; `None` without any.
    pub by_sleep_percent: Option<f64>,
    /// It may be delayed.
    pub may_wait: bool,
    /// Why not.
    pub reason: Option<Reason>,
    /// Wake-ups that timer slack for it alone would save; `None` if it may not wait.
    pub slack_saves_per_s: Option<f64>,
    /// Wake-ups that holding it alone would save at most; `None` if it may not wait.
    pub holding_saves_per_s: Option<f64>,
}

/// Which processes are a group.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Key {
    name: String,
    cgroup: Option<String>,
    /// Kernel threads are one group each.
    kernel: bool,
}

fn key(process: &Process, foreground: &Foreground) -> Key {
    // All of the foreground is one.
    let whole = foreground.has(process);
    Key {
        name: match process.reason {
            _ if whole => String::new(),
            // kworker/0:1 and others of its kind.
            Some(Reason::Kernel) => process
                .name
                .split(['/', ':'])
                .next()
                .unwrap_or_default()
                .to_owned(),
            _ => process.name.clone(),
        },
        cgroup: match foreground {
            Foreground::Cgroup(name) if whole => Some(name.clone()),
            _ => process.cgroup.clone(),
        },
        kernel: process.reason == Some(Reason::Kernel),
    }
}

/// What a trace tells of the groups, the busiest first, and of the machine: as it was, with slack for all that may wait,
/// and with all of that held.
pub(super) struct Told {
    pub groups: Vec<Group>,
    pub recorded: Slept,
    pub with_slack: Slept,
    pub held: Slept,
}

/// Takes a recording apart.
pub(super) fn tell(recorded: &Recorded, foreground: &Foreground, within_ns: u64) -> Told {
    let trace = &recorded.trace;
    let busy = trace.busy();
    let span = (trace.began_ns, trace.ended_ns);
    let elapsed_ns = span.1 - span.0;
    let mut keys: BTreeSet<Key> = BTreeSet::new();
    for process in recorded.threads.values() {
        keys.insert(key(process, foreground));
    }
    let keys: Vec<Key> = keys.into_iter().collect();
    let place = |process: &Process| keys.binary_search(&key(process, foreground)).ok();
    let of_thread: HashMap<u32, usize> = recorded
        .threads
        .iter()
        .filter_map(|(thread, process)| Some((*thread, place(process)?)))
        .collect();
    let mut parts: Vec<Parts> = keys.iter().map(|_| Parts::default()).collect();
    for process in recorded.threads.values() {
        let parts = &mut parts[of(place(process))];
        parts.processes.insert(process.number);
        let reason = match foreground.has(process) {
            true => Some(Reason::Foreground),
            false => process.reason.clone(),
        };
        parts.reason = parts.reason.take().or(reason);
    }
    let (mut nobody, mut elsewhere) = (0, 0);
    for one in busy.iter().filter(|one| one.woke) {
        nobody += u64::from(one.roots.is_empty());
        let is_known = |root: &trace::Root| of_thread.contains_key(&root.thread);
        elsewhere += u64::from(!one.roots.iter().all(is_known));
        let groups: BTreeSet<usize> = one
            .roots
            .iter()
            .filter_map(|root| of_thread.get(&root.thread).copied())
            .collect();
        for group in &groups {
            parts[*group].wakeups += 1;
        }
    }
    count_events(recorded, &of_thread, &mut parts);
    let names: Vec<String> = keys.iter().map(name_of).collect();
    let is_foreground: Vec<bool> = parts
        .iter()
        .map(|parts| parts.reason == Some(Reason::Foreground))
        .collect();
    for (group, parts) in parts.iter_mut().enumerate() {
        if MEDIAN
            .of(&parts.slacks)
            .is_some_and(|slack| slack != timer_slack::DEFAULT_NS)
        {
            parts.reason.get_or_insert(Reason::OwnSlack);
        }
        let waits = |other: usize| match foreground {
            Foreground::Anybody => !keys[other].kernel,
            Foreground::Cgroup(_) => is_foreground[other],
        };
        // Those of one cgroup wait together; the root has whatever is in no other.
        let apart = |other: usize| {
            let cgroup = keys[group].cgroup.as_deref().filter(|name| *name != "/");
            cgroup.is_none() || keys[other].cgroup.as_deref() != cgroup
        };
        let wakes = parts.wakes.iter();
        let wakes = wakes.filter(|(other, _)| waits(**other) && apart(**other));
        let most = wakes.clone().max_by_key(|(_, times)| **times);
        let times: u64 = wakes.map(|(_, times)| times).sum();
        if let Some((other, _)) = most
            && times as f64 >= OTHERS_WAIT * parts.runs as f64
        {
            parts
                .reason
                .get_or_insert(Reason::Wakes(names[*other].clone()));
        }
    }
    let slept = |sleep: what_if::Sleep| Slept::of(sleep, elapsed_ns);
    let was = what_if::recorded(&busy, span);
    let all = |thread: u32| {
        of_thread
            .get(&thread)
            .is_some_and(|group| parts[*group].reason.is_none())
    };
    let told = Told {
        recorded: slept(was),
        with_slack: slept(what_if::with_slack(&busy, span, within_ns, all)),
        held: slept(what_if::held(&busy, span, within_ns, all)),
        groups: Vec::new(),
    };
    let mut groups = Vec::new();
    for (group, parts) in parts.iter().enumerate() {
        if parts.wakeups == 0 {
            continue;
        }
        let only = |thread: u32| of_thread.get(&thread) == Some(&group);
        let saves = |sleep: what_if::Sleep| {
            per_second(was.wakeups.saturating_sub(sleep.wakeups), elapsed_ns)
        };
        let may_wait = parts.reason.is_none();
        groups.push(Group {
            command: match is_foreground[group] {
                true => "foreground".to_owned(),
                false => keys[group].name.clone(),
            },
            cgroup: keys[group].cgroup.clone(),
            processes: parts.processes.len() as u64,
            wakeups_per_s: per_second(parts.wakeups, elapsed_ns),
            period_ns: period(parts),
            slack_ns: MEDIAN.of(&parts.slacks),
            by_sleep_percent: (parts.runs > 0)
                .then(|| 100.0 * parts.sleeps as f64 / parts.runs as f64),
            may_wait,
            reason: parts.reason.clone(),
            slack_saves_per_s: may_wait
                .then(|| saves(what_if::with_slack(&busy, span, within_ns, only))),
            holding_saves_per_s: may_wait
                .then(|| saves(what_if::held(&busy, span, within_ns, only))),
        });
    }
    let unknown = [
        ("nobody", nobody, Reason::Kernel),
        ("others", elsewhere, Reason::Elsewhere),
    ];
    for (command, wakeups, reason) in unknown {
        if wakeups > 0 {
            groups.push(Group {
                command: command.to_owned(),
                cgroup: None,
                processes: 0,
                wakeups_per_s: per_second(wakeups, elapsed_ns),
                period_ns: None,
                slack_ns: None,
                by_sleep_percent: None,
                may_wait: false,
                reason: Some(reason),
                slack_saves_per_s: None,
                holding_saves_per_s: None,
            });
        }
    }
    groups.sort_by(|a, b| {
        b.wakeups_per_s
            .total_cmp(&a.wakeups_per_s)
            .then_with(|| a.command.cmp(&b.command))
    });
    Told { groups, ..told }
}

fn of(place: Option<usize>) -> usize {
    place.expect("each process has a key")
}

fn name_of(key: &Key) -> String {
    match key.name.as_str() {
        "" => "the foreground".to_owned(),
        name => name.to_owned(),
    }
}

fn per_second(count: u64, elapsed_ns: u64) -> f64 {
    count as f64 * 1e9 / elapsed_ns.max(1) as f64
}

/// What is counted of a group.
#[derive(Default)]
struct Parts {
    processes: BTreeSet<u32>,
    reason: Option<Reason>,
    /// Times at which a CPU woke for it.
    wakeups: u64,
    /// Times at which one of its threads became runnable by a timer or another interrupt; those by the timer of a sleep.
    runs: u64,
    sleeps: u64,
    /// How often one of its threads made one of another group runnable.
    wakes: BTreeMap<usize, u64>,
    /// Between two wake-ups of a thread by a timer, ns.
    intervals: Vec<u64>,
    slacks: Vec<u64>,
}

fn count_events(recorded: &Recorded, of_thread: &HashMap<u32, usize>, parts: &mut [Parts]) {
    let mut last: HashMap<u32, u64> = HashMap::new();
    let within = |event: &&trace::Event| event.time_ns >= recorded.trace.began_ns;
    for event in recorded.trace.events.iter().filter(within) {
        let (thread, timer) = match event.what {
            What::SleepTimer { thread, .. } | What::Timer { thread } => (thread, true),
            What::Interrupt { thread } => (thread, false),
            What::Task { thread, waker } => {
                if let (Some(&to), Some(&from)) = (of_thread.get(&thread), of_thread.get(&waker))
                    && to != from
                {
                    *parts[from].wakes.entry(to).or_default() += 1;
                }
                continue;
            }
            _ => continue,
        };
        let Some(&group) = of_thread.get(&thread) else {
            continue;
        };
        let parts = &mut parts[group];
        parts.runs += 1;
        if let What::SleepTimer { slack_ns, .. } = event.what {
            parts.sleeps += 1;
            parts.slacks.push(slack_ns);
        }
        if timer && let Some(before) = last.insert(thread, event.time_ns) {
            parts.intervals.push(event.time_ns - before);
        }
    }
    for parts in parts {
        parts.intervals.sort_unstable();
        parts.slacks.sort_unstable();
    }
}

/// The median interval, if half of all are near it.
fn period(parts: &Parts) -> Option<u64> {
    let median = MEDIAN.carried(&parts.intervals)?;
    let [low, high] = QUARTILES.map(|share| share.of(&parts.intervals));
    let near = (high? - low?) as f64 <= 2.0 * MOST_SPREAD * median as f64;
    near.then_some(median)
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::recorded::Stopped;
    use super::super::trace::{Event, Trace};
    use super::*;

    const MS: u64 = 1_000_000;

    fn process(number: u32, name: &str, cgroup: &str) -> Process {
        Process {
            number,
            name: name.to_owned(),
            cgroup: Some(cgroup.to_owned()),
            reason: None,
        }
    }

    /// Two loops of 20 ms in /bg, a player at real-time priority, and a server that 4 wakes at each of its wake-ups.
    pub fn recorded() -> Recorded {
        let asleep = |cpu| Event {
            time_ns: 0,
            cpu,
            what: What::Sleep,
        };
        let mut events = vec![asleep(0), asleep(1)];
        let mut wake = |ms: u64, cpu: u32, thread: u32, wakes: Option<u32>| {
            let mut add = |us: u64, what| {
                events.push(Event {
                    time_ns: ms * MS + us * 1000,
                    cpu,
                    what,
                });
            };
            let (due_ns, slack_ns) = (ms * MS, 50_000);
            add(
                0,
                What::SleepTimer {
                    thread,
                    due_ns,
                    slack_ns,
                },
            );
            add(1, What::Wake);
            add(2, What::Run { thread });
            if let Some(woken) = wakes {
                add(
                    3,
                    What::Task {
                        thread: woken,
                        waker: thread,
                    },
                );
            }
            add(500, What::Sleep);
        };
        for round in 0..50 {
            let at = 20 * round;
            wake(at + 2, 0, 1, None);
            wake(at + 5, 0, 2, None);
            wake(at + 8, 1, 3, None);
            wake(at + 12, 1, 4, Some(5));
        }
        let mut player = process(30, "player", "/user");
        player.reason = Some(Reason::RealTime);
        let threads = [
            (1, process(10, "loop", "/bg")),
            (2, process(20, "loop", "/bg")),
            (3, player),
            (4, process(40, "helper", "/helpers")),
            (5, process(50, "server", "/web/server")),
        ];
        Recorded {
            trace: Trace {
                began_ns: 0,
                ended_ns: 1000 * MS,
                cpus: vec![0, 1],
                events,
            },
            threads: threads.into(),
            lost: 0,
            stopped: Stopped::Completed,
        }
    }

    #[test]
    fn groups_are_counted_and_those_that_others_wait_for_do_not_wait() {
        let told = tell(&recorded(), &Foreground::Anybody, 100 * MS);
        let found: Vec<_> = told
            .groups
            .iter()
            .map(|group| {
                (
                    group.command.as_str(),
                    group.wakeups_per_s,
                    group.reason.clone(),
                )
            })
            .collect();
        assert_eq!(
            found,
            [
                ("loop", 100.0, None),
                ("helper", 50.0, Some(Reason::Wakes("server".to_owned()))),
                ("player", 50.0, Some(Reason::RealTime)),
            ]
        );
        let loops = &told.groups[0];
        assert_eq!((loops.processes, loops.period_ns), (2, Some(20 * MS)));
        assert_eq!(
            (loops.slack_ns, loops.by_sleep_percent),
            (Some(50_000), Some(100.0))
        );
        // Each runs ten times in 200 ms, at one wake-up in 100 ms.
        assert_eq!(told.recorded.wakeups_per_s, 200.0);
        assert!(
            (told.with_slack.wakeups_per_s - 110.0).abs() <= 1.0,
            "{:?}",
            told.with_slack
        );
        assert!(
            loops
                .slack_saves_per_s
                .is_some_and(|saved| (saved - 90.0).abs() <= 1.0)
        );
        assert_eq!(told.groups[2].slack_saves_per_s, None);
    }

    #[test]
    fn with_a_foreground_only_what_that_waits_for_does_not_wait() {
        let of = |name: &str| {
            let told = tell(&recorded(), &Foreground::Cgroup(name.to_owned()), 100 * MS);
            let names = ["helper", "foreground"];
            let mut all = told.groups.iter().rev();
            let helper = all.find(|group| names.contains(&group.command.as_str()));
            helper.and_then(|helper| helper.reason.clone())
        };
        assert_eq!(of("/web"), Some(Reason::Wakes("the foreground".to_owned())));
        assert_eq!(of("/we"), None);
        assert_eq!(of("/helpers"), Some(Reason::Foreground));
    }
}
