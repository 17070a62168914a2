//! The engine: loaded into the kernel, it opens a window on a CPU for each request that a task waits
//! for, and keeps the CPU ready in it, as `src/bpf/anticipate.bpf.c` describes.

mod address;
mod agents;
mod descriptors;
mod own_cost;
pub(crate) mod skeleton;
mod statistics;

use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use libbpf_rs::skel::{OpenSkel, Skel, SkelBuilder};
use libbpf_rs::{MapCore, MapFlags, ProgramInput};
use reveille_kernel::bpf::{self as kernel, KernelBtf, Shared, word};
use reveille_kernel::{Idle, Journal, Root, journal::FOLDER};

use self::agents::Agents;
pub use self::agents::{Announcer, Client, Expectations, Unplanned};
pub use self::descriptors::provide as provide_descriptors;
use self::skeleton::{AnticipateSkel, AnticipateSkelBuilder, types};
#[cfg(test)]
pub(crate) use self::statistics::Latency;
pub(crate) use self::statistics::{Accounted, Cpu, Gain};
pub use self::statistics::{Assistance, Flow, PacketStatistics};
pub use self::statistics::{OperationStatistics, Statistics};
use crate::{Error, Readiness, Result, SLEEPS, Settings, Subject};

/// Without these nothing can be anticipated: group, name, the kernel's option.
const NEEDED: [(&str, &str, &str); 2] = [
    ("block", "block_rq_issue", "CONFIG_BLOCK"),
    ("block", "block_rq_complete", "CONFIG_BLOCK"),
];

/// The same of packets.
const NEEDED_FOR_PACKETS: [(&str, &str, &str); 3] = [
    ("net", "netif_receive_skb", "CONFIG_NET"),
    ("napi", "napi_poll", "CONFIG_NET"),
    ("sched", "sched_waking", "CONFIG_SMP"),
];

/// What ends the loop in a softirq, and the thread's need not look at.
const ENDS_SOFTIRQ: [&str; 10] = [
    "softirq_raise",
    "local_timer_entry",
    "irq_handler_entry",
    "reschedule_entry",
    "call_function_single_entry",
    "call_function_entry",
    "irq_work_entry",
    "x86_platform_ipi_entry",
    "ipi_entry",
    "sched_wake_idle_without_ipi",
];

/// DEVICES and OPERATIONS of anticipate.h: BTF carries no macros.
const DEVICES: u32 = 16;

/// The engine at work. Dropping it takes it out of the kernel, with its timers and windows; so does
/// the end of the process, however it ends.
pub struct Engine {
    /// Stopped first: its threads use what the skeleton owns.
    agents: Option<Agents>,
    skel: AnticipateSkel<'static>,
    variables: Shared<types::bss>,
    settings: Settings,
    cpus: u32,
    began: Instant,
    /// Puts `kernel.timer_migration` back.
    _journal: Option<Journal>,
}

impl Engine {
    /// Anticipates from now on.
    ///
    /// # Errors
    /// [`Error::Usage`] for settings out of range, [`Error::Cannot`] where the kernel lacks what is
    /// needed or this user the right, or where this process may open too few files.
    pub fn start(settings: &Settings) -> Result<Self> {
        settings.check()?;
        let cpus = libbpf_rs::num_possible_cpus()? as u32;
        descriptors::check(cpus)?;
        let btf = KernelBtf::read()?;
        let packets = &NEEDED_FOR_PACKETS[..];
        let packets = if settings.packets.any() { packets } else { &[] };
        for (group, name, option) in NEEDED.iter().chain(packets) {
            btf.require(group, name, option)?;
        }
        let skel = load(&btf, settings, cpus)?;
        let bells = kernel::Bell::all(&skel.maps.bells)?;
        for (index, device) in (0u32..).zip(&settings.devices) {
            let key = device.number().to_ne_bytes();
            skel.maps
                .chosen
                .update(&key, &index.to_ne_bytes(), MapFlags::ANY)?;
        }
        let prepare = || {
            Ok(skel
                .progs
                .prepare
                .test_run(ProgramInput::default())?
                .return_value)
        };
        if let errno @ 1.. = kernel::while_out_of_memory(prepare)? {
            let why = match errno {
                nix::libc::ENOMEM => "it has no memory for them now; try again",
                _ => "it needs Linux 5.17 or later; `reveille doctor` shows what this one has",
            };
            return Err(Error::Cannot(format!(
                "the kernel arms no timers for BPF ({}): {why}",
                std::io::Error::from_raw_os_error(errno)
            )));
        }
        let agents = Agents::start(&skel, bells, settings.packets.hinted)?;
        let variables = Shared::of(&skel.maps.bss, 1)?;
        let mut engine = Self {
            agents: Some(agents),
            skel,
            variables,
            settings: settings.clone(),
            cpus,
            began: Instant::now(),
            _journal: None,
        };
        if !engine.pins_timers() {
            // Without the flag a timer that is armed on an idle CPU may move to a busy one.
            let mut journal = Journal::new(&Root::default(), Path::new(FOLDER));
            journal.set("/proc/sys/kernel/timer_migration", "0")?;
            engine._journal = Some(journal);
        }
        engine.skel.attach().map_err(kernel::cannot_load)?;
        engine.began = Instant::now();
        engine.run(true);
        Ok(engine)
    }

    /// The kernel keeps timers on the CPU that they were armed on (Linux 6.7 and later); where it
    /// does not, `kernel.timer_migration` is 0 while the engine runs.
    fn pins_timers(&self) -> bool {
        let flags = word!(self.variables.at(0), types::bss, timer_flags);
        flags.load(Ordering::Relaxed) & 2 != 0
    }

    /// Takes what applications announce; it lives as long as the engine.
    pub fn announcer(&self) -> Announcer {
        let agents = self.agents.as_ref();
        agents.expect("they end with the engine").announcer()
    }

    /// Drops datagrams of strangers, and of who sends too many: the program for the socket on which
    /// hints arrive.
    pub(crate) fn hint_filter(&self) -> BorrowedFd<'_> {
        self.skel.progs.filter_hints.as_fd()
    }

    /// Datagrams that were dropped: of strangers, and of those who sent too many.
    pub(crate) fn dropped_hints(&self) -> (u64, u64) {
        let strangers = word!(self.variables.at(0), types::bss, strangers);
        let floods = word!(self.variables.at(0), types::bss, floods);
        (
            strangers.load(Ordering::Relaxed),
            floods.load(Ordering::Relaxed),
        )
    }

    /// How long it has run.
    pub fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// The settings in force.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Resumes or pauses: a paused engine learns and anticipates nothing new. Its programs stay loaded,
    /// because loading them takes seconds and disturbs the machine for a while.
    pub fn run(&self, on: bool) {
        word!(self.variables.at(0), types::bss, running).store(on.into(), Ordering::Relaxed);
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.run(false);
        self.agents = None;
    }
}

fn load(btf: &KernelBtf, settings: &Settings, cpus: u32) -> Result<AnticipateSkel<'static>> {
    let mut open = AnticipateSkelBuilder::default().open(kernel::storage())?;
    let share = |share: f64, of: f64| (share * of).min(of) as u32;
    let rodata = open.maps.rodata_data.as_deref_mut();
    let rodata = rodata.expect("the object has settings");
    rodata.pid_namespace = kernel::pid_namespace()?;
    rodata.cpus_count = cpus;
    rodata.operations = u32::from(settings.reads) | u32::from(settings.writes) << 1;
    match settings.subject {
        Subject::Anybody => {}
        Subject::Process(process) => rodata.process = process,
        Subject::Cgroup { id, level } => {
            rodata.cgroup = id;
            rodata.cgroup_level = level;
        }
    }
    rodata.periodic = settings.packets.periodic;
    rodata.hinted = settings.packets.hinted;
    rodata.network_namespace = reveille_kernel::network::namespace()?;
    let interfaces = settings.packets.interfaces.iter();
    for (slot, (_, index)) in rodata.interfaces.iter_mut().zip(interfaces) {
        *slot = *index;
    }
    for (slot, net) in rodata.nets.iter_mut().zip(&settings.packets.clients) {
        slot.bits = net.bits.into();
        let (family, address) = address::bytes_of(net.address);
        (slot.family, slot.address) = (family.into(), address);
    }
    rodata.budget_per_cpu = share(settings.budget, 65536.0);
    rodata.budget_in_all = share(settings.budget_in_all, 65536.0);
    rodata.control = share(settings.control, f64::from(u32::MAX));
    rodata.fixed_lead_ns = settings.lead.map_or(0, |lead| lead.as_nanos() as u64);
    rodata.first_lead_ns[..SLEEPS].copy_from_slice(&settings.first_lead_ns);
    rodata.nap_ns = settings.nap.as_nanos() as u64;
    let threads = settings.readiness != Readiness::Softirq && btf.function("bpf_wq_start");
    if settings.readiness == Readiness::Thread && !threads {
        return Err(Error::Cannot(
            "this kernel starts no threads for BPF (Linux 6.10 and later do): leave the choice to \
             the engine, or let it keep CPUs awake in softirqs"
                .to_owned(),
        ));
    }
    rodata.threads = threads;
    rodata.idle_looks = Idle::read(&Root::default()).is_ok_and(|idle| idle.driver.is_some());
    rodata.readiness = match settings.readiness {
        Readiness::Chosen => types::readiness::READY_CHOSEN,
        Readiness::Thread => types::readiness::READY_THREAD,
        Readiness::Softirq => types::readiness::READY_SOFTIRQ,
        Readiness::Napping => types::readiness::READY_NAPPING,
    };
    open.maps.plans.set_max_entries(cpus)?;
    open.maps.agents.set_max_entries(cpus)?;
    open.maps.interrupted.set_max_entries(DEVICES * cpus)?;
    open.maps.bells.set_max_entries(cpus)?;
    kernel::choose(&mut open, btf, |_, target| match target {
        "workqueue_queue_work" => threads,
        "netif_receive_skb" | "napi_poll" | "sched_waking" => settings.packets.any(),
        _ => !threads || !ENDS_SOFTIRQ.contains(&target),
    });
    // Without them there is less that an old kernel may refuse.
    let packets = &settings.packets;
    open.progs.filter_hints.set_autoload(packets.hinted);
    open.progs.expect_of_client.set_autoload(packets.hinted);
    if !packets.periodic {
        open.maps.flows.set_max_entries(1)?;
    }
    if !packets.hinted {
        open.maps.clients.set_max_entries(1)?;
        open.maps.services.set_max_entries(1)?;
        open.maps.addresses.set_max_entries(1)?;
    }
    open.load().map_err(kernel::cannot_load)
}
