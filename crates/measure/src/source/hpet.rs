//! A timer of the HPET, outside the CPUs, wakes the measured CPU by its interrupt.
//!
//! The kernel's driver (/dev/hpet) arms the next interrupt in each handler, one period ahead; a thread on another
//! CPU sets the next period after each. The launch time is the comparator's, which BPF reads in the handler.

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use nix::libc::{self, c_int, c_ulong, c_ushort};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::{ioctl_none, ioctl_read, ioctl_write_int_bad, request_code_write};
use reveille_kernel::bpf::{Shared, word};
use reveille_kernel::interrupts::Interrupts;
use reveille_kernel::{Idle, Journal, Root, now_ns};
use reveille_results::Source;

use super::event_source::{EventSource, wait_until_settled};
use super::thread::Thread;
use crate::kernel::{Kernel, types};
use crate::placement::Elsewhere;
use crate::{Error, Result};

const DEVICE: &str = "/dev/hpet";
/// Interrupts a second while it waits for them to come to the measured CPU: some controllers move a line only at
/// its next interrupt.
const MOVING_HZ: c_int = 100;
const MOVES_WITHIN: Duration = Duration::from_secs(3);
/// After this silence, and four periods, the chain of interrupts is begun anew: if the CPU stands still between the
/// driver's reading of the counter and its arming for longer than a period (a hypervisor), the counter has passed.
const SILENCE: Duration = Duration::from_millis(200);
/// How often the thread looks whether it should end while no interrupt comes.
const LOOK_MS: u16 = 20;

// From the kernel's include/uapi/linux/hpet.h.
#[repr(C)]
#[derive(Default)]
struct Info {
    frequency: c_ulong,
    flags: c_ulong,
    hpet: c_ushort,
    timer: c_ushort,
}
ioctl_none!(interrupts_on, b'h', 1);
ioctl_none!(interrupts_off, b'h', 2);
ioctl_read!(info, b'h', 3, Info);
ioctl_write_int_bad!(
    set_frequency,
    request_code_write!(b'h', 6, size_of::<c_ulong>())
);

pub struct Hpet {
    /// Closing it ends its interrupts.
    device: OwnedFd,
    timer: c_ushort,
    line: Line,
    elsewhere: Elsewhere,
    thread: Thread,
}

/// The timer's interrupt.
struct Line {
    number: u32,
    /// Chip and handlers, as in /proc/interrupts.
    description: String,
    is_shared: bool,
}

impl Line {
    /// Whether it comes to that CPU only.
    fn comes_to(&self, cpu: u32) -> Result<()> {
        let effective = format!("proc/irq/{}/effective_affinity_list", self.number);
        match Root::default().text(&effective) {
            Some(cpus) if cpus.trim() != cpu.to_string() => Err(Error::Cannot(format!(
                "source hpet: interrupt {} goes to CPU {}, not to CPU {cpu}: the interrupt controller \
                 or another program (irqbalance) decides so",
                self.number,
                cpus.trim()
            ))),
            _ => Ok(()),
        }
    }
}

impl Hpet {
    /// Takes a free timer of the HPET, and has its interrupt come to that CPU.
    ///
    /// # Errors
    /// [`Error::Cannot`] if the HPET is missing, off, in use, or has no interrupt for the timer.
    pub fn new(cpu: u32, idle: &Idle, journal: &mut Journal) -> Result<Self> {
        let device = open()?;
        let mut has = Info::default();
        // SAFETY: the driver fills in `has`, which has its layout.
        unsafe { info(device.as_raw_fd(), &raw mut has) }.map_err(ioctl("HPET_INFO"))?;
        ask(&device, MOVING_HZ)?;
        on(&device)?;
        let line = line(has.timer)?;
        // Off, the line takes the affinity at once. On, it is moved at its next interrupt, and a line that is
        // closed before that keeps the move for its next user (kernel/irq/migration.c).
        off(&device)?;
        let affinity = format!("/proc/irq/{}/smp_affinity_list", line.number);
        journal.set(&affinity, &cpu.to_string())?;
        on(&device)?;
        let end = Instant::now() + MOVES_WITHIN;
        while let Err(error) = line.comes_to(cpu) {
            if Instant::now() > end {
                return Err(error);
            }
            std::thread::sleep(SILENCE);
            off(&device)?;
            on(&device)?;
        }
        off(&device)?;
        Ok(Self {
            device,
            timer: has.timer,
            line,
            elsewhere: Elsewhere::than(cpu, idle),
            thread: Thread::default(),
        })
    }

    fn end_thread(&mut self) -> Result<()> {
        if !self.thread.is_started() {
            return Ok(());
        }
        let ended = self.thread.end();
        off(&self.device).and(ended)
    }
}

impl EventSource for Hpet {
    fn source(&self) -> Source {
        Source::Hpet
    }

    fn arming(&self, _: &Kernel) -> String {
        let shared = match self.line.is_shared {
            true => "shared with other devices",
            false => "not shared",
        };
        format!(
            "HPET timer {}, interrupt {} ({}), {shared}; the launch time is its comparator's, read in its handler",
            self.timer, self.line.number, self.line.description
        )
    }

    fn device_interrupt(&self) -> Option<u32> {
        Some(self.line.number)
    }

    fn has_ended(&self) -> bool {
        self.thread.has_ended()
    }

    fn start(&mut self, kernel: &Kernel, distances: &[u64]) -> Result<()> {
        let pacer = Pacer {
            device: (self.device.try_clone()).map_err(Error::system("duplicating /dev/hpet"))?,
            frequencies: distances.iter().map(|ns| frequency(*ns)).collect(),
            shared: kernel.shared().clone(),
            elsewhere: self.elsewhere.clone(),
        };
        ask(&self.device, pacer.frequencies[0])?;
        pacer.begin()?;
        self.thread.start("hpet", move |stop| pacer.run(stop))
    }

    fn stop(&mut self, kernel: &Kernel, longest_ns: u64) -> Result<()> {
        self.end_thread()?;
        wait_until_settled(kernel, longest_ns.min(10_000_000));
        Ok(())
    }
}

/// Sets the period of the launch after next once an interrupt came.
struct Pacer {
    device: OwnedFd,
    frequencies: Vec<c_int>,
    shared: Arc<Shared<types::bss>>,
    elsewhere: Elsewhere,
}

impl Pacer {
    /// Switches the interrupts on: the first comes a period from now.
    fn begin(&self) -> Result<()> {
        word!(self.shared.at(0), types::bss, device_armed_at).store(now_ns(), Relaxed);
        on(&self.device)
    }

    fn run(self, stop: &AtomicBool) -> Result<()> {
        self.elsewhere.go()?;
        let mut came = [0u8; size_of::<c_ulong>()];
        let mut next = self.frequencies.iter().cycle().skip(1);
        let (mut last, mut period) = (Instant::now(), Duration::ZERO);
        while !stop.load(Relaxed) {
            let mut waited = [PollFd::new(self.device.as_fd(), PollFlags::POLLIN)];
            // A signal ends it early, which costs a turn.
            let _ = poll(&mut waited, PollTimeout::from(LOOK_MS));
            match nix::unistd::read(&self.device, &mut came) {
                Ok(_) => last = Instant::now(),
                Err(nix::Error::EAGAIN | nix::Error::EINTR) => {
                    if last.elapsed() > SILENCE + 4 * period {
                        off(&self.device)?;
                        self.begin()?;
                        last = Instant::now();
                    }
                    continue;
                }
                Err(error) => return Err(Error::system("reading /dev/hpet")(error)),
            }
            if let Some(&frequency) = next.next() {
                ask(&self.device, frequency)?;
                period = Duration::from_secs(1) / frequency.unsigned_abs();
            }
        }
        Ok(())
    }
}

/// The driver's frequency, Hz, for a launch distance: a whole number of at least 1.
fn frequency(distance_ns: u64) -> c_int {
    let hz = (1e9 / distance_ns as f64).round();
    (hz as c_int).max(1)
}

fn open() -> Result<OwnedFd> {
    let file = File::options()
        .read(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC)
        .open(DEVICE);
    file.map(OwnedFd::from).map_err(|error| {
        let why = match error.raw_os_error() {
            Some(libc::ENOENT) if !Path::new("/sys/devices/system/clocksource").exists() => {
                "is /sys mounted?"
            }
            Some(libc::ENOENT) => {
                "this machine has no HPET, or its firmware or kernel (hpet=disable, CONFIG_HPET) hides it"
            }
            Some(libc::EBUSY) => {
                "the HPET is off (the kernel turns it off on CPUs with PC10), or all of its timers are in use"
            }
            Some(libc::EACCES | libc::EPERM) => "run as root (sudo)",
            _ => "the kernel refuses it",
        };
        Error::Cannot(format!("source hpet: {DEVICE}: {error}; {why}"))
    })
}

fn ask(device: &impl AsFd, hz: c_int) -> Result<()> {
    // SAFETY: the descriptor is open; the argument is a plain value.
    let set = unsafe { set_frequency(device.as_fd().as_raw_fd(), hz) };
    set.map(drop).map_err(|error| match error {
        nix::Error::EACCES => Error::Cannot(format!(
            "source hpet: {hz} interrupts a second need CAP_SYS_RESOURCE; run as root (sudo)"
        )),
        error => ioctl("HPET_IRQFREQ")(error),
    })
}

fn on(device: &OwnedFd) -> Result<()> {
    // SAFETY: the descriptor is open; the call takes no data.
    let on = unsafe { interrupts_on(device.as_raw_fd()) };
    on.map(drop).map_err(|error| match error {
        nix::Error::EIO => Error::Cannot(
            "source hpet: no interrupt line is free for a timer of the HPET; use another source"
                .into(),
        ),
        error => ioctl("HPET_IE_ON")(error),
    })
}

fn off(device: &OwnedFd) -> Result<()> {
    // SAFETY: the descriptor is open; the call takes no data.
    let off = unsafe { interrupts_off(device.as_raw_fd()) };
    off.map(drop).map_err(ioctl("HPET_IE_OFF"))
}

/// The line on which the timer's handler is.
fn line(timer: c_ushort) -> Result<Line> {
    let handler = format!("hpet{timer}");
    let listed = Interrupts::read(&Root::default()).unwrap_or_default();
    for line in listed.lines {
        let mut words = line
            .description
            .split([' ', ','])
            .filter(|word| !word.is_empty());
        if let (true, Ok(number)) = (words.any(|word| word == handler), line.name.parse()) {
            return Ok(Line {
                number,
                is_shared: line.description.contains(','),
                description: line.description,
            });
        }
    }
    Err(Error::Cannot(format!(
        "source hpet: /proc/interrupts does not list {handler}; is /proc mounted?"
    )))
}

fn ioctl(name: &'static str) -> impl Fn(nix::Error) -> Error {
    move |error| Error::system::<nix::Error>(name)(error)
}
