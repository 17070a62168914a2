//! Records a trace by BPF programs.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::c_char;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use libbpf_rs::RingBufferBuilder;
use libbpf_rs::skel::{OpenSkel, Skel, SkelBuilder};
use reveille_kernel::bpf::{self as kernel, KernelBtf, Plain, Shared, record, thread_name};
use reveille_kernel::{Idle, Root, affinity, now_ns};
use reveille_show::progress::Bar;

use super::process::{Processes, Seen};
use super::recorded::{Recorded, Stopped};
use super::trace::{Event, Trace, What};
use crate::Result;

mod skeleton {
    #![allow(clippy::all, non_camel_case_types, dead_code, unused_imports)]
    include!(concat!(env!("OUT_DIR"), "/wakeups.skel.rs"));
}
use skeleton::{WakeupsSkelBuilder, types};

/// Between two looks at the ring buffer: this program's own wake-ups. It has room for a hundred thousand events.
const LOOK: Duration = Duration::from_millis(500);

/// The most events that are kept: some hundred megabytes.
const MOST: usize = 4_000_000;

/// The required tracepoints: group, name, the kernel's option.
const NEEDED: [(&str, &str, &str); 4] = [
    ("sched", "sched_waking", "CONFIG_TRACEPOINTS"),
    ("sched", "sched_switch", "CONFIG_TRACEPOINTS"),
    ("timer", "hrtimer_expire_entry", "CONFIG_TRACEPOINTS"),
    ("power", "cpu_idle", "CONFIG_CPU_IDLE"),
];

/// What the events of a run have told so far.
struct Told {
    events: Vec<Event>,
    /// Process and name of each thread, as they were last.
    threads: HashMap<u32, (u32, [c_char; 16])>,
    processes: Processes,
    full: bool,
}

impl Told {
    fn take(&mut self, event: &types::event) {
        if self.events.len() >= MOST {
            self.full = true;
            return;
        }
        let thread = event.who.thread;
        let what = match event.kind {
            types::kind::EVENT_SLEEP => What::Sleep,
            types::kind::EVENT_WAKE => What::Wake,
            types::kind::EVENT_SLEEP_TIMER => What::SleepTimer {
                thread,
                due_ns: event.due,
                slack_ns: event.slack,
            },
            types::kind::EVENT_TIMER => What::Timer { thread },
            types::kind::EVENT_INTERRUPT => What::Interrupt { thread },
            types::kind::EVENT_TASK => What::Task {
                thread,
                waker: event.waker.thread,
            },
            types::kind::EVENT_RUN => What::Run { thread },
            _ => return,
        };
        for who in [&event.who, &event.waker] {
            // 0: none, or of another PID namespace.
            if who.thread == 0 {
                continue;
            }
            let known = self.threads.get(&who.thread);
            if known != Some(&(who.process, who.name)) {
                self.threads.insert(who.thread, (who.process, who.name));
                self.processes.look(&Seen {
                    process: who.process,
                    name: thread_name(&who.name),
                    cgroup: who.cgroup,
                    kernel: who.kernel != 0,
                    policy: who.policy,
                });
            }
        }
        self.events.push(Event {
            time_ns: event.time,
            cpu: event.cpu,
            what,
        });
    }
}

/// Records until the time is up or `stop` is set.
///
/// # Errors
/// [`crate::Error::Cannot`] if BTF, a tracepoint or the right to load BPF programs is missing.
pub fn run(
    root: &Root,
    idle: &Idle,
    duration: Duration,
    stop: &AtomicBool,
    bar: Option<&Bar>,
) -> Result<Recorded> {
    let btf = KernelBtf::read()?;
    for (group, name, option) in NEEDED {
        btf.require(group, name, option)?;
    }
    let mut open = WakeupsSkelBuilder::default().open(kernel::storage())?;
    let rodata = open.maps.rodata_data.as_deref_mut();
    let rodata = rodata.expect("the object has settings");
    rodata.polling_states = idle.polling_states();
    rodata.pid_namespace = kernel::pid_namespace()?;
    let cpus = libbpf_rs::num_possible_cpus()? as u32;
    open.maps.cpus.set_max_entries(cpus)?;
    kernel::choose(&mut open, &btf, |_, _| true);
    let mut skel = open.load().map_err(kernel::cannot_load)?;
    let variables: Shared<types::bss> = Shared::of(&skel.maps.bss, 1)?;
    skel.attach().map_err(kernel::cannot_load)?;

    let online: Vec<u32> = idle
        .cpus
        .iter()
        .filter(|cpu| cpu.online)
        .map(|cpu| cpu.number)
        .collect();
    let told = RefCell::new(Told {
        events: Vec::new(),
        threads: HashMap::new(),
        processes: Processes::new(root),
        full: false,
    });
    let mut builder = RingBufferBuilder::new();
    builder.add(&skel.maps.events, |bytes| {
        told.borrow_mut().take(&record(bytes));
        0
    })?;
    let ring = builder.build()?;
    // Each CPU goes to sleep once, so that its state is known from the beginning on.
    affinity::visit(&online);
    let began_ns = now_ns();
    let lost_before = variables.at(0).read().lost;
    let end_ns = began_ns + duration.as_nanos() as u64;
    let mut stopped = Stopped::Completed;
    loop {
        let left = Duration::from_nanos(end_ns.saturating_sub(now_ns()));
        if left.is_zero() {
            break;
        }
        if let Some(bar) = bar {
            let done = 1.0 - left.as_secs_f64() / duration.as_secs_f64();
            bar.show("recording", done, Some(left), "wake-ups");
            bar.announce(left);
        }
        std::thread::sleep(left.min(LOOK));
        ring.consume()?;
        if stop.load(Ordering::Relaxed) {
            stopped = Stopped::Interrupted;
            break;
        }
        if told.borrow().full {
            stopped = Stopped::Full;
            break;
        }
    }
    let ended_ns = now_ns();
    let lost = variables.at(0).read().lost - lost_before;
    drop(skel.links);
    drop(ring);
    let told = told.into_inner();
    let mut events = told.events;
    events.retain(|event| event.time_ns < ended_ns);
    // Those of different CPUs are in the order in which they were reserved.
    events.sort_by_key(|event| event.time_ns);
    let threads = told.threads.into_iter();
    let processes = &told.processes;
    let threads =
        threads.filter_map(|(thread, (process, _))| Some((thread, processes.of(process)?.clone())));
    Ok(Recorded {
        trace: Trace {
            began_ns,
            ended_ns,
            cpus: online,
            events,
        },
        threads: threads.collect(),
        lost,
        stopped,
    })
}

// SAFETY: integers and arrays of them; the enum is a number in a struct.
unsafe impl Plain for types::event {}
// SAFETY: integers.
unsafe impl Plain for types::bss {}
