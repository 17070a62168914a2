//! A timer of the HPET, outside the CPUs, wakes the measured CPU by its interrupt.
//!
//! The kernel's driver (/dev/hpet) arms the next interrupt in each handler, one period ahead; a thread on another
//! CPU sets the next period after each. The launch time is the comparator's, which BPF reads in the handler.

use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::JoinHandle;

use nix::libc::{self, c_int, c_ulong, c_ushort};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::{ioctl_none, ioctl_read, ioctl_write_int_bad, request_code_write};
use reveille_kernel::bpf::word;
use reveille_kernel::interrupts::Interrupts;
use reveille_kernel::{Idle, Journal, Root, now_ns};
use reveille_results::Source;

use super::event_source::{EventSource, wait_until_settled};
use crate::kernel::{Kernel, types};
use crate::placement::Elsewhere;
use crate::{Error, Result};

const DEVICE: &str = "/dev/hpet";
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
    cpu: u32,
    /// Closing it ends its interrupts.
    device: OwnedFd,
    timer: c_ushort,
    line: Line,
    elsewhere: Elsewhere,
    thread: Option<(Arc<AtomicBool>, JoinHandle<Result<()>>)>,
}

/// The timer's interrupt.
struct Line {
    number: u32,
    /// Chip and handlers, as in /proc/interrupts.
    description: String,
    is_shared: bool,
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
        // The interrupt is listed while it is on. One a second does not come before it is off again.
        ask(&device, 1)?;
        on(&device)?;
        let line = line(has.timer);
        // SAFETY: the descriptor is open; the call takes no data.
        unsafe { interrupts_off(device.as_raw_fd()) }.map_err(ioctl("HPET_IE_OFF"))?;
        let line = line?;
        let affinity = format!("/proc/irq/{}/smp_affinity_list", line.number);
        journal.set(&affinity, &cpu.to_string())?;
        Ok(Self {
            cpu,
            device,
            timer: has.timer,
            line,
            elsewhere: Elsewhere::than(cpu, idle),
            thread: None,
        })
    }

    fn end_thread(&mut self) -> Result<()> {
        let Some((stop, thread)) = self.thread.take() else {
            return Ok(());
        };
        stop.store(true, Relaxed);
        let ended = thread
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        // SAFETY: the descriptor is open; the call takes no data.
        let off = unsafe { interrupts_off(self.device.as_raw_fd()) };
        ended.and(off.map(drop).map_err(ioctl("HPET_IE_OFF")))
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

    fn start(&mut self, kernel: &Kernel, distances: &[u64]) -> Result<()> {
        let stop = Arc::new(AtomicBool::new(false));
        let pacer = Pacer {
            device: (self.device.try_clone()).map_err(Error::system("duplicating /dev/hpet"))?,
            frequencies: distances.iter().map(|ns| frequency(*ns)).collect(),
            elsewhere: self.elsewhere.clone(),
            stop: stop.clone(),
        };
        ask(&self.device, pacer.frequencies[0])?;
        word!(kernel.shared().at(0), types::bss, device_armed_at).store(now_ns(), Relaxed);
        on(&self.device)?;
        let thread = std::thread::Builder::new().name("hpet".into());
        let thread = thread.spawn(move || pacer.run());
        self.thread = Some((stop, thread.map_err(Error::system("starting a thread"))?));
        let effective = format!("proc/irq/{}/effective_affinity_list", self.line.number);
        match Root::default().text(&effective) {
            Some(cpus) if cpus.trim() != self.cpu.to_string() => Err(Error::Cannot(format!(
                "source hpet: interrupt {} goes to CPU {}, not to CPU {}: the interrupt controller or \
                 another program (irqbalance) decides so",
                self.line.number,
                cpus.trim(),
                self.cpu
            ))),
            _ => Ok(()),
        }
    }

    fn stop(&mut self, kernel: &Kernel, longest_ns: u64) -> Result<()> {
        self.end_thread()?;
        wait_until_settled(kernel, longest_ns.min(10_000_000));
        Ok(())
    }
}

impl Drop for Hpet {
    fn drop(&mut self) {
        let _ = self.end_thread();
    }
}

/// Sets the period of the launch after next once an interrupt came.
struct Pacer {
    device: OwnedFd,
    frequencies: Vec<c_int>,
    elsewhere: Elsewhere,
    stop: Arc<AtomicBool>,
}

impl Pacer {
    fn run(self) -> Result<()> {
        self.elsewhere.go()?;
        let mut device = File::from(self.device);
        let mut came = [0u8; size_of::<c_ulong>()];
        let mut next = self.frequencies.iter().cycle().skip(1);
        while !self.stop.load(Relaxed) {
            let mut waited = [PollFd::new(device.as_fd(), PollFlags::POLLIN)];
            // A signal ends it early, which costs a turn.
            let _ = poll(&mut waited, PollTimeout::from(LOOK_MS));
            match device.read(&mut came) {
                Ok(_) => {}
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => continue,
                Err(error) => return Err(Error::system("reading /dev/hpet")(error)),
            }
            if let Some(&frequency) = next.next() {
                ask(&device, frequency)?;
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
            "source hpet: no interrupt line is free for a timer of the HPET; use another source".into(),
        ),
        error => ioctl("HPET_IE_ON")(error),
    })
}

/// The line on which the timer's handler is.
fn line(timer: c_ushort) -> Result<Line> {
    let handler = format!("hpet{timer}");
    let listed = Interrupts::read(&Root::default()).unwrap_or_default();
    for line in listed.lines {
        let mut words = line.description.split([' ', ',']).filter(|word| !word.is_empty());
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
