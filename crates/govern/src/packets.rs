//! Packets that rules wait for, as the kernel's programs see them (`src/bpf/govern.bpf.c`).

mod skeleton;

use std::cell::Cell;
use std::mem::offset_of;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use libbpf_rs::skel::{OpenSkel, Skel, SkelBuilder};
use reveille_kernel::bpf::{self as kernel, Bell, KernelBtf, RunTime, Shared, word, words};
use reveille_kernel::{Result, Root, network};

pub use reveille_kernel::bpf::Counting;

use self::skeleton::{GovernSkel, GovernSkelBuilder, types};
use crate::quiet::{self, Gaps};
use crate::rules::{Protocol, Rule, Traffic};
use crate::status::Accounted;

/// The programs at work. Dropping it takes them out of the kernel.
pub struct Packets {
    skel: GovernSkel<'static>,
    cpus: Arc<Shared<types::served>>,
    cpus_count: u32,
    rules_count: usize,
    /// Packets that others have seen.
    of_others: Cell<u64>,
    variables: Shared<types::bss>,
}

/// One CPU's packets, for the thread that holds its bound.
pub struct OnCpu {
    cpu: u32,
    bell: Bell,
    cpus: Arc<Shared<types::served>>,
}

/// A number of what a CPU has seen of a rule, as an atomic.
macro_rules! seen {
    ($cpus:expr, $cpu:expr, $nth:expr, $field:ident) => {
        $cpus.at($cpu as usize).word(
            offset_of!(types::served, seen)
                + $nth * size_of::<types::seen>()
                + offset_of!(types::seen, $field),
            |served: &types::served| &served.seen[0].$field,
        )
    };
    ($cpus:expr, $cpu:expr, $nth:expr, gaps[$gap:expr].$field:ident) => {
        $cpus.at($cpu as usize).word(
            offset_of!(types::served, seen)
                + $nth * size_of::<types::seen>()
                + offset_of!(types::seen, gaps)
                + $gap * size_of::<types::gap>()
                + offset_of!(types::gap, $field),
            |served: &types::served| &served.seen[0].gaps[0].$field,
        )
    };
}

/// How many gaps are kept.
const GAPS: usize = size_of_gaps() / size_of::<types::gap>();

const fn size_of_gaps() -> usize {
    size_of::<types::seen>() - offset_of!(types::seen, gaps)
}

/// The gaps of a rule's packets on a CPU, lately.
fn gaps(cpus: &Shared<types::served>, cpu: u32, nth: usize) -> Gaps {
    let packets = seen!(cpus, cpu, nth, packets).load(Ordering::Acquire);
    let count = seen!(cpus, cpu, nth, gaps_count).load(Ordering::Acquire) as usize;
    let gap_us = |place| seen!(cpus, cpu, nth, gaps[place].us).load(Ordering::Relaxed);
    let long = (0..count.min(GAPS)).map(|place| Duration::from_micros(gap_us(place).into()));
    Gaps {
        long: long.collect(),
        packets: match count {
            // From the packet after the oldest of these gaps on. The numbers may have gone round.
            GAPS.. => {
                let oldest = seen!(cpus, cpu, nth, gaps[count % GAPS].packets);
                let since = (packets as u32).wrapping_sub(oldest.load(Ordering::Relaxed));
                u64::from(since) + 1
            }
            _ => packets,
        },
    }
}

impl Packets {
    /// Watches the packets of these rules, each by its place in the list, once [`Packets::watch`] names
    /// their interfaces; and gives a bell for each number of a possible CPU. With `accounting`, idle entries are
    /// watched, too, to count bounds that come too late.
    ///
    /// # Errors
    /// [`Error::Cannot`] where the kernel lacks what is needed or this user the right.
    pub fn start(rules: &[Rule], accounting: bool) -> Result<(Self, Vec<OnCpu>)> {
        let btf = KernelBtf::read()?;
        let cpus = kernel::cpu_numbers(&Root::default())?;
        let traffic = rules.iter().filter_map(|rule| rule.when.traffic.as_ref());
        let has_traffic = traffic.clone().next().is_some();
        let readers = traffic.clone().any(|traffic| traffic.readers);
        if has_traffic {
            btf.require("net", "netif_receive_skb", "CONFIG_NET")?;
        }
        let mut open = GovernSkelBuilder::default().open(kernel::storage())?;
        let rodata = open.maps.rodata_data.as_deref_mut();
        let rodata = rodata.expect("the object has settings");
        rodata.rules_count = rules.len() as u32;
        for (to, rule) in rodata.rules.iter_mut().zip(rules) {
            let traffic = rule.when.traffic.as_ref();
            *to = types::traffic {
                gap_ns: rule.quiet.unwrap_or(quiet::SHORTEST).as_nanos() as u64,
                ..traffic.map(described).unwrap_or_default()
            };
        }
        rodata.namespace = network::namespace()?;
        open.maps.cpus.set_max_entries(cpus)?;
        open.maps.bells.set_max_entries(cpus)?;
        kernel::choose(&mut open, &btf, |_, target| match target {
            "cpu_idle" => accounting,
            "netif_receive_skb" => has_traffic,
            "sched_waking" | "napi_poll" => readers,
            "block_rq_issue" => rules.iter().any(|rule| rule.when.disk_by_bound().is_some()),
            _ => true,
        });
        let mut skel = open.load().map_err(kernel::cannot_load)?;
        let bells = Bell::all(&skel.maps.bells)?;
        let packets = Self {
            cpus: Arc::new(Shared::of(&skel.maps.cpus, cpus as usize)?),
            cpus_count: cpus,
            rules_count: rules.len(),
            of_others: Cell::new(0),
            variables: Shared::of(&skel.maps.bss, 1)?,
            skel: {
                skel.attach().map_err(kernel::cannot_load)?;
                skel
            },
        };
        let on_cpu = (0..).zip(bells).map(|(cpu, bell)| OnCpu {
            cpu,
            bell,
            cpus: packets.cpus.clone(),
        });
        let on_cpu = on_cpu.collect();
        Ok((packets, on_cpu))
    }

    /// Watches a rule's requests to the disk of that number; `None`: to none.
    pub fn watch_disk(&self, nth: usize, disk: Option<u32>) {
        let disks = words!(self.variables.at(0), types::bss, disks);
        disks[nth].store(disk.unwrap_or(0), Ordering::Relaxed);
    }

    /// Watches a rule's packets on the interface of that number; `None`: on none.
    pub fn watch(&self, nth: usize, interface: Option<u32>) {
        let interfaces = words!(self.variables.at(0), types::bss, interfaces);
        interfaces[nth].store(interface.unwrap_or(0), Ordering::Relaxed);
    }

    /// Of the rule at that place, on all CPUs: packets seen so far.
    pub fn count(&self, nth: usize) -> u64 {
        let cpus = 0..self.cpus_count;
        let count = |cpu| seen!(self.cpus, cpu, nth, packets).load(Ordering::Relaxed);
        cpus.map(count).sum()
    }

    /// CLOCK_MONOTONIC of the rule's last packet on that CPU, ns; 0: none yet.
    pub fn last_ns(&self, cpu: u32, nth: usize) -> u64 {
        seen!(self.cpus, cpu, nth, last_ns).load(Ordering::Acquire)
    }

    /// The gaps of the rule's packets on that CPU, lately.
    pub fn gaps(&self, cpu: u32, nth: usize) -> Gaps {
        gaps(&self.cpus, cpu, nth)
    }

    /// Has the rule at that place go on from what others have seen of it.
    pub fn go_on(&self, nth: usize, others: &Self, place: usize) {
        for cpu in 0..self.cpus_count.min(others.cpus_count) {
            macro_rules! from {
                ($of:ident) => {
                    seen!(others.cpus, cpu, place, $of).load(Ordering::Acquire)
                };
            }
            let packets = from!(packets);
            self.of_others.set(self.of_others.get() + packets);
            seen!(self.cpus, cpu, nth, packets).fetch_add(packets, Ordering::Relaxed);
            seen!(self.cpus, cpu, nth, last_ns).fetch_max(from!(last_ns), Ordering::Relaxed);
            seen!(self.cpus, cpu, nth, gaps_count).store(from!(gaps_count), Ordering::Relaxed);
            for gap in 0..GAPS {
                let us = seen!(others.cpus, cpu, place, gaps[gap].us).load(Ordering::Relaxed);
                seen!(self.cpus, cpu, nth, gaps[gap].us).store(us, Ordering::Relaxed);
                let packets = seen!(others.cpus, cpu, place, gaps[gap].packets);
                let packets = packets.load(Ordering::Relaxed);
                seen!(self.cpus, cpu, nth, gaps[gap].packets).store(packets, Ordering::Relaxed);
            }
        }
    }

    /// What the programs did and cost so far, if an empty one takes `nothing_ns`.
    ///
    /// # Errors
    /// Where the kernel does not report it.
    pub fn accounted(&self, nothing_ns: u64) -> Result<Accounted> {
        let number = |cpu| word!(self.cpus.at(cpu), types::served, late).load(Ordering::Relaxed);
        let of = kernel::run_time_of_all(self.skel.object())?;
        Ok(Accounted {
            late: (0..self.cpus_count as usize).map(number).sum(),
            packets: {
                let all: u64 = (0..self.rules_count).map(|nth| self.count(nth)).sum();
                all.saturating_sub(self.of_others.get())
            },
            program_runs: of.runs,
            program_ns: of.own_ns_since(RunTime::default(), nothing_ns),
        })
    }
}

/// What the kernel compares of packets.
fn described(traffic: &Traffic) -> types::traffic {
    let mut to = types::traffic {
        port: traffic.port.map_or(0, u32::from),
        protocol: traffic.protocol.map_or(0, Protocol::number),
        packets: traffic.packets,
        window_ns: traffic.window.as_nanos() as u64,
        readers: u32::from(traffic.readers),
        ..Default::default()
    };
    if let Some(net) = traffic.address {
        to.prefix = net.prefix.into();
        match net.address {
            IpAddr::V4(four) => {
                to.family = 4;
                to.address[..4].copy_from_slice(&four.octets());
            }
            IpAddr::V6(six) => {
                to.family = 6;
                to.address = six.octets();
            }
        }
    }
    to
}

impl OnCpu {
    /// The rules that ask for their bound, a bit each, since the last call.
    pub fn called(&self) -> u32 {
        self.bell.silence();
        word!(self.cpus.at(self.cpu as usize), types::served, called).swap(0, Ordering::AcqRel)
    }

    /// Notes which rules' bounds are in force; their packets ask no more.
    pub fn note_held(&self, rules: u32) {
        word!(self.cpus.at(self.cpu as usize), types::served, held).store(rules, Ordering::SeqCst);
    }

    /// The gaps of the rule's packets, lately.
    pub fn gaps(&self, nth: usize) -> Gaps {
        gaps(&self.cpus, self.cpu, nth)
    }

    /// How long ago the rule's last packet came.
    pub fn since_last(&self, nth: usize) -> Duration {
        let last = seen!(self.cpus, self.cpu, nth, last_ns).load(Ordering::Acquire);
        Duration::from_nanos(reveille_kernel::now_ns().saturating_sub(last))
    }
}

impl AsFd for OnCpu {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}
