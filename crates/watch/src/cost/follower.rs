//! Loads the BPF programs with the features that this kernel has, and reads their tables.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::io::Read;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use libbpf_rs::skel::{OpenSkel, Skel, SkelBuilder};
use libbpf_rs::{Iter, MapCore, MapFlags, MapHandle};
use reveille_kernel::Idle;
use reveille_kernel::workload::Workload;

use super::Depth;
use super::account::Account;
use super::depth::PLACES;
use super::distribution::BUCKETS;
use super::result::{Missed, Thread, Waited};
use super::tallies::{Cause, Pair, PairSums, StackSums, Tallies, Totals, WaitSums};
use crate::{Error, Result};
use reveille_kernel::bpf::{self as kernel, KernelBtf, Plain, Shared, record, thread_name, word};

mod skeleton {
    #![allow(clippy::all, non_camel_case_types, dead_code, unused_imports)]
    include!(concat!(env!("OUT_DIR"), "/cost.skel.rs"));
}
use skeleton::{CostSkel, CostSkelBuilder, types};

/// STATES, POLLING and CAUSE_SHIFT of cost.h: BTF carries no macros.
const STATES: u32 = 16;
const POLLING: u32 = 0x80;
const CAUSE_SHIFT: u32 = 24;

/// The size of the table of stacks; stacks beyond it are counted.
const MOST_STACKS: u32 = 16384;

/// The required tracepoints: group, name, the kernel's option.
const NEEDED: [(&str, &str, &str); 4] = [
    ("sched", "sched_waking", "CONFIG_TRACEPOINTS"),
    ("sched", "sched_wakeup", "CONFIG_TRACEPOINTS"),
    ("sched", "sched_switch", "CONFIG_TRACEPOINTS"),
    ("power", "cpu_idle", "CONFIG_CPU_IDLE"),
];

/// The loaded and attached programs. Dropping it removes them; so does any end of the process.
pub struct Follower {
    skel: CostSkel<'static>,
    variables: Shared<types::bss>,
    depth: Depth,
    sees_sending: bool,
    /// `None` once it is closed.
    account: Cell<Option<Account>>,
    began: Instant,
    issued_before: u64,
}

impl Follower {
    /// Starts following. `stacks`: also record the wakers' stacks, which costs 1 µs or more per wake-up.
    /// [`Error::Cannot`] if BTF, a tracepoint or the right to load BPF programs is missing.
    pub fn start(idle: &Idle, workload: &Workload, stacks: bool) -> Result<Self> {
        let btf = KernelBtf::read()?;
        for (group, name, option) in NEEDED {
            btf.require(group, name, option)?;
        }
        let depth = Depth::of(idle);
        let cpus = libbpf_rs::num_possible_cpus()? as u32;
        // Before 5.18 sched_switch lacks the previous task's state; the verifier refuses to read it.
        let load = |has_prev_state| load(&btf, cpus, workload, stacks, has_prev_state);
        let mut skel = load(true).or_else(|_| load(false))?;
        set_places(&skel, &depth, cpus)?;
        skel.attach().map_err(kernel::cannot_load)?;
        let variables = Shared::of(&skel.maps.bss, 1)?;
        let mut follower = Self {
            skel,
            variables,
            depth,
            sees_sending: btf.tracepoint("ipi_send_cpu"),
            account: Cell::new(None),
            began: Instant::now(),
            issued_before: 0,
        };
        follower.follow_present()?;
        let cpus = MapHandle::try_from(&follower.skel.maps.cpus)?;
        follower.issued_before = issued(&cpus)?;
        follower.account = Cell::new(Account::open(
            follower.skel.object(),
            Box::new(move || issued(&cpus)),
        )?);
        follower.began = Instant::now();
        follower.count(true);
        Ok(follower)
    }

    /// Stops following and returns the sums.
    pub fn finish(&self) -> Result<Tallies> {
        self.count(false);
        let elapsed = self.began.elapsed();
        let counted = self.account.take().map(Account::close).transpose()?;
        let issued = issued(&MapHandle::try_from(&self.skel.maps.cpus)?)?;
        Ok(Tallies {
            elapsed,
            depth: self.depth.clone(),
            totals: self.totals()?,
            waits: self.waits()?,
            distributions: self.distributions()?,
            pairs: self.pairs()?,
            issued: issued.saturating_sub(self.issued_before),
            counted,
            sees_sending: self.sees_sending,
        })
    }

    /// The time since the start.
    pub fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// The processes with stacks so far; their memory maps must be read while they live.
    pub fn stack_processes(&self) -> Result<Vec<u32>> {
        let mut processes = Vec::new();
        for key in self.skel.maps.stack_waits.keys() {
            processes.push(record::<types::stack_key>(&key).process);
        }
        processes.sort_unstable();
        processes.dedup();
        Ok(processes)
    }

    /// The wakers' stacks, longest waits first.
    pub fn stacks(&self) -> Result<Vec<StackSums>> {
        let mut all = Vec::new();
        for key in self.skel.maps.stack_waits.keys() {
            let Some(value) = self.skel.maps.stack_waits.lookup(&key, MapFlags::ANY)? else {
                continue;
            };
            let (key, sums) = (
                record::<types::stack_key>(&key),
                record::<types::stack_waits>(&value),
            );
            all.push(StackSums {
                pair: pair(&key.pair),
                process: key.process,
                place: key.place,
                kernel: self.trace(key.kernel_stack)?,
                user: self.trace(key.user_stack)?,
                wakeups: sums.wakeups,
                waited_ns: sums.waited_ns,
            });
        }
        all.sort_by_key(|sums| std::cmp::Reverse(sums.waited_ns));
        Ok(all)
    }

    /// A stack's addresses, innermost first; empty for one that the kernel could not take.
    fn trace(&self, id: i32) -> Result<Vec<u64>> {
        if id < 0 {
            return Ok(Vec::new());
        }
        let found = self
            .skel
            .maps
            .traces
            .lookup(&id.to_ne_bytes(), MapFlags::ANY)?;
        let addresses = found.iter().flat_map(|bytes| bytes.chunks_exact(8));
        let addresses = addresses.map(record::<u64>);
        Ok(addresses.take_while(|address| *address != 0).collect())
    }

    /// Runs the iterator over the existing tasks.
    fn follow_present(&self) -> Result<()> {
        let link = self.skel.progs.follow_present.attach()?;
        let mut iter = Iter::new(&link)?;
        let mut nothing = Vec::new();
        iter.read_to_end(&mut nothing)
            .map_err(|source| Error::System {
                what: "going through the tasks by BPF",
                source,
            })?;
        Ok(())
    }

    fn count(&self, on: bool) {
        word!(self.variables.at(0), types::bss, counting).store(on.into(), Ordering::Relaxed);
    }

    fn totals(&self) -> Result<Totals> {
        let missed = self.variables.at(0).read().missed;
        let mut totals = Totals {
            missed: Missed {
                moved: 0,
                unseen: missed.unseen,
                pairs_full: missed.pairs_full,
                stacks_full: missed.stacks_full,
                stacks_failed: missed.stacks_failed,
                unfollowed_tasks: missed.unfollowed,
            },
            ..Totals::default()
        };
        let mut most_ns = 0;
        for types::cpu { counts, .. } in of_cpus(&self.skel.maps.cpus)? {
            totals.wakeups += counts.wakeups;
            totals.asleep += counts.asleep;
            totals.polling += counts.polling;
            totals.missed.moved += counts.moved;
            if counts.most_ns > most_ns {
                most_ns = counts.most_ns;
                totals.most = Some(Thread {
                    name: thread_name(&counts.most_comm),
                    pid: counts.most_pid,
                    leaving_ns: most_ns,
                });
            }
        }
        Ok(totals)
    }

    fn waits(&self) -> Result<BTreeMap<(u32, u32), WaitSums>> {
        let mut all: BTreeMap<(u32, u32), WaitSums> = BTreeMap::new();
        for (number, cpu) in (0..).zip(of_cpus(&self.skel.maps.cpus)?) {
            for of_places in [cpu.waits, cpu.before] {
                for (place, waits) in (0..).zip(of_places) {
                    let sums = WaitSums {
                        count: waits.count,
                        unknown: waits.unknown,
                        waited: Waited {
                            leaving_ns: waits.leaving_ns,
                            scheduling_ns: waits.scheduling_ns,
                            queueing_ns: waits.queueing_ns,
                            longest_leaving_ns: waits.longest_ns,
                        },
                        stay_ns: waits.stay_ns,
                    };
                    all.entry((number, place)).or_default().add(&sums);
                }
            }
        }
        all.retain(|_, sums| sums.count > 0);
        Ok(all)
    }

    fn distributions(&self) -> Result<BTreeMap<u32, Vec<u64>>> {
        let map = &self.skel.maps.distributions;
        let mut all = BTreeMap::new();
        for place in 0..PLACES {
            let mut counts = vec![0; BUCKETS];
            for (bucket, count) in counts.iter_mut().enumerate() {
                let key = (place * BUCKETS as u32 + bucket as u32).to_ne_bytes();
                if let Some(of_cpus) = map.lookup_percpu(&key, MapFlags::ANY)? {
                    *count = of_cpus.iter().map(|value| record::<u64>(value)).sum();
                }
            }
            all.insert(place, counts);
        }
        Ok(all)
    }

    fn pairs(&self) -> Result<BTreeMap<Pair, PairSums>> {
        let mut all: BTreeMap<Pair, PairSums> = BTreeMap::new();
        for key in self.skel.maps.pairs.keys() {
            let maps = &self.skel.maps;
            let Some(index) = maps.pairs.lookup(&key, MapFlags::ANY)? else {
                continue;
            };
            let Some(value) = maps.pair_waits.lookup(&index, MapFlags::ANY)? else {
                continue;
            };
            let waits: types::pair_waits = record(&value);
            let sums = PairSums {
                wakeups: waits.wakeups,
                asleep: waits.asleep,
                waited: Waited {
                    leaving_ns: waits.leaving_ns,
                    scheduling_ns: waits.scheduling_ns,
                    queueing_ns: waits.queueing_ns,
                    longest_leaving_ns: waits.longest_ns,
                },
            };
            all.entry(pair(&record(&key))).or_default().add(&sums);
        }
        Ok(all)
    }
}

/// Each CPU's data.
fn of_cpus(cpus: &impl MapCore) -> Result<Vec<types::cpu>> {
    let mut all = Vec::new();
    for cpu in 0..cpus.max_entries() {
        let value = cpus.lookup(&cpu.to_ne_bytes(), MapFlags::ANY)?;
        all.push(value.map(|value| record(&value)).unwrap_or_default());
    }
    Ok(all)
}

/// All wake-ups on the machine since the programs were loaded.
fn issued(cpus: &impl MapCore) -> Result<u64> {
    Ok(of_cpus(cpus)?.iter().map(|cpu| cpu.counts.issued).sum())
}

fn load(
    btf: &KernelBtf,
    cpus: u32,
    workload: &Workload,
    stacks: bool,
    has_prev_state: bool,
) -> Result<CostSkel<'static>> {
    let mut open = CostSkelBuilder::default().open(kernel::storage())?;
    let rodata = open.maps.rodata_data.as_deref_mut();
    let rodata = rodata.expect("the object has settings");
    rodata.pid_namespace = kernel::pid_namespace()?;
    rodata.process = std::process::id();
    rodata.stacks = stacks;
    rodata.has_prev_state = has_prev_state;
    match *workload {
        Workload::Process(pid) => {
            rodata.follow = types::follow::FOLLOW_PROCESS;
            rodata.process = pid;
        }
        Workload::Cgroup(number) => {
            rodata.follow = types::follow::FOLLOW_CGROUP;
            rodata.cgroup = number;
        }
        Workload::All => rodata.follow = types::follow::FOLLOW_ALL,
    }
    open.maps.cpus.set_max_entries(cpus)?;
    open.maps.places.set_max_entries(cpus * STATES)?;
    if stacks {
        open.maps.traces.set_max_entries(MOST_STACKS)?;
        open.maps.stack_waits.set_max_entries(MOST_STACKS)?;
    }
    kernel::choose(&mut open, btf, |_, _| true);
    open.progs.follow_present.set_autoattach(false);
    open.load().map_err(kernel::cannot_load)
}

/// Sets each idle state's place in the tables.
fn set_places(skel: &CostSkel<'_>, depth: &Depth, cpus: u32) -> Result<()> {
    for (order, state) in depth.states.iter().enumerate() {
        let place = Depth::place(order) | if state.polling { POLLING } else { 0 };
        let at = state.at.iter();
        for (cpu, index) in at.filter(|(cpu, index)| *cpu < cpus && *index < STATES) {
            let key = (cpu * STATES + index).to_ne_bytes();
            skel.maps
                .places
                .update(&key, &place.to_ne_bytes(), MapFlags::ANY)?;
        }
    }
    Ok(())
}

fn pair(pair: &types::pair) -> Pair {
    Pair {
        waker: thread_name(&pair.waker),
        wakee: thread_name(&pair.wakee),
        cause: match pair.cause >> CAUSE_SHIFT {
            0 => Cause::Task,
            1 => Cause::Timer,
            2 => Cause::Device(pair.cause & ((1 << CAUSE_SHIFT) - 1)),
            3 => Cause::Call,
            _ => Cause::Other,
        },
    }
}

// SAFETY: integers, arrays and structs of them.
unsafe impl Plain for types::bss {}
// SAFETY: as above.
unsafe impl Plain for types::cpu {}
// SAFETY: as above.
unsafe impl Plain for types::pair {}
// SAFETY: as above.
unsafe impl Plain for types::pair_waits {}
// SAFETY: as above.
unsafe impl Plain for types::stack_key {}
// SAFETY: as above.
unsafe impl Plain for types::stack_waits {}
