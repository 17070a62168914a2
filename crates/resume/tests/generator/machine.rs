//! A made-up machine.

use std::collections::BTreeSet;

use reveille_resume::cycle::{StageKind, Us};

/// The stages in which devices have callbacks, in order.
pub const STAGES: [StageKind; 8] = [
    StageKind::Prepare,
    StageKind::Suspend,
    StageKind::SuspendLate,
    StageKind::SuspendNoirq,
    StageKind::ResumeNoirq,
    StageKind::ResumeEarly,
    StageKind::Resume,
    StageKind::Complete,
];

#[derive(Debug, Clone)]
pub struct Machine {
    /// In the order of registration: parents before their children.
    pub devices: Vec<Device>,
    pub kernel: Kernel,
    /// Whether devices may be asynchronous in the late, noirq and early stages, as since 3.15.
    pub async_noirq: bool,
    /// The maximum number of threads for asynchronous work; `None`: unlimited.
    pub threads: Option<usize>,
    /// All but the first one, which stays online.
    pub cpus: Vec<Cpu>,
    /// The suspending process.
    pub main: u32,
    /// The kernel's own time in each stage: before its first call, after its last one.
    pub own: [(Us, Us); StageKind::Thaw as usize + 1],
    pub asleep_us: Us,
}

#[derive(Debug, Clone)]
pub struct Device {
    pub name: String,
    pub driver: String,
    pub parent: Option<usize>,
    /// A device that must resume before this one, which no log shows.
    pub supplier: Option<usize>,
    pub asynchronous: bool,
    /// In the order of [`STAGES`].
    pub work: [Option<Work>; 8],
    /// Removed.
    pub absent: bool,
    /// Resumed after everything else.
    pub deferred: bool,
}

/// The duration of a callback.
#[derive(Debug, Clone, Copy)]
pub struct Work {
    /// From the end of all waiting to its call.
    pub before: Us,
    pub took: Us,
}

#[derive(Debug, Clone, Copy)]
pub struct Cpu {
    pub before: Us,
    pub off: Us,
    pub on: Us,
}

/// When asynchronous devices are passed to threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kernel {
    /// At the start of the stage: up to 6.7, and from 6.9 to 6.15.
    AtOnce,
    /// When the suspending process reaches them: 6.8, and stable kernels since January 2024.
    InTurn,
    /// When their parents (in a suspend: their children) are done, since 6.16.
    WhenReady,
}

/// The kind of machine to draw.
#[derive(Debug, Clone)]
pub struct Draw {
    pub devices: std::ops::RangeInclusive<usize>,
    /// Whether each wait is visible in the log: no suppliers, and no device without a callback for
    /// which another one waits except through an ancestor that has one.
    pub fully_logged: bool,
    pub threads: Option<usize>,
    /// `None`: one of those that show all waits.
    pub kernel: Option<Kernel>,
}

impl Draw {
    pub fn fully_logged(devices: std::ops::RangeInclusive<usize>) -> Draw {
        Draw {
            devices,
            fully_logged: true,
            threads: None,
            kernel: None,
        }
    }
}

impl Machine {
    pub fn draw(seed: u64, draw: &Draw) -> Machine {
        let rng = &mut fastrand::Rng::with_seed(seed);
        let count = rng.usize(draw.devices.clone());
        let mut devices: Vec<Device> = Vec::with_capacity(count);
        let asynchronous = rng.f64();
        let mut names = Names::default();
        for index in 0..count {
            let device = Device::draw(
                rng,
                &devices,
                index,
                asynchronous,
                draw.fully_logged,
                &mut names,
            );
            devices.push(device);
        }
        let mut own = [(0, 0); StageKind::Thaw as usize + 1];
        for (kind, own) in own.iter_mut().enumerate() {
            // These machines sleep by their firmware.
            if kind != StageKind::Idle as usize && kind != StageKind::Test as usize {
                *own = (rng.i64(0..3000), rng.i64(0..2000));
            }
        }
        // Logs show these stages by the end of the previous one.
        for kind in [StageKind::Suspend, StageKind::Complete, StageKind::Thaw] {
            own[kind as usize].0 = 0;
        }
        own[StageKind::CpusOff as usize].1 = 0;
        own[StageKind::CpusOn as usize].1 = 0;
        let drawn = *rng.choice(&[Kernel::AtOnce, Kernel::WhenReady]).unwrap();
        Machine {
            devices,
            kernel: draw.kernel.unwrap_or(drawn),
            async_noirq: draw.kernel.is_some() || rng.u8(0..4) > 0,
            threads: draw.threads,
            cpus: (0..rng.usize(0..9))
                .map(|_| Cpu {
                    before: rng.i64(1..100),
                    off: rng.i64(100..8000),
                    on: rng.i64(100..15_000),
                })
                .collect(),
            main: rng.u32(1000..9000),
            own,
            asleep_us: rng.i64(1000..9_000_000) / 1000 * 1000,
        }
    }

    /// The device and everything below it.
    pub fn with_below(&self, device: usize) -> Vec<usize> {
        let is_below = |&one: &usize| {
            let mut up = std::iter::successors(Some(one), |&one| self.devices[one].parent);
            up.any(|one| one == device)
        };
        (0..self.devices.len()).filter(is_below).collect()
    }

    pub fn without(mut self, devices: &[usize]) -> Machine {
        for &device in devices {
            for one in self.with_below(device) {
                self.devices[one].absent = true;
            }
        }
        self
    }

    pub fn defer(mut self, devices: &[usize]) -> Machine {
        for &device in devices {
            for one in self.with_below(device) {
                self.devices[one].deferred = true;
            }
        }
        self
    }

    /// The longest callback of the resume takes this long.
    pub fn set_longest(mut self, device: usize, us: Us) -> Machine {
        let work = &mut self.devices[device].work[4..];
        let longest = work.iter().flatten().map(|work| work.took).max();
        let mut work = work.iter_mut().flatten();
        if let Some(work) = work.find(|work| Some(work.took) == longest) {
            work.took = us;
        }
        self
    }
}

impl Device {
    fn draw(
        rng: &mut fastrand::Rng,
        before: &[Device],
        index: usize,
        asynchronous: f64,
        fully_logged: bool,
        names: &mut Names,
    ) -> Device {
        // Half of them near the previous device: deep trees as well as wide ones.
        let parent = match rng.u8(0..10) {
            _ if index == 0 => None,
            0 => None,
            1..6 => Some(rng.usize(index.saturating_sub(3)..index)),
            _ => Some(rng.usize(0..index)),
        };
        let mut asynchronous = rng.f64() < asynchronous;
        let busy = *rng.choice(&[0.3, 0.7, 1.0]).unwrap();
        let mut work = [0; 8].map(|_| (rng.f64() < busy).then(|| Work::draw(rng)));
        // Tracing shows `prepare` and `complete` of every device.
        for stage in [0, 7] {
            work[stage] = Some(Work {
                before: rng.i64(1..10),
                took: rng.i64(1..20),
            });
        }
        let above = |one: Option<usize>| std::iter::successors(one, |&one| before[one].parent);
        if fully_logged {
            // An asynchronous device waits until the suspending process has reached its synchronous
            // parent, and a synchronous one delays that process until its asynchronous parent is
            // done: a log shows neither without a callback.
            let silent = |one: usize| before[one].work.iter().any(Option::is_none);
            let mut sync = above(parent).filter(|&one| !before[one].asynchronous);
            if sync.any(silent) {
                asynchronous = false;
            }
            let under_async = above(parent).any(|one| before[one].asynchronous);
            if !asynchronous && under_async {
                work = work.map(|work| work.or_else(|| Some(Work::draw(rng))));
            }
        }
        let supplier =
            (!fully_logged && index > 0 && rng.u8(0..10) == 0).then(|| rng.usize(0..index));
        let (name, driver) = names.draw(rng);
        Device {
            name,
            driver,
            parent,
            supplier,
            asynchronous,
            work,
            absent: false,
            deferred: false,
        }
    }
}

impl Work {
    /// Most callbacks are short, and a few very long.
    fn draw(rng: &mut fastrand::Rng) -> Work {
        let took = match rng.u8(0..20) {
            0 => rng.i64(30_000..500_000),
            1..4 => rng.i64(500..30_000),
            _ => rng.i64(1..500),
        };
        Work {
            before: rng.i64(1..400),
            took,
        }
    }
}

/// Realistic names, all different.
#[derive(Default)]
struct Names {
    taken: BTreeSet<String>,
}

impl Names {
    fn draw(&mut self, rng: &mut fastrand::Rng) -> (String, String) {
        loop {
            let (n, m) = (rng.u32(0..9999), rng.u32(0..99));
            let (driver, name) = match rng.u8(0..13) {
                0 => ("ahci", format!("0000:{m:02x}:{:02x}.{}", n % 32, n % 8)),
                1 => (
                    "snd_hda_intel",
                    format!("0000:{:02x}:1b.{}", n % 256, m % 8),
                ),
                2 => ("usb", format!("{}-{}", m + 1, n)),
                3 => ("usb", format!("usb{n}")),
                4 => ("uvcvideo", format!("{}-{}:1.{}", m + 1, n, m % 4)),
                5 => ("scsi", format!("target{n}:0:{m}")),
                6 => ("sd", format!("{n}:0:0:{m}")),
                7 => ("ata", format!("ata{n}")),
                8 => ("i2c_hid_acpi", format!("i2c-ELAN{n:04}:{m:02}")),
                9 => ("pcieport", format!("0000:00:{:02x}.{}", n % 32, m % 8)),
                10 => ("i8042 aux", format!("{n:02}:{m:02}")),
                11 => ("platform", format!("PNP{n:04X}:{m:02}")),
                _ => ("snd_hda_codec_realtek", format!("hdaudioC{n}D{m}")),
            };
            if self.taken.insert(name.clone()) {
                return (name, driver.to_owned());
            }
        }
    }
}
