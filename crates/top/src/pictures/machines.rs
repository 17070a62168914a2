//! Invented machines: a realistic hybrid one, a virtual one, and random ones.

use reveille_watch::live::*;

/// A wave between 0 and 1, so that trends have something to show.
fn wave(refresh: usize, period: usize) -> f64 {
    let phase = (refresh % period) as f64 / period as f64;
    (phase * std::f64::consts::TAU).sin() / 2.0 + 0.5
}

fn latency(count: u64, median_us: f64) -> Option<WakeLatency> {
    Some(WakeLatency {
        count,
        mean_ns: median_us * 1.1e3,
        median_ns: median_us * 1e3,
        p99_ns: (count >= 1000).then_some(median_us * 1.9e3),
        max_ns: (median_us * 3.4e3) as u64,
    })
}

/// Name, share, mean stay in µs, exit latency in µs, how much slower than that it wakes.
type Row = (&'static str, f64, f64, u64, f64);

const PERFORMANCE: [Row; 4] = [
    ("POLL", 0.001, 12.0, 0, 0.0),
    ("C1E", 0.12, 180.0, 2, 1.4),
    ("C6", 0.23, 900.0, 185, 0.7),
    ("C10", 0.649, 4200.0, 230, 1.2),
];
const EFFICIENT: [Row; 3] = [
    ("POLL", 0.0005, 9.0, 0, 0.0),
    ("C1E", 0.08, 150.0, 2, 1.1),
    ("C8", 0.9195, 6100.0, 290, 0.6),
];

fn states(rows: &[Row], idle_percent: f64, disabled: &[&str]) -> Vec<StateShare> {
    let state = |(index, (name, of_idle, stay_us, exit, slower)): (usize, &Row)| {
        let off = disabled.contains(name);
        let share = if off { 0.0 } else { of_idle * idle_percent };
        let uses = share / 100.0 * 1e6 / stay_us;
        StateShare {
            name: (*name).into(),
            index: Some(index as u32),
            counted_by: CountedBy::Kernel,
            share_percent: Some(share),
            mean_stay_us: (!off).then_some(*stay_us),
            uses_per_s: Some(uses),
            above_percent: (index > 0).then_some(3.2 * index as f64),
            below_percent: Some(1.1),
            disabled: Some(off),
            exit_latency_us: Some(*exit),
            target_residency_us: Some(exit * 3),
            wake_latency: match *exit > 0 && !off {
                true => latency((uses * 40.0) as u64, *exit as f64 * slower),
                false => None,
            },
        }
    };
    rows.iter().enumerate().map(state).collect()
}

fn unit(level: Level, label: String, cpus: Vec<u32>, awake_percent: f64, rows: &[Row]) -> Unit {
    let states = states(rows, 100.0 - awake_percent, &[]);
    let uses: f64 = states.iter().filter_map(|state| state.uses_per_s).sum();
    let uses = uses * cpus.len() as f64;
    Unit {
        level,
        label,
        cpus,
        online: true,
        awake_percent: Some(awake_percent),
        wakeups_per_s: Some(uses),
        idle_entries_per_s: Some(uses),
        frequency: Some(Frequency {
            mhz: 2300.0 + 25.0 * awake_percent,
            told_by: FrequencyFrom::Counters,
            min_mhz: Some(400.0),
            max_mhz: Some(5200.0),
            base_mhz: Some(2100.0),
            turbo: Some(true),
        }),
        above_percent: Some(4.4),
        below_percent: Some(1.1),
        leaving_percent: Some(2.7),
        states,
        ..Unit::default()
    }
}

/// Four performance cores, three efficient ones of which one is limited, and one that is offline.
pub fn hybrid(refresh: usize) -> Snapshot {
    let cpu = |number: u32| {
        let awake = 4.0 + f64::from(number) * 3.0 + 20.0 * wave(refresh + 9 * number as usize, 37);
        let rows: &[Row] = if number < 4 { &PERFORMANCE } else { &EFFICIENT };
        let mut unit = unit(
            Level::Cpu,
            format!("CPU {number}"),
            vec![number],
            awake,
            rows,
        );
        let kind = if number < 4 {
            "performance cores"
        } else {
            "efficient cores"
        };
        unit.kind = Some(kind.into());
        if number == 4 {
            unit.bound_us = Some(20);
            unit.states = states(rows, 100.0 - awake, &["C8"]);
        }
        if number == 7 {
            return Unit {
                level: Level::Cpu,
                label: unit.label,
                kind: unit.kind,
                cpus: unit.cpus,
                ..Unit::default()
            };
        }
        unit
    };
    let cpus: Vec<Unit> = (0..8).map(cpu).collect();
    let awake = 10.0 + 20.0 * wave(refresh, 37);
    let mut machine = unit(
        Level::Machine,
        "machine".into(),
        (0..8).collect(),
        awake,
        &PERFORMANCE,
    );
    machine.states.push(StateShare {
        name: "C8".into(),
        ..states(&EFFICIENT, 12.0, &[])[2].clone()
    });
    machine.states.push(StateShare {
        name: "PC6".into(),
        counted_by: CountedBy::Hardware,
        share_percent: Some(31.5),
        ..StateShare::default()
    });
    machine.power = [
        ("package-0", PowerKind::Package, 9.31),
        ("core", PowerKind::Cores, 4.02),
        ("battery BAT0", PowerKind::Battery, 12.4),
    ]
    .map(|(meter, kind, watts)| Power {
        meter: meter.into(),
        kind,
        watts,
    })
    .into();
    let package = Unit {
        level: Level::Package,
        label: "package 0".into(),
        ..machine.clone()
    };
    let core = |number: u32| Unit {
        level: Level::Core,
        label: format!("core {number}"),
        ..cpus[number as usize].clone()
    };
    Snapshot {
        schema_version: SCHEMA_VERSION,
        time_unix_s: 1.76e9 + refresh as f64,
        elapsed_s: 1.0,
        driver: Some("intel_idle".into()),
        governor: Some("menu".into()),
        cores: (0..8).map(core).collect(),
        packages: vec![package],
        machine,
        cpus,
        wakers: wakers(),
        bounds: bounds(),
        own: OwnCost {
            cpu_percent: Some(0.31),
            bpf_percent: Some(0.12),
            wakeups_per_s: Some(1.0),
        },
        notes: vec!["no SMI count: the msr PMU is not there".into()],
    }
}

fn wakers() -> Vec<Waker> {
    let waker =
        |kind, name: &str, command: Option<(&str, u32)>, irq, cpu, wakes_per_s: f64| Waker {
            kind,
            name: name.into(),
            command: command.map(|(command, _)| command.into()),
            pid: command.map(|(_, pid)| pid),
            irq,
            cpu,
            per_s: (kind != WakerKind::Ipi).then_some(wakes_per_s * 1.3),
            wakes_per_s: Some(wakes_per_s),
            joint_ended_per_s: None,
        };
    let (device, timer, ipi) = (WakerKind::Interrupt, WakerKind::Timer, WakerKind::Ipi);
    vec![
        waker(device, "nvme0q3", None, Some(134), 2, 812.4),
        waker(timer, "tick_nohz_handler", None, None, 0, 250.0),
        waker(
            timer,
            "hrtimer_wakeup",
            Some(("pipewire", 1834)),
            None,
            5,
            187.5,
        ),
        waker(device, "iwlwifi:default_queue", None, Some(141), 0, 96.2),
        waker(ipi, "reschedule", Some(("make", 40_711)), None, 1, 44.0),
        waker(
            timer,
            "hrtimer_wakeup",
            Some(("sshd-session", 812)),
            None,
            3,
            2.0,
        ),
        waker(WakerKind::Other, "vector 246", None, None, 6, 0.0),
    ]
}

fn bounds() -> Vec<Bound> {
    vec![
        Bound {
            kind: BoundKind::PerCpu,
            cpus: vec![4],
            bound_us: Some(20),
            rules_out: vec!["C8".into()],
            pid: None,
            name: None,
            command: None,
            text: "CPU 4 may take 20 µs: power/pm_qos_resume_latency_us".into(),
        },
        Bound {
            kind: BoundKind::Request,
            cpus: Vec::new(),
            bound_us: None,
            rules_out: Vec::new(),
            pid: Some(1834),
            name: Some("pipewire".into()),
            command: Some("/usr/bin/pipewire -c low-latency.conf".into()),
            text: "holds /dev/cpu_dma_latency open".into(),
        },
        Bound {
            kind: BoundKind::DisabledState,
            cpus: vec![4],
            bound_us: None,
            rules_out: vec!["C8".into()],
            pid: None,
            name: None,
            command: None,
            text: "C8 is disabled".into(),
        },
    ]
}

/// Two CPUs under a hypervisor: no frequency, no power, no useful driver's figures.
pub fn virtual_machine(refresh: usize) -> Snapshot {
    let states = |idle: f64| {
        let state = |index: u32, name: &str, share: f64, latency| StateShare {
            name: name.into(),
            index: Some(index),
            counted_by: CountedBy::Trace,
            share_percent: Some(share),
            mean_stay_us: Some(1903.0),
            uses_per_s: Some(share * 5.25),
            disabled: Some(false),
            exit_latency_us: Some(u64::from(index)),
            wake_latency: latency,
            ..StateShare::default()
        };
        vec![
            state(0, "POLL", 0.3, None),
            state(1, "haltpoll", idle, latency(15_342, 43.5)),
        ]
    };
    let unit = |level, label: &str, cpus: Vec<u32>, awake: f64| Unit {
        level,
        label: label.into(),
        cpus,
        online: true,
        states: states(99.7 - awake),
        awake_percent: Some(awake),
        wakeups_per_s: Some(520.0 - awake),
        ..Unit::default()
    };
    let awake = 60.0 * wave(refresh, 50);
    Snapshot {
        schema_version: SCHEMA_VERSION,
        elapsed_s: 1.0,
        driver: Some("haltpoll".into()),
        governor: Some("haltpoll".into()),
        machine: unit(Level::Machine, "machine", vec![0, 1], awake),
        packages: vec![unit(Level::Package, "package 0", vec![0, 1], awake)],
        cores: vec![unit(Level::Core, "core 0", vec![0, 1], awake)],
        cpus: vec![
            unit(Level::Cpu, "CPU 0", vec![0], awake),
            unit(Level::Cpu, "CPU 1", vec![1], awake / 2.0),
        ],
        notes: vec![
            "no frequency: this machine has no cpufreq".into(),
            "no power: neither RAPL nor a battery".into(),
        ],
        ..Snapshot::default()
    }
}

/// Random machines, the same ones in each run.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Steele, Lea and Flood: SplitMix64 (OOPSLA 2014).
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    fn one<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize].clone()
    }

    pub fn key(&mut self) -> char {
        self.one(&[
            '1', '2', '3', 'm', 'p', 'o', 'c', 'v', 's', 'r', 'j', 'G', '/', 'h', ' ',
        ])
    }

    fn number(&mut self) -> Option<f64> {
        self.one(&[
            None,
            Some(0.0),
            Some(12.345),
            Some(100.0),
            Some(-1.0),
            Some(1e12),
            Some(f64::NAN),
            Some(f64::INFINITY),
        ])
    }

    fn word(&mut self) -> String {
        self.one(&[
            "",
            "C6",
            "a name that is much longer than any state's",
            "漢字漢字漢字",
            "\x1b[31mred\n",
            "e\u{301}",
        ])
        .into()
    }

    fn some<T>(&mut self, most: u64, mut make: impl FnMut(&mut Self) -> T) -> Vec<T> {
        (0..self.below(most + 1)).map(|_| make(self)).collect()
    }

    fn unit(&mut self, level: Level) -> Unit {
        let word = self.word();
        Unit {
            level,
            label: format!("{level:?} {word}"),
            kind: self.one(&[None, Some(String::new()), Some("efficient cores".into())]),
            cpus: self.some(3, |random| random.below(9) as u32),
            online: self.below(4) > 0,
            states: self.some(12, Self::state),
            awake_percent: self.number(),
            wakeups_per_s: self.number(),
            joint_sleep: self.number().map(|number| JointSleep {
                share_percent: number,
                ended_per_s: number,
                mean_us: self.number(),
                median_us: self.number(),
                p99_us: self.number(),
            }),
            idle_entries_per_s: self.number(),
            power: self.some(2, |random| Power {
                meter: random.word(),
                kind: PowerKind::Dram,
                watts: random.number().unwrap_or(1.0),
            }),
            leaving_percent: self.number(),
            bound_us: self.one(&[None, Some(0), Some(u32::MAX)]),
            ..Unit::default()
        }
    }

    fn state(&mut self) -> StateShare {
        StateShare {
            name: self.word(),
            index: self.one(&[None, Some(3)]),
            counted_by: self.one(&[CountedBy::Kernel, CountedBy::Trace, CountedBy::Hardware]),
            share_percent: self.number(),
            mean_stay_us: self.number(),
            uses_per_s: self.number(),
            disabled: self.one(&[None, Some(true), Some(false)]),
            exit_latency_us: self.one(&[None, Some(u64::MAX)]),
            wake_latency: self.one(&[None, latency(5, 1.0), latency(u64::MAX, 1e9)]),
            ..StateShare::default()
        }
    }

    pub fn snapshot(&mut self) -> Snapshot {
        Snapshot {
            elapsed_s: self.number().unwrap_or(1.0),
            driver: self.one(&[None, Some("intel_idle".into())]),
            machine: self.unit(Level::Machine),
            packages: self.some(2, |random| random.unit(Level::Package)),
            cores: self.some(9, |random| random.unit(Level::Core)),
            cpus: self.some(25, |random| random.unit(Level::Cpu)),
            wakers: self.some(50, |random| Waker {
                kind: random.one(&[WakerKind::Ipi, WakerKind::Other]),
                name: random.word(),
                command: random.one(&[None, Some("sshd".into())]),
                pid: random.one(&[None, Some(1)]),
                irq: random.one(&[None, Some(9)]),
                cpu: random.below(20) as u32,
                per_s: random.number(),
                wakes_per_s: random.number(),
                joint_ended_per_s: random.number(),
            }),
            bounds: self.some(9, |random| Bound {
                kind: random.one(&[BoundKind::Request, BoundKind::CommandLine]),
                cpus: random.some(3, |random| random.below(9) as u32),
                bound_us: random.one(&[None, Some(0), Some(u32::MAX)]),
                rules_out: random.some(4, Self::word),
                pid: random.one(&[None, Some(1)]),
                name: random.one(&[None, Some("sshd".into())]),
                command: Some(random.word()),
                text: random.word(),
            }),
            notes: self.some(3, Self::word),
            ..Snapshot::default()
        }
    }
}
