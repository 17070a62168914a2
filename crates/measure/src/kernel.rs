//! Loads the BPF programs with the features that this kernel has, and exchanges data with them.

use std::cell::{Cell, RefCell};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::sync::atomic::fence;
use std::time::Duration;

use libbpf_rs::skel::{OpenSkel, Skel, SkelBuilder};
use libbpf_rs::{
    Link, MapCore, MapFlags, ProgramInput, ProgramMut, ProgramType, RingBuffer, RingBufferBuilder,
};
use reveille_kernel::bpf::{self, KernelBtf, Shared, word, words};
use reveille_kernel::network;
use reveille_results::Source;
use reveille_results::description::Cost;

use crate::distance::DRAWN;
use crate::{Error, Result, cost};

mod skeleton {
    #![allow(clippy::all, non_camel_case_types, dead_code, unused_imports)]
    include!(concat!(env!("OUT_DIR"), "/wake.skel.rs"));
}
pub use skeleton::types;
use skeleton::{WakeSkel, WakeSkelBuilder};

/// The size of the blocks in which cold caches are made.
const COLD_BLOCK: u64 = size_of::<types::cold_block>() as u64;

/// The interrupt handler of the kernel's HPET driver.
const HPET_HANDLER: &str = "hpet_interrupt";

pub const MAX_COUNTERS: usize = 16;

/// The programs' parameters, set before loading.
#[derive(Debug)]
pub struct Setup<'a> {
    pub cpu: u32,
    pub source: Source,
    /// The number of the device source's interrupt.
    pub device_interrupt: Option<u32>,
    /// The index of the network interface whose packets it brings.
    pub interface: Option<u32>,
    /// Events of the measured CPU, read at TBI and after TAI in this order.
    pub counters: &'a [OwnedFd],
    /// Which of them counts SMIs.
    pub smi_counter: Option<usize>,
    /// Bit N: state N polls.
    pub polling_states: u32,
    /// How many bytes are read before each idle period, so that the wake-up meets cold caches.
    pub cold_bytes: u64,
}

/// Where the remote source's launch time is taken, as far as the kernel allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LaunchStamps {
    /// fentry, before the message is queued; otherwise the waking thread takes it before its system
    /// call, and the latency includes the way there.
    pub before_queueing: bool,
    /// ipi:ipi_send_cpu: taken again just before an interrupt is sent.
    pub at_interrupt: bool,
}

/// The loaded programs. Dropping it removes them and their timer; so does the end of the process in
/// any way.
pub struct Kernel {
    /// Of the programs that observe; empty while they are detached.
    links: RefCell<Vec<Link>>,
    /// Of the program that sees the CPU go offline, even while the others are detached.
    _hotplug: Option<Link>,
    skel: WakeSkel<'static>,
    /// The programs' variables.
    shared: Arc<Shared<types::bss>>,
    /// The timer is armed relatively: timer:hrtimer_start shows its expiry.
    needs_expiry: Cell<bool>,
    /// Events that readers have received.
    read: Cell<u64>,
    pub launch_stamps: LaunchStamps,
    /// The kernel has nmi:nmi_handler.
    pub counts_nmis: bool,
}

impl Kernel {
    /// # Errors
    /// [`Error::Cannot`] if BTF, the tracepoint `power:cpu_idle` or the right to load BPF programs
    /// is missing.
    pub fn load(setup: &Setup<'_>) -> Result<Self> {
        let btf = KernelBtf::read().map_err(or_by_thread)?;
        btf.require("power", "cpu_idle", "CONFIG_CPU_IDLE")
            .map_err(or_by_thread)?;
        if setup.source == Source::Hpet && !btf.function(HPET_HANDLER) {
            return Err(Error::Cannot(format!(
                "source hpet: this kernel's BTF does not describe {HPET_HANDLER}, whose calls show the launches \
                 (CONFIG_HPET)"
            )));
        }
        if setup.cold_bytes > 0 && !btf.function("bpf_loop") {
            return Err(Error::Cannot(
                "cold caches: this kernel has no bpf_loop (Linux 5.17)".into(),
            ));
        }
        // fentry may be refused even if the function exists (a guest whose host forbids patching
        // code).
        let remote = setup.source == Source::Remote;
        if remote
            && btf.function("smp_call_function_single")
            && let Ok(kernel) = Self::load_with(setup, &btf, true)
        {
            return Ok(kernel);
        }
        Self::load_with(setup, &btf, false)
    }

    fn load_with(setup: &Setup<'_>, btf: &KernelBtf, fentry: bool) -> Result<Self> {
        let mut open = WakeSkelBuilder::default().open(bpf::storage())?;
        let remote = setup.source == Source::Remote;
        let expiry_is_interrupt = !btf.tracepoint("local_timer_entry");

        let rodata = open
            .maps
            .rodata_data
            .as_deref_mut()
            .expect("the object has settings");
        rodata.cpu = setup.cpu;
        rodata.source = number_of(setup.source);
        rodata.device_irq = setup.device_interrupt.map_or(-1, |number| number as i32);
        if let Some(interface) = setup.interface {
            rodata.interface = interface as i32;
            rodata.namespace = network::namespace()?;
        }
        rodata.counters = setup.counters.len() as u32;
        rodata.smi_counter = setup.smi_counter.unwrap_or(MAX_COUNTERS) as u32;
        rodata.expiry_is_interrupt = expiry_is_interrupt;
        rodata.polling_states = setup.polling_states;
        let cold_blocks = setup.cold_bytes.div_ceil(COLD_BLOCK) as u32;
        rodata.cold_blocks = cold_blocks;
        if cold_blocks > 0 {
            open.maps.cold.set_max_entries(cold_blocks)?;
        }

        bpf::choose(&mut open, btf, |kind, target| match (kind, target) {
            ("tp_btf", "hrtimer_expire_entry") => expiry_is_interrupt,
            ("tp_btf", "sched_wake_idle_without_ipi" | "ipi_send_cpu") => remote,
            ("tp_btf", "netif_receive_skb" | "consume_skb") => setup.interface.is_some(),
            ("fentry", HPET_HANDLER) => setup.source == Source::Hpet,
            ("fentry", _) => fentry,
            _ => true,
        });
        let skel = open
            .load()
            .map_err(bpf::cannot_load)
            .map_err(or_by_thread)?;
        for (index, counter) in setup.counters.iter().enumerate() {
            skel.maps.counter_events.update(
                &(index as u32).to_ne_bytes(),
                &counter.as_raw_fd().to_ne_bytes(),
                MapFlags::ANY,
            )?;
        }
        let shared = Arc::new(Shared::of(&skel.maps.bss, 1)?);
        let hotplug = &skel.progs.on_cpuhp_enter;
        let hotplug = hotplug.autoload().then(|| hotplug.attach()).transpose()?;
        Ok(Self {
            links: RefCell::default(),
            _hotplug: hotplug,
            skel,
            shared,
            needs_expiry: Cell::new(false),
            read: Cell::new(0),
            launch_stamps: LaunchStamps {
                before_queueing: fentry,
                at_interrupt: remote && btf.tracepoint("ipi_send_cpu"),
            },
            counts_nmis: btf.tracepoint("nmi_handler"),
        })
    }

    /// Lets the programs observe, unless they do.
    pub fn attach(&self) -> Result<()> {
        let mut links = self.links.borrow_mut();
        if !links.is_empty() {
            return Ok(());
        }
        // What they saw last is an idle period of before they were detached: a launch that is left of
        // then is dropped.
        let place = self.shared.at(0);
        word!(place, types::bss, hot.idle).store(0, Relaxed);
        word!(place, types::bss, hot.now.tbi).store(0, Relaxed);
        word!(place, types::bss, hot.now.tai).store(0, Relaxed);
        word!(place, types::bss, hot.now.tintr).store(0, Relaxed);
        for program in self.skel.object().progs_mut() {
            let observes = program.prog_type() == ProgramType::Tracing && program.autoload();
            let is_apart = program.name() == "on_cpuhp_enter"
                || program.name() == "on_hrtimer_start" && !self.needs_expiry.get();
            if observes && !is_apart {
                links.push(program.attach()?);
            }
        }
        Ok(())
    }

    /// Removes the programs' probes: those of two sources at once would double their cost.
    pub fn detach(&self) {
        self.links.borrow_mut().clear();
    }

    /// Runs `work` on a thread bound to `cpu`, and waits for it.
    pub fn on_cpu<T: Send>(
        &self,
        cpu: u32,
        work: impl FnOnce(&Self) -> Result<T> + Send,
    ) -> Result<T> {
        struct Lent<'a>(&'a Kernel);
        // SAFETY: the skeleton's raw pointers are to memory of this process, and are used by one
        // thread at a time: the lender is blocked until the borrower is done.
        unsafe impl Send for Lent<'_> {}
        let lent = Lent(self);
        crate::placement::on_cpu(cpu, move || {
            let lent = lent;
            work(lent.0)
        })
    }

    /// The programs' variables, which they may write at any time.
    pub fn shared(&self) -> &Arc<Shared<types::bss>> {
        &self.shared
    }

    /// The current counts.
    pub fn counts(&self) -> Counts {
        let place = self.shared.at(0);
        let mut counts = Counts {
            launched: 0,
            sent: word!(place, types::bss, sent).load(Relaxed),
            dropped: types::drops {
                not_idle: word!(place, types::bss, dropped.not_idle).load(Relaxed),
                other_interrupt: word!(place, types::bss, dropped.other_interrupt).load(Relaxed),
                earlier_timer: word!(place, types::bss, dropped.earlier_timer).load(Relaxed),
                no_interrupt: word!(place, types::bss, dropped.no_interrupt).load(Relaxed),
                other_packet: word!(place, types::bss, dropped.other_packet).load(Relaxed),
                nmi: word!(place, types::bss, dropped.nmi).load(Relaxed),
                smi: word!(place, types::bss, dropped.smi).load(Relaxed),
                ring_full: word!(place, types::bss, dropped.ring_full).load(Relaxed),
            },
            idle_entries: word!(place, types::bss, idle_entries).load(Relaxed),
            strayed: word!(place, types::bss, strayed).load(Relaxed),
            unanswered: word!(place, types::bss, unanswered).load(Relaxed),
        };
        // Last, so that no fewer are launched than settled.
        fence(Acquire);
        counts.launched = word!(place, types::bss, launched).load(Relaxed) + counts.unanswered;
        counts
    }

    /// The measured CPU went offline or came back since the programs were loaded.
    pub fn was_offline(&self) -> bool {
        word!(self.shared.at(0), types::bss, replugged).load(Relaxed) != 0
    }

    /// Finds the timers of `cpu`, the measured one, in kernel memory. Until they are found, no
    /// launch is dropped for an earlier timer. False if they cannot be found.
    ///
    /// # Errors
    /// If no thread can be bound to that CPU.
    pub fn find_timers(&self, cpu: u32) -> Result<bool> {
        const TRIES: usize = 5;
        let found = || word!(self.shared.at(0), types::bss, hot.timers).load(Relaxed) != 0;
        if !self.skel.progs.on_hrtimer_start.autoload() {
            return Ok(false);
        }
        let _probe = self.skel.progs.on_hrtimer_start.attach()?;
        for _ in 0..TRIES {
            // This arms a timer there, or, if that one goes to another CPU (nohz_full), the tick
            // when the CPU goes idle.
            self.on_cpu(cpu, |_| {
                std::thread::sleep(Duration::from_millis(1));
                Ok(())
            })?;
            if found() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Events that all readers together have received.
    pub fn read(&self) -> u64 {
        self.read.get()
    }

    pub fn set_distances(&self, distances: &[u64]) {
        let all = words!(self.shared.at(0), types::bss, distances);
        assert_eq!(all.len(), DRAWN, "DISTANCES of intf.h");
        for (word, &distance) in all.iter().zip(distances.iter().cycle()) {
            word.store(distance, Relaxed);
        }
    }

    pub fn set_stop(&self, stop: bool) {
        word!(self.shared.at(0), types::bss, stop).store(stop.into(), Relaxed);
    }

    /// Whether launches on an awake CPU count.
    pub fn set_awake_counts(&self, counts: bool) {
        word!(self.shared.at(0), types::bss, hot.awake_counts).store(counts.into(), Relaxed);
    }

    /// The program that makes its caller the waking thread (`reveille_kernel::bpf::run_here`).
    pub fn begin_to_wake(&self) -> std::io::Result<OwnedFd> {
        self.skel.progs.begin_to_wake.as_fd().try_clone_to_owned()
    }

    /// Starts the chain of timer launches; call it on the measured CPU.
    pub fn start_timer(&self) -> Result<()> {
        let program = &self.skel.progs.start_timer;
        let start = || Ok(program.test_run(ProgramInput::default())?.return_value);
        match bpf::while_out_of_memory(start)? {
            0 => {}
            errno => {
                let error = std::io::Error::from_raw_os_error(errno);
                return Err(Error::system("starting the BPF timer")(error));
            }
        }
        if !self.timer_is_absolute() && !self.needs_expiry.replace(true) {
            // The first launch is not exact to the ns; every later one is.
            let link = self.skel.progs.on_hrtimer_start.attach()?;
            self.links.borrow_mut().push(link);
        }
        Ok(())
    }

    fn timer_flags(&self) -> u64 {
        word!(self.shared.at(0), types::bss, timer_flags).load(Relaxed)
    }

    /// The kernel knows BPF_F_TIMER_ABS. Known after [`Kernel::start_timer`].
    pub fn timer_is_absolute(&self) -> bool {
        self.timer_flags() & 1 != 0
    }

    /// The kernel knows BPF_F_TIMER_CPU_PIN. Known after [`Kernel::start_timer`].
    pub fn timer_is_pinned(&self) -> bool {
        self.timer_flags() & 2 != 0
    }

    /// A reader that passes each event to `take`.
    pub fn events<'a>(
        &'a self,
        mut take: impl FnMut(&types::event) + 'a,
    ) -> Result<RingBuffer<'a>> {
        let mut builder = RingBufferBuilder::new();
        builder.add(&self.skel.maps.events, move |bytes| {
            let mut event = types::event::default();
            assert!(
                bytes.len() <= size_of_val(&event),
                "the ring buffer holds events"
            );
            // SAFETY: both are valid for that length and do not overlap; any bits are an event.
            unsafe {
                let start = (&raw mut event).cast::<u8>();
                ptr::copy_nonoverlapping(bytes.as_ptr(), start, bytes.len());
            }
            self.read.set(self.read.get() + 1);
            take(&event);
            0
        })?;
        Ok(builder.build()?)
    }

    /// The cost of one timestamp on that CPU.
    pub fn cost_of_timestamp(&self, cpu: u32) -> Result<Cost> {
        self.cost_of(cpu, |kernel| &kernel.skel.progs.cost_of_timestamp)
    }

    /// The cost of reading all counters on that CPU, which must be the measured one; includes one
    /// timestamp.
    pub fn cost_of_counters(&self, cpu: u32) -> Result<Cost> {
        self.cost_of(cpu, |kernel| &kernel.skel.progs.cost_of_counters)
    }

    fn cost_of(&self, cpu: u32, program: fn(&Self) -> &ProgramMut<'_>) -> Result<Cost> {
        self.on_cpu(cpu, |kernel| {
            Ok(program(kernel)
                .test_run(ProgramInput::default())
                .map(drop)?)
        })?;
        let costs = words!(self.shared.at(0), types::bss, costs);
        let costs = costs.iter().map(|cost| cost.load(Relaxed) as f64);
        Ok(cost::of(costs.collect()).expect("each round has its cost"))
    }

    /// The program in the idle loop, for the kernel's count of its run time.
    pub fn idle_probe(&self) -> BorrowedFd<'_> {
        self.skel.progs.on_cpu_idle.as_fd()
    }

    /// The programs at interrupts and softirqs.
    pub fn interrupt_probes(&self) -> Vec<BorrowedFd<'_>> {
        let progs = &self.skel.progs;
        let probes = [
            &progs.on_local_timer_entry,
            &progs.on_call_function_single_entry,
            &progs.on_call_function_entry,
            &progs.on_reschedule_entry,
            &progs.on_irq_work_entry,
            &progs.on_ipi_entry,
            &progs.on_irq_handler_entry,
            &progs.on_hrtimer_expire_entry,
            &progs.on_softirq_entry,
            &progs.on_netif_receive_skb,
            &progs.on_consume_skb,
        ];
        let loaded = probes.into_iter().filter(|program| program.autoload());
        loaded.map(|program| program.as_fd()).collect()
    }
}

/// The programs' counts at one moment.
#[derive(Debug, Clone, Copy)]
pub struct Counts {
    pub launched: u64,
    /// Launches that became events.
    pub sent: u64,
    pub dropped: types::drops,
    pub idle_entries: u64,
    /// Launches whose timer ran on another CPU.
    pub strayed: u64,
    /// Pings without a reply, target times without an interrupt.
    pub unanswered: u64,
}

impl Counts {
    /// Launches that were sent, dropped, strayed or lost.
    pub fn settled(&self) -> u64 {
        let drops = &self.dropped;
        let by_cpu = [
            drops.not_idle,
            drops.other_interrupt,
            drops.earlier_timer,
            drops.no_interrupt,
            drops.other_packet,
            drops.nmi,
            drops.smi,
            drops.ring_full,
        ];
        self.sent + by_cpu.iter().sum::<u64>() + self.strayed + self.unanswered
    }

    /// Launches that are not settled.
    pub fn on_its_way(&self) -> u64 {
        // With weakly ordered stores, one may be settled before it counts as launched.
        self.launched.saturating_sub(self.settled())
    }
}

/// The programs' number for a source.
fn number_of(source: Source) -> types::source {
    match source {
        Source::Remote => types::source::SOURCE_REMOTE,
        Source::Hpet => types::source::SOURCE_DEVICE,
        Source::Reply => types::source::SOURCE_REPLY,
        Source::Nic => types::source::SOURCE_NIC,
        Source::Timer => types::source::SOURCE_TIMER,
    }
}

/// Recommends the user probe if BPF is unavailable.
fn or_by_thread(error: Error) -> Error {
    match error {
        Error::Cannot(why) => Error::Cannot(format!("{why}; --probe user works without BPF")),
        error => error,
    }
}
