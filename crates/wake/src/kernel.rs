//! The kernel side: loading the BPF programs with what this kernel has, and talking to them.

use std::cell::OnceCell;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr;

use libbpf_rs::btf::Btf;
use libbpf_rs::btf::types::{Func, Typedef};
use libbpf_rs::skel::{OpenSkel, Skel, SkelBuilder};
use libbpf_rs::{Link, MapCore, MapFlags, ProgramInput, ProgramMut, RingBuffer, RingBufferBuilder};
use reveille_dataset::description::Cost;

use crate::distance::DRAWN;
use crate::{Error, Result};

mod skeleton {
    #![allow(clippy::all, non_camel_case_types, dead_code, unused_imports)]
    include!(concat!(env!("OUT_DIR"), "/wake.skel.rs"));
}
pub use skeleton::types;
use skeleton::{WakeSkel, WakeSkelBuilder};

pub const MAX_COUNTERS: usize = 16;

/// What the programs are told before they are loaded.
#[derive(Debug)]
pub struct Setup<'a> {
    pub cpu: u32,
    pub source: types::source,
    /// Events of the measured CPU, read at TBI and after TAI in this order.
    pub counters: &'a [OwnedFd],
    /// Which of them counts SMIs.
    pub smi_counter: Option<usize>,
}

/// Where the remote source's launch time is taken, each if the kernel lets us.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LaunchStamps {
    /// fentry, before the message is queued; else the waking thread stamps before its system call,
    /// and the way there is in the figure.
    pub before_queueing: bool,
    /// ipi:ipi_send_cpu: an interrupt is stamped again just before it is sent.
    pub at_interrupt: bool,
}

/// The loaded and attached programs. Dropping it takes them off, timer included; so does the end
/// of the process, however it ends.
pub struct Kernel {
    skel: WakeSkel<'static>,
    /// timer:hrtimer_start, attached where the timer is armed relatively.
    expiry_teller: OnceCell<Link>,
    pub launch_stamps: LaunchStamps,
    /// The kernel has nmi:nmi_handler.
    pub counts_nmis: bool,
}

/// Which tracepoints and functions the running kernel has, by its BTF.
pub struct Knows(Btf<'static>);

impl Knows {
    /// # Errors
    /// Where the kernel carries no BTF or it cannot be read.
    pub fn ask() -> Result<Self> {
        Btf::from_vmlinux().map(Self).map_err(|error| {
            Error::Cannot(format!(
                "the kernel's BTF cannot be read ({error}): it needs CONFIG_DEBUG_INFO_BTF \
                 (/sys/kernel/btf/vmlinux); --probe user measures without"
            ))
        })
    }

    pub fn tracepoint(&self, name: &str) -> bool {
        self.0
            .type_by_name::<Typedef<'_>>(&format!("btf_trace_{name}"))
            .is_some()
    }

    pub fn function(&self, name: &str) -> bool {
        self.0.type_by_name::<Func<'_>>(name).is_some()
    }
}

impl Kernel {
    /// # Errors
    /// [`Error::Cannot`] where BTF, the tracepoint `power:cpu_idle` or the right to load BPF
    /// programs is missing.
    pub fn load(setup: &Setup<'_>) -> Result<Self> {
        // What fails is told by the errors, in fewer words.
        libbpf_rs::set_print(None);
        let knows = Knows::ask()?;
        if !knows.tracepoint("cpu_idle") {
            return Err(Error::Cannot(
                "the kernel has no tracepoint power:cpu_idle (CONFIG_CPU_IDLE); \
                 --probe user measures without"
                    .into(),
            ));
        }
        // fentry may be there and yet be refused (a guest whose host forbids patching code).
        let remote = setup.source == types::source::SOURCE_REMOTE;
        if remote
            && knows.function("smp_call_function_single")
            && let Ok(kernel) = Self::load_with(setup, &knows, true)
        {
            return Ok(kernel);
        }
        Self::load_with(setup, &knows, false)
    }

    fn load_with(setup: &Setup<'_>, knows: &Knows, fentry: bool) -> Result<Self> {
        // The object must stay where it is while the skeleton lives; a few bytes for each load.
        let storage = Box::leak(Box::new(MaybeUninit::uninit()));
        let mut open = WakeSkelBuilder::default().open(storage)?;
        let remote = setup.source == types::source::SOURCE_REMOTE;
        let expiry_is_interrupt = !knows.tracepoint("local_timer_entry");

        let rodata = open
            .maps
            .rodata_data
            .as_deref_mut()
            .expect("the object has settings");
        rodata.cpu = setup.cpu;
        rodata.source = setup.source;
        rodata.counters = setup.counters.len() as u32;
        rodata.smi_counter = setup.smi_counter.unwrap_or(MAX_COUNTERS) as u32;
        rodata.expiry_is_interrupt = expiry_is_interrupt;

        for mut program in open.open_object_mut().progs_mut() {
            let section = program.section().to_string_lossy().into_owned();
            let wanted = match section.split_once('/') {
                Some(("tp_btf", "hrtimer_expire_entry")) => expiry_is_interrupt,
                Some(("tp_btf", "hrtimer_start")) => !remote,
                Some(("tp_btf", name @ ("sched_wake_idle_without_ipi" | "ipi_send_cpu"))) => {
                    remote && knows.tracepoint(name)
                }
                Some(("tp_btf", name)) => knows.tracepoint(name),
                Some(("fentry", _)) => fentry,
                _ => true,
            };
            program.set_autoload(wanted);
            // Attached by hand where it is needed; "raw_tp" is only run.
            if section == "tp_btf/hrtimer_start" || section == "raw_tp" {
                program.set_autoattach(false);
            }
        }
        let mut skel = open.load().map_err(cannot_load)?;
        for (index, counter) in setup.counters.iter().enumerate() {
            skel.maps.counter_events.update(
                &(index as u32).to_ne_bytes(),
                &counter.as_raw_fd().to_ne_bytes(),
                MapFlags::ANY,
            )?;
        }
        skel.attach()?;
        Ok(Self {
            skel,
            expiry_teller: OnceCell::new(),
            launch_stamps: LaunchStamps {
                before_queueing: fentry,
                at_interrupt: remote && knows.tracepoint("ipi_send_cpu"),
            },
            counts_nmis: knows.tracepoint("nmi_handler"),
        })
    }

    /// Does some work with the kernel side on a thread bound to `cpu`, and waits for it.
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

    /// The memory that the programs share with this process; they write it at any time, so it is
    /// read and written through the accessors below only.
    pub fn shared(&self) -> *mut types::bss {
        let data = self
            .skel
            .maps
            .bss_data
            .as_deref()
            .expect("the object has variables");
        ptr::from_ref(data).cast_mut()
    }

    /// Everything but the distances and the window, as it stands.
    pub fn counts(&self) -> Counts {
        let shared = self.shared();
        // SAFETY: `shared` points to the mapped variables for as long as `self` lives; each field
        // is aligned, and written by the kernel whole.
        unsafe {
            Counts {
                launched: ptr::read_volatile(&raw const (*shared).launched),
                settled: ptr::read_volatile(&raw const (*shared).settled),
                dropped: ptr::read_volatile(&raw const (*shared).dropped),
                idle_entries: ptr::read_volatile(&raw const (*shared).idle_entries),
                strayed: ptr::read_volatile(&raw const (*shared).strayed),
            }
        }
    }

    pub fn set_distances(&self, distances: &[u64]) {
        let shared = self.shared();
        for (index, &distance) in distances.iter().cycle().take(DRAWN).enumerate() {
            // SAFETY: as in `counts`; `index` is below the array's length.
            unsafe { ptr::write_volatile(&raw mut (*shared).distances[index], distance) };
        }
    }

    pub fn set_stop(&self, stop: bool) {
        // SAFETY: as in `counts`.
        unsafe { ptr::write_volatile(&raw mut (*self.shared()).stop, stop.into()) };
    }

    /// Whether launches on a CPU that is awake count.
    pub fn set_awake_counts(&self, counts: bool) {
        // SAFETY: as in `counts`.
        unsafe { ptr::write_volatile(&raw mut (*self.shared()).hot.awake_counts, counts.into()) };
    }

    /// Starts the chain of timer launches; to be called on the measured CPU.
    pub fn start_timer(&self) -> Result<()> {
        let program = &self.skel.progs.start_timer;
        let start = || Ok(program.test_run(ProgramInput::default())?.return_value);
        match reveille_bpf::while_out_of_memory(start)? {
            0 => {}
            errno => {
                return Err(Error::System {
                    what: "starting the BPF timer",
                    source: std::io::Error::from_raw_os_error(errno),
                });
            }
        }
        if !self.timer_is_absolute() && self.expiry_teller.get().is_none() {
            // The first launch is not exact to the ns; every later one is.
            let link = self.skel.progs.on_hrtimer_start.attach()?;
            let _ = self.expiry_teller.set(link);
        }
        Ok(())
    }

    fn timer_flags(&self) -> u64 {
        // SAFETY: as in `counts`.
        unsafe { ptr::read_volatile(&raw const (*self.shared()).timer_flags) }
    }

    /// The kernel knows BPF_F_TIMER_ABS. Known after [`Kernel::start_timer`].
    pub fn timer_is_absolute(&self) -> bool {
        self.timer_flags() & 1 != 0
    }

    /// The kernel knows BPF_F_TIMER_CPU_PIN. Known after [`Kernel::start_timer`].
    pub fn timer_is_pinned(&self) -> bool {
        self.timer_flags() & 2 != 0
    }

    /// A reader of the events that hands each to `take`.
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
            take(&event);
            0
        })?;
        Ok(builder.build()?)
    }

    /// What one timestamp costs on that CPU.
    pub fn cost_of_timestamp(&self, cpu: u32) -> Result<Cost> {
        self.cost_of(cpu, |kernel| &kernel.skel.progs.cost_of_timestamp)
    }

    /// What reading all counters costs on that CPU, which must be the measured one; one timestamp
    /// is in it.
    pub fn cost_of_counters(&self, cpu: u32) -> Result<Cost> {
        self.cost_of(cpu, |kernel| &kernel.skel.progs.cost_of_counters)
    }

    fn cost_of(&self, cpu: u32, program: fn(&Self) -> &ProgramMut<'_>) -> Result<Cost> {
        self.clear_cost();
        self.on_cpu(cpu, |kernel| {
            Ok(program(kernel)
                .test_run(ProgramInput::default())
                .map(drop)?)
        })?;
        Ok(self.cost())
    }

    fn clear_cost(&self) {
        // SAFETY: as in `counts`.
        unsafe {
            ptr::write_volatile(
                &raw mut (*self.shared()).measured_cost,
                types::cost::default(),
            )
        }
    }

    fn cost(&self) -> Cost {
        // SAFETY: as in `counts`.
        let cost = unsafe { ptr::read_volatile(&raw const (*self.shared()).measured_cost) };
        Cost {
            count: cost.count,
            mean_ns: cost.total as f64 / cost.count.max(1) as f64,
            min_ns: cost.min as f64,
            max_ns: cost.max as f64,
        }
    }

    /// The program in the idle loop, for the kernel's own account of its cost.
    pub fn idle_probe(&self) -> BorrowedFd<'_> {
        self.skel.progs.on_cpu_idle.as_fd()
    }

    /// The programs at interrupts and softirqs, likewise.
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
        ];
        let loaded = probes.into_iter().filter(|program| program.autoload());
        loaded.map(|program| program.as_fd()).collect()
    }
}

/// The programs' counts at one moment.
#[derive(Debug, Clone, Copy)]
pub struct Counts {
    pub launched: u64,
    pub settled: u64,
    pub dropped: types::drops,
    pub idle_entries: u64,
    pub strayed: u64,
}

fn cannot_load(error: libbpf_rs::Error) -> Error {
    use libbpf_rs::ErrorKind;
    match error.kind() {
        ErrorKind::PermissionDenied => Error::Cannot(
            "BPF programs may not be loaded by this user: run as root (sudo), or with the \
             capabilities CAP_BPF and CAP_PERFMON; --probe user measures without"
                .into(),
        ),
        _ => Error::Cannot(format!(
            "the kernel refuses the BPF programs ({error}): `reveille doctor` says what it has; \
             --probe user measures without"
        )),
    }
}
