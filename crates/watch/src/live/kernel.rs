//! Loads the live view's BPF programs, and reads their data.

use std::collections::{BTreeMap, HashMap};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{Ordering, fence};

use libbpf_rs::skel::{OpenSkel, Skel, SkelBuilder};
use libbpf_rs::{MapCore, MapFlags};

use crate::Result;
use crate::live::latencies::Latencies;
use crate::live::seen::{Cause, Ended, Sample, Seen, SeenJoint, SeenState};
use crate::live::symbols::Symbols;
use reveille_kernel::bpf::{
    self as kernel, KernelBtf, Plain, RunTime, Shared, record, thread_name, word,
};
use reveille_kernel::now_ns;

mod skeleton {
    #![allow(clippy::all, non_camel_case_types, dead_code, unused_imports)]
    include!(concat!(env!("OUT_DIR"), "/live.skel.rs"));
}
use skeleton::{LiveSkel, LiveSkelBuilder, types};

/// As in `live.h`.
pub const MAX_STATES: usize = 10;
pub const MAX_COUNTERS: usize = 16;
const COUNTER_UNREADABLE: u64 = u64::MAX;

/// The size of the table of wakers: for the machine, plus for each CPU.
const WAKERS: u32 = 4096;
const WAKERS_PER_CPU: u32 = 64;

/// Tracepoints whose programs only name wakers.
const ONLY_FOR_WAKERS: [&str; 4] = [
    "timer_expire_entry",
    "csd_queue_cpu",
    "ipi_send_cpu",
    "ipi_send_cpumask",
];

/// Wakers per read.
const BATCH: u32 = 1024;

/// The programs' parameters, set before loading.
pub struct Setup<'a> {
    /// One more than the highest possible CPU number.
    pub cpus: u32,
    /// Bit N: state N polls.
    pub polling_states: u32,
    pub symbols: Option<&'a Symbols>,
    /// The highest number of counters of a CPU.
    pub counters: usize,
    /// Count and name wakers, beside latencies.
    pub wakers: bool,
    /// Count joint sleep, of the machine and of these packages.
    pub joints: Option<&'a Packages>,
    /// Opened counters: CPU, index among its counters, event.
    pub events: &'a [(u32, usize, OwnedFd)],
}

/// The packages of a machine, ascending, and the CPUs of each.
pub type Packages = BTreeMap<u32, Vec<u32>>;

/// The loaded and attached programs. Dropping it removes them; so does the end of the process.
pub struct Kernel {
    skel: LiveSkel<'static>,
    variables: Shared<types::bss>,
    cpus: Shared<types::cpu>,
    tallies: Shared<types::tally>,
    joints: Shared<types::joint>,
    /// How many joints there are.
    joint_count: usize,
    counters: usize,
    /// Wakers at the last read, by the bytes of their keys: their times, and joint sleeps of them.
    wakers: HashMap<Vec<u8>, (u64, u64)>,
    /// The kernel reports who sends interrupts to other CPUs.
    pub reports_senders: bool,
}

impl Kernel {
    /// [`crate::Error::Cannot`] if BTF, `power:cpu_idle` or the right to load BPF programs is missing.
    pub fn load(setup: &Setup<'_>) -> Result<Self> {
        let btf = KernelBtf::read()?;
        btf.require("power", "cpu_idle", "CONFIG_CPU_IDLE")?;
        let mut open = LiveSkelBuilder::default().open(kernel::storage())?;
        configure(&mut open, setup)?;
        let rodata = open.maps.rodata_data.as_deref_mut();
        rodata.expect("the object has settings").has_csd_queue_cpu =
            btf.tracepoint("csd_queue_cpu");
        kernel::choose(&mut open, &btf, |_, target| {
            setup.wakers || !ONLY_FOR_WAKERS.contains(&target)
        });
        let mut skel = open.load().map_err(kernel::cannot_load)?;
        for (cpu, place, event) in setup.events {
            let index = cpu * MAX_COUNTERS as u32 + *place as u32;
            skel.maps.counter_events.update(
                &index.to_ne_bytes(),
                &event.as_raw_fd().to_ne_bytes(),
                MapFlags::ANY,
            )?;
        }
        let cpus = Shared::of(&skel.maps.cpus, setup.cpus as usize)?;
        let tallies = Shared::of(&skel.maps.tallies, setup.cpus as usize * MAX_STATES)?;
        let variables = Shared::of(&skel.maps.bss, 1)?;
        let joint_count = setup.joints.map_or(0, |packages| 1 + packages.len());
        let joints = Shared::of(&skel.maps.joints, joint_count.max(1))?;
        for (index, numbers) in (1..).zip(setup.joints.into_iter().flat_map(BTreeMap::values)) {
            for &number in numbers {
                let place = cpus.at(number as usize);
                word!(place, types::cpu, package).store(index, Ordering::Relaxed);
            }
        }
        skel.attach().map_err(kernel::cannot_load)?;
        Ok(Self {
            skel,
            variables,
            cpus,
            tallies,
            joints,
            joint_count,
            counters: setup.counters,
            wakers: HashMap::new(),
            reports_senders: btf.tracepoint("ipi_send_cpu"),
        })
    }

    /// Makes every CPU read its counters at its next idle entry or tick.
    pub fn ask_for_counters(&self) {
        word!(self.variables.at(0), types::bss, refresh).fetch_add(1, Ordering::Relaxed);
    }

    /// Wake-ups whose waker did not fit into the table.
    pub fn unplaced(&self) -> u64 {
        word!(self.variables.at(0), types::bss, unplaced).load(Ordering::Relaxed)
    }

    /// Joint sleep so far: of the machine, then of each package. `online`: how many CPUs of each are online, from
    /// now on.
    pub fn together(&self, online: &[u32]) -> Vec<SeenJoint> {
        let count = self.joint_count.min(online.len());
        let together = (0..count).zip(online).map(|(index, &online)| {
            let place = self.joints.at(index);
            word!(place, types::joint, cpus).store(online, Ordering::Relaxed);
            let joint = place.read();
            let now = now_ns();
            let lasts = joint.asleep == joint.cpus && joint.since > joint.ended;
            let so_far = if lasts {
                now.saturating_sub(joint.since)
            } else {
                0
            };
            SeenJoint {
                at_ns: now,
                cpus: online,
                times: joint.times,
                time_ns: joint.time + so_far,
                ended_ns: joint.time,
                lengths: joint.lengths.to_vec(),
            }
        });
        together.collect()
    }

    /// A CPU's data so far.
    pub fn seen(&self, number: u32) -> Seen {
        let first = number as usize * MAX_STATES;
        let place = self.cpus.at(number as usize);
        let seq = word!(place, types::cpu, seq);
        // It is odd for less than a microsecond at a time, so few tries are enough.
        for _ in 0..1000 {
            let before = seq.load(Ordering::Acquire);
            let cpu = place.read();
            let tallies: Vec<_> = (first..first + MAX_STATES)
                .map(|index| self.tallies.at(index).read())
                .collect();
            fence(Ordering::Acquire);
            if before.is_multiple_of(2) && seq.load(Ordering::Relaxed) == before {
                return self.assemble(&cpu, &tallies);
            }
            std::hint::spin_loop();
        }
        self.assemble(&types::cpu::default(), &[])
    }

    fn assemble(&self, cpu: &types::cpu, tallies: &[types::tally]) -> Seen {
        let at_ns = now_ns();
        let mut states: Vec<SeenState> = tallies.iter().map(state).collect();
        if cpu.tbi > 0
            && let Some(state) = states.get_mut(cpu.state as usize)
        {
            // Not settled yet: it is current, or it has ended and no other has begun.
            let until = if cpu.tai > 0 { cpu.tai } else { at_ns };
            state.time_ns += until.saturating_sub(cpu.tbi);
        }
        let value = |&value: &u64| (value != COUNTER_UNREADABLE).then_some(value);
        Seen {
            at_ns,
            entries: cpu.period,
            wakeups: cpu.wakeups,
            by_timer: cpu.by_timer,
            latencies: cpu.latencies,
            states,
            sample: (cpu.sampled > 0).then(|| Sample {
                at_ns: cpu.sampled_at,
                values: cpu.counters[..self.counters].iter().map(value).collect(),
            }),
        }
    }

    /// The wakers since the last call.
    pub fn ended(&mut self) -> Result<Vec<Ended>> {
        let map = &self.skel.maps.wakers;
        let (mut ended, mut quiet) = (Vec::new(), Vec::new());
        for (key, value) in map.lookup_batch(BATCH, MapFlags::ANY, MapFlags::ANY)? {
            let (waker, woken) = (record::<types::waker>(&key), record::<types::woken>(&value));
            let now = (woken.times, woken.joint);
            let before = self.wakers.insert(key.clone(), now).unwrap_or_default();
            // Less than before: it was deleted, and came again.
            let (times, joint) = match woken.times.checked_sub(before.0) {
                Some(times) => (times, woken.joint.saturating_sub(before.1)),
                None => now,
            };
            match times {
                0 => quiet.push(key),
                times => ended.push(assemble_ended(&waker, &woken, times, joint)),
            }
        }
        // Threads come and go: quiet wakers make room for new ones.
        if self.wakers.len() * 2 > map.max_entries() as usize {
            for key in quiet {
                map.delete(&key)?;
                self.wakers.remove(&key);
            }
        }
        Ok(ended)
    }

    /// The programs' run time so far, if the kernel counts it.
    pub fn run_time(&self) -> Result<RunTime> {
        kernel::run_time_of_all(self.skel.object())
    }
}

fn configure(open: &mut skeleton::OpenLiveSkel<'_>, setup: &Setup<'_>) -> Result<()> {
    let address = |name: &str| setup.symbols.and_then(|symbols| symbols.address(name));
    let rodata = open.maps.rodata_data.as_deref_mut();
    let rodata = rodata.expect("the object has settings");
    rodata.pid_namespace = kernel::pid_namespace()?;
    rodata.polling_states = setup.polling_states;
    rodata.counters = setup.counters as u32;
    rodata.wakers_wanted = setup.wakers;
    rodata.joints_wanted = setup.joints.is_some();
    rodata.hrtimer_wakeup = address("hrtimer_wakeup").unwrap_or(0);
    rodata.posix_timer_fn = address("posix_timer_fn").unwrap_or(0);
    rodata.it_real_fn = address("it_real_fn").unwrap_or(0);
    // tick_nohz_handler since 6.10.
    let tick = address("tick_nohz_handler").or_else(|| address("tick_sched_timer"));
    rodata.tick = tick.unwrap_or(0);
    rodata.process_timeout = address("process_timeout").unwrap_or(0);
    rodata.delayed_work_timer_fn = address("delayed_work_timer_fn").unwrap_or(0);
    let maps = &mut open.maps;
    maps.cpus.set_max_entries(setup.cpus)?;
    maps.tallies
        .set_max_entries(setup.cpus * MAX_STATES as u32)?;
    let joints = setup.joints.map_or(1, |packages| 1 + packages.len());
    maps.joints.set_max_entries(joints as u32)?;
    maps.counter_events
        .set_max_entries(setup.cpus * MAX_COUNTERS as u32)?;
    maps.wakers
        .set_max_entries(WAKERS + setup.cpus * WAKERS_PER_CPU)?;
    Ok(())
}

fn state(tally: &types::tally) -> SeenState {
    SeenState {
        uses: tally.uses,
        stays_ns: tally.time,
        time_ns: tally.time,
        latencies: Latencies {
            count: tally.latency_count,
            sum_ns: tally.latency_sum,
            max_ns: tally.latency_max,
            buckets: match tally.latency_count {
                0 => Vec::new(),
                _ => tally.latencies.to_vec(),
            },
        },
    }
}

fn assemble_ended(waker: &types::waker, woken: &types::woken, times: u64, joint: u64) -> Ended {
    use types::cause;
    Ended {
        cpu: waker.cpu,
        cause: match waker.cause {
            cause::CAUSE_DEVICE => Cause::Device,
            cause::CAUSE_TIMER => Cause::Timer,
            cause::CAUSE_CALL_FUNCTION => Cause::CallFunction,
            cause::CAUSE_RESCHEDULE => Cause::Reschedule,
            cause::CAUSE_FLAG => Cause::Flag,
            cause::CAUSE_IRQ_WORK => Cause::IrqWork,
            _ => Cause::Other,
        },
        function: waker.function,
        irq: waker.irq,
        pid: if waker.pid > 0 { waker.pid } else { woken.pid },
        command: thread_name(&waker.command),
        times,
        joint,
    }
}

// SAFETY: integers, arrays and structs of them; the enum is a number in a struct.
unsafe impl Plain for types::cpu {}
// SAFETY: integers and an array of them.
unsafe impl Plain for types::tally {}
// SAFETY: as above.
unsafe impl Plain for types::joint {}
// SAFETY: as above; the enum is a number in a struct.
unsafe impl Plain for types::waker {}
// SAFETY: integers.
unsafe impl Plain for types::woken {}

#[cfg(test)]
mod tests {
    use nix::sched::{CpuSet, sched_setaffinity};
    use nix::unistd::Pid;
    use reveille_kernel::{Root, counters};

    use super::*;

    #[test]
    fn each_cpu_reads_its_own_counters_without_being_woken() {
        let discovered = counters::discover(&Root::default());
        let Some(tsc) = discovered.iter().find(|counter| counter.column == "tsc") else {
            return println!("skipped: sampling: this machine has no perf counter msr/tsc");
        };
        let events: Vec<_> = match tsc.open(0) {
            Ok(event) => vec![(0, 3, event)],
            Err(error) => return println!("skipped: sampling: {error}"),
        };
        let setup = Setup {
            cpus: 1,
            polling_states: 1,
            symbols: None,
            counters: MAX_COUNTERS,
            wakers: true,
            joints: None,
            events: &events,
        };
        let kernel = match Kernel::load(&setup) {
            Ok(kernel) => kernel,
            Err(error) => return println!("skipped: sampling: {error}"),
        };
        assert_eq!(kernel.seen(0).sample, None, "no sample was requested");
        // CPU 0 reads them when it next sleeps or ticks: this thread sleeps there repeatedly.
        let mut cpu_0 = CpuSet::new();
        cpu_0.set(0).unwrap();
        sched_setaffinity(Pid::from_raw(0), &cpu_0).unwrap();
        let sample_after = |last_ns: u64| {
            kernel.ask_for_counters();
            for _ in 0..10_000 {
                std::thread::sleep(std::time::Duration::from_millis(1));
                let sample = kernel.seen(0).sample;
                if sample.as_ref().is_some_and(|sample| sample.at_ns > last_ns) {
                    return sample;
                }
            }
            None
        };
        let first = sample_after(0).expect("CPU 0 has slept or ticked");
        let second = sample_after(first.at_ns).expect("CPU 0 has slept or ticked again");
        assert!(second.values[3] > first.values[3] && first.values[3].is_some());
        assert_eq!((first.values.len(), first.values[0]), (MAX_COUNTERS, None));
    }

    /// All sleep at once for at most as long as the CPU that sleeps least, and at least for what is left if the times
    /// awake never overlap; while one computes, never.
    #[test]
    fn joint_sleep_is_within_what_each_cpus_own_sleep_allows() {
        use std::time::{Duration, Instant};

        use crate::live::{joint, programs};

        let test = "joint_sleep_is_within_what_each_cpus_own_sleep_allows";
        let root = Root::default();
        let idle = reveille_kernel::Idle::read(&root).unwrap();
        let packages = joint::packages(&idle);
        let polling_states = idle.polling_states();
        let setup = Setup {
            cpus: programs::possible_cpus(&root, &idle),
            polling_states,
            symbols: None,
            counters: 0,
            wakers: true,
            joints: Some(&packages),
            events: &[],
        };
        let kernel = match Kernel::load(&setup) {
            Ok(kernel) => kernel,
            Err(error) => return println!("skipped: {test}: {error}"),
        };
        let online = joint::online(&idle);
        let cpus: Vec<u32> = idle
            .cpus
            .iter()
            .filter(|cpu| cpu.online)
            .map(|cpu| cpu.number)
            .collect();
        // Of each CPU, outside of states that poll.
        let slept_ns = |number: u32| {
            let states = kernel.seen(number).states;
            let sleeps = states
                .iter()
                .enumerate()
                .filter(|(index, _)| polling_states >> index & 1 == 0);
            sleeps.map(|(_, state)| state.time_ns).sum::<u64>()
        };
        reveille_kernel::affinity::visit(&cpus);
        let mut joint_ns = Vec::new();
        for computes in [false, true] {
            let before: Vec<u64> = cpus.iter().map(|&cpu| slept_ns(cpu)).collect();
            let start = kernel.together(&online);
            let end = Instant::now() + Duration::from_millis(600);
            while Instant::now() < end {
                match computes {
                    true => std::hint::spin_loop(),
                    false => std::thread::sleep(Duration::from_millis(3)),
                }
            }
            let after = kernel.together(&online);
            let slept: Vec<u64> = cpus
                .iter()
                .zip(&before)
                .map(|(&cpu, before)| slept_ns(cpu) - before)
                .collect();
            let whole_ns = after[0].at_ns - start[0].at_ns;
            let joint = after[0].time_ns - start[0].time_ns;
            // The readings are not at one instant.
            let slack_ns = whole_ns / 20;
            let awake: u64 = slept
                .iter()
                .map(|slept| whole_ns.saturating_sub(*slept))
                .sum();
            assert!(
                joint <= slept.iter().min().unwrap() + slack_ns,
                "{joint} {slept:?}"
            );
            assert!(
                joint + slack_ns >= whole_ns.saturating_sub(awake),
                "{joint} {slept:?} of {whole_ns}"
            );
            if let ([package], [_, of_package]) =
                (&packages.keys().collect::<Vec<_>>()[..], &after[..])
            {
                // The only package is the machine.
                let apart = after[0].times.abs_diff(of_package.times);
                assert!(apart < 4, "package {package}: {apart}");
            }
            joint_ns.push(joint);
        }
        assert!(
            joint_ns[1] < 30_000_000,
            "while a CPU computes: {joint_ns:?}"
        );
    }

    #[test]
    fn latencies_are_counted_without_wakers_too() {
        let test = "latencies_are_counted_without_wakers_too";
        // What joint sleep adds to a run is printed.
        let none = Packages::new();
        for joints in [None, Some(&none)] {
            latencies_are_counted(test, joints);
        }
    }

    fn latencies_are_counted(test: &str, joints: Option<&Packages>) {
        let setup = Setup {
            cpus: 1,
            polling_states: 1,
            symbols: None,
            counters: 0,
            wakers: false,
            joints,
            events: &[],
        };
        let kernel = match Kernel::load(&setup) {
            Ok(kernel) => kernel,
            Err(error) => return println!("skipped: {test}: {error}"),
        };
        let counting = kernel::Counting::start();
        let mut cpu_0 = CpuSet::new();
        cpu_0.set(0).unwrap();
        sched_setaffinity(Pid::from_raw(0), &cpu_0).unwrap();
        let before = kernel.run_time().unwrap();
        for _ in 0..2000 {
            std::thread::sleep(std::time::Duration::from_micros(500));
        }
        let (after, seen) = (kernel.run_time().unwrap(), kernel.seen(0));
        if let Some(nothing_ns) = counting.and_then(|counting| counting.of_nothing_ns().ok()) {
            let runs = after.runs - before.runs;
            let ns = after.own_ns_since(before, nothing_ns) / runs.max(1);
            println!(
                "{ns} ns a run, {runs} runs; {} wake-ups of CPU 0",
                seen.wakeups
            );
        }
        if seen.by_timer < 100 {
            return println!("skipped: {test}: CPU 0 is too busy");
        }

        assert!(seen.latencies > 0, "{seen:?}");
        assert!(kernel.unplaced() == 0, "wakers are not counted");
    }
}
