//! Loads the BPF programs with the features that this kernel has, and receives packets.

use libbpf_rs::RingBufferBuilder;
use libbpf_rs::skel::{OpenSkel, Skel, SkelBuilder};
use reveille_kernel::bpf::{
    self as kernel, Counting, KernelBtf, Plain, RunTime, Shared, record, thread_name,
};
use reveille_kernel::{Idle, network};

use super::packet::{Cause, Met, Packet, Reader, Sleep};
use super::{Cost, Counts, Follow, Setup, Stage};
use crate::Result;

mod skeleton {
    #![allow(clippy::all, non_camel_case_types, dead_code, unused_imports)]
    include!(concat!(env!("OUT_DIR"), "/path.skel.rs"));
}
use skeleton::{PathSkel, PathSkelBuilder, types};

/// The most packets followed per second and machine: the ring buffer between two reads, and the
/// figures kept, stay within megabytes.
const MOST_PER_SECOND: usize = 10_000;
/// The minimum per CPU.
const LEAST_PER_SECOND: usize = 200;
/// The programs bound the rate ten times a second (RATE_WINDOW of path.bpf.c).
const WINDOWS_PER_SECOND: usize = 10;

/// The loaded and attached programs. Dropping it removes them; so does any end of the process.
pub struct Follower {
    skel: PathSkel<'static>,
    variables: Shared<types::bss>,
    counting: Option<Counting>,
}

/// The required tracepoints: group, name, the kernel's option.
const NEEDED: [(&str, &str, &str); 4] = [
    ("net", "netif_receive_skb", "CONFIG_NET"),
    ("net", "net_dev_start_xmit", "CONFIG_NET"),
    ("irq", "softirq_entry", "CONFIG_TRACEPOINTS"),
    ("sched", "sched_waking", "CONFIG_TRACEPOINTS"),
];

impl Follower {
    /// Follows packets of this process's network namespace. [`crate::Error::Cannot`] if BTF, a tracepoint
    /// or the right to load BPF programs is missing.
    pub fn start(idle: &Idle, setup: &Setup<'_>) -> Result<Self> {
        let btf = KernelBtf::read()?;
        for (group, name, option) in NEEDED {
            btf.require(group, name, option)?;
        }
        let mut open = PathSkelBuilder::default().open(kernel::storage())?;
        let cpus = libbpf_rs::num_possible_cpus()?;
        let rodata = open
            .maps
            .rodata_data
            .as_deref_mut()
            .expect("the object has settings");
        rodata.follow = match setup.follow {
            Follow::Ping => types::follow::FOLLOW_PING,
            Follow::Socket => types::follow::FOLLOW_SOCKET,
        };
        rodata.interface = setup.interface.map_or(0, |interface| interface.index);
        let has_no_device = |interface: &network::Interface| !interface.physical;
        rodata.senders_here = setup.interface.is_some_and(has_no_device);
        rodata.namespace = network::namespace()?;
        rodata.port = setup.port.unwrap_or(0).into();
        rodata.poll_state = poll_state(idle);
        rodata.sees_data_ready = btf.tracepoint("sk_data_ready");
        let per_second = (MOST_PER_SECOND / cpus).max(LEAST_PER_SECOND);
        rodata.budget = (per_second / WINDOWS_PER_SECOND) as u32;
        open.maps.cpus.set_max_entries(cpus as u32)?;
        kernel::choose(&mut open, &btf, |_, tracepoint| match setup.follow {
            Follow::Ping => !["sk_data_ready", "sched_waking", "sys_exit"].contains(&tracepoint),
            Follow::Socket => !["net_dev_queue", "net_dev_xmit"].contains(&tracepoint),
        });
        let mut skel = open.load().map_err(kernel::cannot_load)?;
        let variables = Shared::of(&skel.maps.bss, 1)?;
        skel.attach().map_err(kernel::cannot_load)?;
        Ok(Self {
            skel,
            variables,
            counting: Counting::start(),
        })
    }

    /// The programs' cost so far; `None` if the kernel does not count it.
    pub fn cost(&self) -> Option<Cost> {
        self.counting.as_ref()?;
        let RunTime { ns, runs } = kernel::run_time_of_all(self.skel.object()).ok()?;
        Some(Cost {
            run_time_ns: ns,
            runs,
        })
    }

    /// Passes the packets that were followed to their end since the last call, in that order.
    pub fn take_in(&self, mut take: impl FnMut(Packet)) -> Result<()> {
        let mut builder = RingBufferBuilder::new();
        builder.add(&self.skel.maps.packets, move |bytes| {
            take(packet(&record(bytes)));
            0
        })?;
        Ok(builder.build()?.consume()?)
    }

    /// The current counts of packets.
    pub fn counts(&self) -> Counts {
        let counts = self.variables.at(0).read().counts;
        Counts {
            seen: counts.seen,
            followed: counts.followed,
            left_out: counts.left_out,
            fragments: counts.fragments,
            unanswered: counts.unanswered,
            nobody_woken: counts.nobody_woken,
            not_returned: counts.not_returned,
            ring_full: counts.ring_full,
        }
    }
}

// SAFETY: integers and arrays of them; the enum is a number in a struct.
unsafe impl Plain for types::packet {}
// SAFETY: integers.
unsafe impl Plain for types::bss {}

/// The index of the polling state, if any: interrupts do not always end it.
fn poll_state(idle: &Idle) -> i32 {
    let states = idle.cpus.iter().flat_map(|cpu| &cpu.states);
    let mut polling = states.filter(|state| state.name == "POLL");
    polling.next().map_or(-2, |state| state.index as i32)
}

fn packet(seen: &types::packet) -> Packet {
    let sleep = |state: i32, slept: u64, woke: u64| {
        (state >= 0 && woke != 0).then(|| Sleep {
            state,
            length_ns: woke.saturating_sub(slept),
        })
    };
    let reader = (seen.waking != 0).then(|| Reader {
        thread: seen.reader,
        name: thread_name(&seen.reader_name),
        cpu: seen.reader_cpu,
        sleep: sleep(seen.reader_state, seen.reader_slept, seen.reader_woke),
    });
    let ends = [
        (Stage::Wake, seen.woke),
        (Stage::Interrupt, seen.interrupt),
        (Stage::Softirq, seen.softirq),
        (Stage::Driver, seen.driver),
        (Stage::Protocol, seen.protocol),
        (Stage::Answer, seen.answered),
        (Stage::Queue, seen.transmit),
        (Stage::Transmit, seen.transmitted),
        (Stage::Socket, seen.waking),
        (Stage::ReaderWake, seen.reader_woke),
        (Stage::Schedule, seen.switched),
        (Stage::Return, seen.returned),
    ];
    let mut packet = Packet {
        sent: (seen.sent != 0).then_some(seen.sent),
        ends: ends.into_iter().filter(|(_, time)| *time != 0).collect(),
        cpu: seen.cpu,
        met: sleep(seen.state, seen.slept, seen.woke).map_or(Met::Awake, Met::Asleep),
        cause: match seen.cause {
            types::cause::CAUSE_DEVICE => Cause::Device(seen.irq),
            types::cause::CAUSE_OTHER_CPU => Cause::OtherCpu,
            types::cause::CAUSE_TIMER => Cause::Timer,
            types::cause::CAUSE_SOFTWARE => Cause::ThisCpu,
            _ => Cause::Unseen,
        },
        reader,
        interface: seen.interface,
        length: seen.length,
        identifier: u16::from_be(seen.identifier),
        sequence: u16::from_be(seen.sequence),
    };
    packet.keep_own(seen.position);
    packet
}
