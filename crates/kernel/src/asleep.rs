//! How long a CPU was asleep, by the kernel's counts.
//!
//! There are two counts, and each counts some time awake as sleep. cpuidle counts from before a CPU
//! enters an idle state to after it has left it, and where the interrupt that ends a halt is served
//! inside (`arch_cpu_idle`), what the interrupt does is counted as sleep, too: an engine that keeps
//! a CPU awake in a timer's interrupt would look free. The scheduler's idle time (`idle_sleeptime`
//! and `iowait_sleeptime`; the fourth and fifth number of /proc/stat) stops at each interrupt, but
//! goes on while the idle task polls, or does anything else before it sleeps. So the lesser of the
//! two is taken.

use std::collections::BTreeMap;
use std::time::Instant;

use crate::{Idle, Root, affinity, limits, load};

/// Where the counts of one CPU are.
#[derive(Debug, Clone)]
pub struct Counts {
    root: Root,
    cpu: u32,
    /// The files of the times in states in which it sleeps; empty without cpuidle.
    states: Vec<String>,
}

impl Counts {
    /// Those of `cpu`.
    pub fn of(root: &Root, idle: &Idle, cpu: u32) -> Self {
        let states = idle.cpu(cpu).map_or(&[][..], |cpu| &cpu.states);
        let sleeps = states
            .iter()
            .filter(|state| limits::poll(std::slice::from_ref(state)).is_none());
        let file =
            |index: u32| format!("sys/devices/system/cpu/cpu{cpu}/cpuidle/state{index}/time");
        Self {
            root: root.clone(),
            cpu,
            states: sleeps.map(|state| file(state.index)).collect(),
        }
    }

    /// The counts, complete where the CPU is awake while they are read.
    pub fn read(&self) -> Reading {
        self.read_beside(&Scheduler::read(&self.root))
    }

    fn read_beside(&self, scheduler: &Scheduler) -> Reading {
        Reading {
            by_states_ns: self.by_states_ns(),
            by_scheduler_ns: scheduler.idle_ns(self.cpu),
        }
    }

    /// cpuidle's count alone, ns: one short file for each idle state, so it costs the reader little. `None`
    /// without cpuidle.
    pub fn by_states_ns(&self) -> Option<u64> {
        if self.states.is_empty() {
            return None;
        }
        let us: Option<u64> = self.states.iter().map(|file| self.root.number(file)).sum();
        Some(us?.saturating_mul(1000))
    }
}

/// The scheduler's counts of all CPUs.
struct Scheduler {
    /// ns: root's.
    exact: BTreeMap<u32, u64>,
    /// For the others.
    ticks: BTreeMap<u32, u64>,
    /// ns in a tick.
    tick_ns: u64,
}

impl Scheduler {
    fn read(root: &Root) -> Self {
        let exact = root.text("proc/timer_list");
        let exact = exact.map_or_else(BTreeMap::new, |list| sleep_times_ns(&list));
        let ticks = match exact.is_empty() {
            true => load::idle_ticks(root),
            false => None,
        };
        let per_s = nix::unistd::sysconf(nix::unistd::SysconfVar::CLK_TCK);
        let per_s = per_s.ok().flatten().unwrap_or(100).max(1) as u64;
        Self {
            exact,
            ticks: ticks.unwrap_or_default(),
            tick_ns: 1_000_000_000 / per_s,
        }
    }

    fn idle_ns(&self, cpu: u32) -> Option<u64> {
        let ticks = || Some(self.ticks.get(&cpu)?.saturating_mul(self.tick_ns));
        self.exact.get(&cpu).copied().or_else(ticks)
    }
}

/// The counts at one instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reading {
    by_states_ns: Option<u64>,
    by_scheduler_ns: Option<u64>,
}

impl Reading {
    /// How long the CPU was asleep from an earlier reading to this one, ns; `None` where nothing is
    /// counted.
    pub fn since(&self, before: &Self) -> Option<u64> {
        let grown = |before: Option<u64>, after: Option<u64>| after?.checked_sub(before?);
        let counts = [
            grown(before.by_states_ns, self.by_states_ns),
            grown(before.by_scheduler_ns, self.by_scheduler_ns),
        ];
        counts.into_iter().flatten().min()
    }
}

/// The counts of all CPUs that are online.
#[derive(Debug, Clone)]
pub struct Cpus {
    root: Root,
    numbers: Vec<u32>,
    counts: Vec<Counts>,
}

/// The counts of several CPUs at one instant.
#[derive(Debug, Clone)]
pub struct Readings {
    at: Instant,
    /// The list of those that are.
    online: Option<String>,
    each: Vec<Reading>,
}

impl Cpus {
    /// Of the CPUs that are online.
    pub fn online(root: &Root, idle: &Idle) -> Self {
        let online = idle.cpus.iter().filter(|cpu| cpu.online);
        let numbers: Vec<u32> = online.map(|cpu| cpu.number).collect();
        let counts = numbers.iter().map(|&cpu| Counts::of(root, idle, cpu));
        Self {
            root: root.clone(),
            counts: counts.collect(),
            numbers,
        }
    }

    /// Their numbers.
    pub fn numbers(&self) -> &[u32] {
        &self.numbers
    }

    /// The counts, after a visit to every CPU that this process may use: a stay is counted when it ends.
    pub fn read(&self) -> Readings {
        affinity::visit(&self.numbers);
        let scheduler = Scheduler::read(&self.root);
        let each = self.counts.iter();
        Readings {
            at: Instant::now(),
            online: self.root.line("sys/devices/system/cpu/online"),
            each: each.map(|one| one.read_beside(&scheduler)).collect(),
        }
    }
}

impl Readings {
    /// From an earlier reading to this one, s.
    pub fn elapsed_s(&self, before: &Self) -> f64 {
        self.at.duration_since(before.at).as_secs_f64()
    }

    /// The share of that time that each CPU was asleep; `None` where that is not counted.
    pub fn shares(&self, before: &Self) -> Vec<Option<f64>> {
        let elapsed_s = self.elapsed_s(before);
        let both = before.each.iter().zip(&self.each);
        let share = both.map(|(before, after)| {
            let share = after.since(before)? as f64 / 1e9 / elapsed_s;
            Some(share.clamp(0.0, 1.0))
        });
        share.collect()
    }

    /// How long all CPUs slept at once at least and at most in that time, per cent; `None` where one is not counted, or
    /// came or went.
    pub fn together_percent(&self, before: &Self) -> Option<(f64, f64)> {
        let shares: Option<Vec<f64>> = self.shares(before).into_iter().collect();
        let shares = shares.filter(|shares| !shares.is_empty() && self.online == before.online);
        Some(together_percent(&shares?))
    }
}

/// The time in which all CPUs slept at once, since a counting began.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Together {
    /// CLOCK_MONOTONIC, ns.
    pub at_ns: u64,
    /// All slept, the present time included, ns.
    pub asleep_ns: u64,
    /// The times that are over.
    pub times: u64,
    /// Their sum, ns.
    pub ended_ns: u64,
    /// How many of them each waker ended, by its name.
    pub ended_by: BTreeMap<String, u64>,
}

/// How long all slept at once at least and at most, per cent, by each one's share.
fn together_percent(slept: &[f64]) -> (f64, f64) {
    let awake: f64 = slept.iter().map(|share| 1.0 - share).sum();
    let most = slept.iter().copied().fold(1.0, f64::min);
    (100.0 * (1.0 - awake).max(0.0), 100.0 * most)
}

/// `idle_sleeptime` and `iowait_sleeptime` together, ns, of each CPU in a /proc/timer_list text.
fn sleep_times_ns(list: &str) -> BTreeMap<u32, u64> {
    let (mut times, mut cpu) = (BTreeMap::new(), None);
    for line in list.lines() {
        if let Some(number) = line.strip_prefix("cpu: ") {
            cpu = number.parse().ok();
        }
        let ns = |name: &str| {
            let value = line.trim().strip_prefix(name)?.trim_start();
            let value = value.strip_prefix(':')?.trim();
            value.strip_suffix(" nsecs")?.parse::<u64>().ok()
        };
        let Some(cpu) = cpu else { continue };
        if let Some(idle) = ns(".idle_sleeptime") {
            times.insert(cpu, idle);
        }
        // It comes after the other.
        if let (Some(waited), Some(time)) = (ns(".iowait_sleeptime"), times.get_mut(&cpu)) {
            *time += waited;
        }
    }
    times
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::Duration;

    use super::*;

    const LIST: &str = "Timer List Version: v0.10\n\ncpu: 0\n clock 0:\n  .idle_sleeptime : 5 nsecs\n  \
                        .iowait_sleeptime: 7 nsecs\n\ncpu: 1\n  .idle_sleeptime : 100 nsecs\n\
                        cpu: 11\n  .idle_sleeptime : x nsecs\n\nTick Device: mode:     1\n";

    #[test]
    fn joint_sleep_has_bounds_by_each_cpus_sleep() {
        assert_eq!(together_percent(&[1.0, 1.0]), (100.0, 100.0));
        assert_eq!(together_percent(&[0.75, 0.5]), (25.0, 50.0));
        assert_eq!(together_percent(&[1.0, 0.0]), (0.0, 0.0));
        assert_eq!(together_percent(&[0.5, 0.5, 0.5]), (0.0, 50.0));
    }

    #[test]
    fn scheduler_times_are_read_for_each_cpu_that_has_them() {
        assert_eq!(sleep_times_ns(LIST), [(0, 12), (1, 100)].into());
    }

    /// A machine with one CPU, POLL and C1, and these counts.
    fn machine(poll_us: u64, c1_us: u64, ticks: u64, list: Option<&str>) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let cpus = folder.path().join("sys/devices/system/cpu");
        for (index, name, us) in [(0, "POLL", poll_us), (1, "C1", c1_us)] {
            let state = cpus.join(format!("cpu0/cpuidle/state{index}"));
            fs::create_dir_all(&state).unwrap();
            fs::write(state.join("name"), name).unwrap();
            fs::write(state.join("time"), us.to_string()).unwrap();
        }
        fs::write(cpus.join("present"), "0").unwrap();
        fs::write(cpus.join("online"), "0").unwrap();
        fs::create_dir_all(folder.path().join("proc")).unwrap();
        let stat = format!("cpu 0\ncpu0 1 2 3 {ticks} 0\n");
        fs::write(folder.path().join("proc/stat"), stat).unwrap();
        if let Some(list) = list {
            fs::write(folder.path().join("proc/timer_list"), list).unwrap();
        }
        folder
    }

    fn read(folder: &tempfile::TempDir) -> Reading {
        let root = Root::at(folder.path());
        Counts::of(&root, &Idle::read(&root).unwrap(), 0).read()
    }

    #[test]
    fn the_lower_sleep_count_is_used_and_polling_is_not_sleep() {
        let before = read(&machine(0, 0, 0, None));
        let spun = read(&machine(0, 500, 0, None));
        assert_eq!(spun.since(&before), Some(0));
        let polled = read(&machine(900, 0, 100, None));
        assert_eq!(polled.since(&before), Some(0));
        let slept = read(&machine(0, 20_000, 1, None));
        assert_eq!(slept.since(&before), Some(10_000_000));
        assert_eq!(before.since(&slept), None);
    }

    #[test]
    fn several_cpus_are_counted_if_all_are_and_none_comes_or_goes() {
        let reading = |ns: u64| Reading {
            by_states_ns: Some(ns),
            by_scheduler_ns: None,
        };
        let begin = Instant::now();
        let at = |s: u64, each: &[Reading]| Readings {
            at: begin + Duration::from_secs(s),
            online: Some("0-1".into()),
            each: each.to_vec(),
        };
        let s = 1_000_000_000;
        let (before, after) = (
            at(0, &[reading(0), reading(s)]),
            at(4, &[reading(3 * s), reading(9 * s)]),
        );
        // A count cannot be of more than the time.
        assert_eq!(after.shares(&before), [Some(0.75), Some(1.0)]);
        assert_eq!(after.together_percent(&before), Some((75.0, 75.0)));
        let mut fewer = after.clone();
        fewer.online = Some("0".into());
        assert_eq!(fewer.together_percent(&before), None);
        // It was reset.
        let mut reset = after.clone();
        reset.each[1] = reading(0);
        assert_eq!(reset.shares(&before), [Some(0.75), None]);
        assert_eq!(reset.together_percent(&before), None);
        assert_eq!(at(4, &[]).together_percent(&at(0, &[])), None);
    }

    #[test]
    fn exact_time_is_preferred_to_ticks() {
        let exact = read(&machine(0, 500, 9, Some(LIST)));
        assert_eq!(exact.by_scheduler_ns, Some(12));
    }
}
