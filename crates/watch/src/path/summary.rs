//! Packets summarised by the state of the CPU that they met: `path.json`.

use std::collections::BTreeMap;

use reveille_kernel::{Identity, Idle};
use reveille_results::Description;
use reveille_results::schema::DEFAULT_IDLE;
use reveille_results::statistics::{StateStatistics, Summary, summarise};
use serde::{Deserialize, Serialize};

use super::Follow;
use super::packet::{Cause, Met, Packet, stages, whole_ns};
use super::stage::Stage;

/// The file's name in its folder.
pub const FILE: &str = "path.json";

/// The version of the file's schema.
pub const SCHEMA_VERSION: u32 = 1;

/// Counts of the packets that match.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Counts {
    /// Matching packets, including those not followed.
    pub seen: u64,
    /// Packets in the figures.
    pub followed: u64,
    /// Evenly skipped, because of the rate.
    pub left_out: u64,
    /// Fragments of IP packets, which are not followed.
    pub fragments: u64,
    /// No reply was made while the request was handled.
    pub unanswered: u64,
    /// No reader slept: it was awake, or there is none.
    pub nobody_woken: u64,
    /// The reader was woken again before it had returned.
    pub not_returned: u64,
    /// The ring buffer to this program was full.
    pub ring_full: u64,
}

/// The programs' cost as the kernel counts it, on all CPUs together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cost {
    /// CPU time of the programs, ns, as the kernel counts it (`BPF_ENABLE_STATS`).
    pub run_time_ns: u64,
    /// Runs of the programs.
    pub runs: u64,
}

/// What was followed, where and when.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Subject {
    /// Which packets, and to which end.
    pub follow: Follow,
    /// `None`: all interfaces.
    pub interface: Option<String>,
    /// The readers' TCP or UDP port; `None`: all ports.
    pub port: Option<u16>,
    /// RFC 3339, UTC.
    pub started: String,
    /// The machine that received.
    pub machine: Identity,
    /// cpuidle's driver, if any.
    pub driver: Option<String>,
    /// cpuidle's governor, if any.
    pub governor: Option<String>,
}

/// The latency of packets, by stage.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Path {
    /// [`SCHEMA_VERSION`] of the writer.
    pub schema_version: u32,
    /// `reveille 0.1.0`.
    pub tool: String,
    /// What was followed, where and when.
    #[serde(flatten)]
    pub subject: Subject,
    /// Duration, s.
    pub elapsed_s: f64,
    /// Ended by Ctrl-C or another signal.
    pub interrupted: bool,
    /// Counts of packets.
    pub counts: Counts,
    /// The programs' cost; `None` if the kernel does not count it.
    pub cost: Option<Cost>,
    /// By depth of the state, then those that met an awake CPU, then those of a poll.
    pub groups: Vec<Group>,
    /// Where readers ran; `None` if none was woken.
    pub readers: Option<ReadersPlace>,
    /// Other causes of latency.
    pub delays: Vec<Delay>,
}

/// Packets that met the CPU in the same state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Group {
    /// The idle state; `None` for a CPU that was awake.
    pub state: Option<String>,
    /// They came behind others in one poll: the CPU's state is unknown.
    pub in_poll: bool,
    /// Packets in the group.
    pub packets: u64,
    /// Why the CPU looked for them.
    pub causes: BTreeMap<String, u64>,
    /// The idle periods that they ended, up to the first code.
    pub asleep: Option<Summary>,
    /// The first instant is the sender's, so the stages include the wake-up.
    pub from_sender: bool,
    /// From the first observed instant to the last.
    pub whole: Summary,
    /// In a packet's order, without those that no packet of the group has.
    pub stages: Vec<StageFigures>,
    /// The wake-up before the first code, estimated by a result; not in the other figures.
    pub estimate: Option<Estimate>,
}

/// One stage of a group's packets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StageFigures {
    /// The stage.
    pub stage: Stage,
    /// Over the packets that have it.
    #[serde(flatten)]
    pub summary: Summary,
    /// Its mean over all packets of the group: the stages' shares add up to the whole's mean.
    pub share_of_mean_ns: f64,
}

impl Path {
    /// Adds the wake latency of each state from a measured result, by the source most like a packet: a card,
    /// or another CPU, which is as unpredictable.
    pub fn estimate(&mut self, result: &Description) {
        for group in self.groups.iter_mut().filter(|group| !group.from_sender) {
            let of_state = |source: &str| {
                let is_it = |one: &&StateStatistics| {
                    group.state.as_ref() == Some(&one.state) && one.source == source
                };
                result.statistics.iter().find(is_it)
            };
            let best = ["nic", "remote", "timer"].into_iter().find_map(of_state);
            group.estimate = best.map(|statistics| Estimate {
                result: result.name.clone(),
                source: statistics.source.clone(),
                median_ns: statistics.wake_latency.median_ns,
                p99_ns: statistics.wake_latency.p99_ns,
            });
        }
    }
}

/// The wake latency of the state, from a measured result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// The result's name.
    pub result: String,
    /// The result's source: `nic`, `remote` or `timer`.
    pub source: String,
    /// Its median wake latency, ns.
    pub median_ns: i64,
    /// Its 99th percentile, ns; `None` below 1000 datapoints.
    pub p99_ns: Option<i64>,
}

/// Where the woken readers ran, compared with where their packets were received.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReadersPlace {
    /// Names of threads, with their wake-ups.
    pub names: BTreeMap<String, u64>,
    /// CPUs that received packets.
    pub received_on: Vec<u32>,
    /// CPUs on which woken readers ran.
    pub read_on: Vec<u32>,
    /// From the start of the wake-up to the reader's first instruction.
    pub on_the_same_cpu: Option<Summary>,
    /// The same, if the reader's CPU was not the receiving one.
    pub on_another_cpu: Option<Summary>,
    /// Readers whose CPU slept.
    pub cpu_asleep: u64,
}

/// One setting and what it does to a packet's latency.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delay {
    /// `interrupt coalescing`.
    pub what: String,
    /// Of which interface; `None` for the whole machine.
    pub interface: Option<String>,
    /// The present setting.
    pub now: String,
    /// What it adds. `None`: nothing.
    pub adds: Option<String>,
    /// A command that takes it away.
    pub set: Option<String>,
}

/// Sums over packets so far.
#[derive(Default)]
pub struct Gathered {
    groups: BTreeMap<Key, Sums>,
    same: Vec<i64>,
    other: Vec<i64>,
    names: BTreeMap<String, u64>,
    received_on: Vec<u32>,
    read_on: Vec<u32>,
    cpu_asleep: u64,
    /// Indices of the packets' interfaces, ascending.
    pub interfaces: Vec<u32>,
    /// The number of packets.
    pub packets: u64,
}

/// In the order of display.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    /// By index, for depth.
    Asleep(i32, String),
    Awake,
    InPoll,
}

#[derive(Default)]
struct Sums {
    whole: Vec<i64>,
    asleep: Vec<i64>,
    stages: BTreeMap<Stage, Vec<i64>>,
    causes: BTreeMap<String, u64>,
    from_sender: u64,
}

impl Gathered {
    /// Each group's number of packets, in the order of display.
    pub fn by_group(&self) -> Vec<(String, u64)> {
        let count = |(key, sums): (&Key, &Sums)| (key.name().to_owned(), sums.whole.len() as u64);
        self.groups.iter().map(count).collect()
    }

    /// Adds a packet; `idle` has the states' names.
    pub fn add(&mut self, idle: &Idle, packet: &Packet) {
        let key = match packet.met {
            Met::Asleep(sleep) => {
                Key::Asleep(sleep.state, state_name(idle, packet.cpu, sleep.state))
            }
            Met::Awake => Key::Awake,
            Met::InPoll => Key::InPoll,
        };
        self.packets += 1;
        keep(&mut self.interfaces, packet.interface);
        let sums = self.groups.entry(key).or_default();
        sums.whole.push(whole_ns(packet));
        if let Met::Asleep(sleep) = packet.met {
            sums.asleep.push(sleep.length_ns as i64);
        }
        for (stage, ns) in stages(packet) {
            sums.stages.entry(stage).or_default().push(ns);
        }
        sums.from_sender += u64::from(packet.sent.is_some());
        *sums.causes.entry(cause_name(packet.cause)).or_default() += 1;
        self.add_reader(packet);
    }

    fn add_reader(&mut self, packet: &Packet) {
        let end = |stage| packet.ends.get(&stage);
        let (Some(reader), Some(waking), Some(returned)) =
            (&packet.reader, end(Stage::Socket), end(Stage::Return))
        else {
            return;
        };
        let place = match reader.cpu == packet.cpu {
            true => &mut self.same,
            false => &mut self.other,
        };
        place.push(*returned as i64 - *waking as i64);
        *self.names.entry(reader.name.clone()).or_default() += 1;
        keep(&mut self.received_on, packet.cpu);
        keep(&mut self.read_on, reader.cpu);
        self.cpu_asleep += u64::from(reader.sleep.is_some());
    }

    /// Where readers ran; `None` if none was woken.
    pub fn readers(&self) -> Option<ReadersPlace> {
        (!self.names.is_empty()).then(|| ReadersPlace {
            names: self.names.clone(),
            received_on: self.received_on.clone(),
            read_on: self.read_on.clone(),
            on_the_same_cpu: summarise(&mut self.same.clone()),
            on_another_cpu: summarise(&mut self.other.clone()),
            cpu_asleep: self.cpu_asleep,
        })
    }

    /// The groups in the order of display.
    pub fn groups(self) -> Vec<Group> {
        self.groups
            .into_iter()
            .filter_map(|(key, sums)| group(key, sums))
            .collect()
    }
}

impl Key {
    fn name(&self) -> &str {
        match self {
            Self::Asleep(_, state) => state,
            Self::Awake => "awake",
            Self::InPoll => "in a poll",
        }
    }
}

impl Group {
    /// The state's name, `awake` or `in a poll`.
    pub fn name(&self) -> &str {
        match (&self.state, self.in_poll) {
            (Some(state), _) => state,
            (None, false) => Key::Awake.name(),
            (None, true) => Key::InPoll.name(),
        }
    }
}

/// Inserts into a sorted list without duplicates.
fn keep(numbers: &mut Vec<u32>, number: u32) {
    if let Err(place) = numbers.binary_search(&number) {
        numbers.insert(place, number);
    }
}

fn cause_name(cause: Cause) -> String {
    match cause {
        Cause::Device(irq) => format!("interrupt {irq}"),
        Cause::OtherCpu => "another CPU".to_owned(),
        Cause::Timer => "timer".to_owned(),
        Cause::ThisCpu => "this CPU".to_owned(),
        Cause::Unseen => "not seen".to_owned(),
    }
}

/// The idle driver's name of the state on that CPU; without a driver, `default_idle`.
fn state_name(idle: &Idle, cpu: u32, index: i32) -> String {
    let states = idle.cpu(cpu).map_or(&[][..], |cpu| &cpu.states);
    let state = states
        .iter()
        .find(|state| i64::from(state.index) == i64::from(index));
    match state {
        Some(state) => state.name.clone(),
        None if states.is_empty() => DEFAULT_IDLE.to_owned(),
        None => format!("state{index}"),
    }
}

fn group(key: Key, mut sums: Sums) -> Option<Group> {
    let whole = summarise(&mut sums.whole)?;
    let figures = |(stage, mut sample): (Stage, Vec<i64>)| {
        let summary = summarise(&mut sample)?;
        Some(StageFigures {
            stage,
            share_of_mean_ns: summary.mean_ns * summary.count as f64 / whole.count as f64,
            summary,
        })
    };
    Some(Group {
        in_poll: key == Key::InPoll,
        state: match key {
            Key::Asleep(_, state) => Some(state),
            Key::Awake | Key::InPoll => None,
        },
        packets: whole.count,
        causes: sums.causes,
        asleep: summarise(&mut sums.asleep),
        from_sender: sums.from_sender == whole.count,
        stages: sums.stages.into_iter().filter_map(figures).collect(),
        whole,
        estimate: None,
    })
}

/// Reads a `path.json`; the error is one line: it is another file, or has an unknown schema.
pub fn read(text: &[u8]) -> Result<Path, String> {
    reveille_results::kept::parse(text, FILE, SCHEMA_VERSION)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::Sleep;
    use reveille_kernel::Root;

    fn packet(state: i32, protocol: u64, transmitted: u64) -> Packet {
        Packet {
            ends: [
                (Stage::Interrupt, 100),
                (Stage::Protocol, 100 + protocol),
                (Stage::Transmit, 100 + protocol + transmitted),
            ]
            .into(),
            met: match state {
                -1 => Met::Awake,
                state => Met::Asleep(Sleep {
                    state,
                    length_ns: 5_000,
                }),
            },
            ..Packet::default()
        }
    }

    #[test]
    fn groups_are_ordered_by_depth_and_their_stages_add_up_to_the_whole() {
        let machine = tempfile::tempdir().unwrap();
        let cpu = machine.path().join("sys/devices/system/cpu");
        std::fs::create_dir_all(&cpu).unwrap();
        std::fs::write(cpu.join("present"), "0\n").unwrap();
        std::fs::write(cpu.join("online"), "0\n").unwrap();
        let idle = Idle::read(&Root::at(machine.path())).unwrap();
        let mut gathered = Gathered::default();
        for one in [packet(-1, 4, 1), packet(1, 10, 2), packet(1, 20, 4)] {
            gathered.add(&idle, &one);
        }
        let groups = gathered.groups();
        let names: Vec<&str> = groups.iter().map(Group::name).collect();
        assert_eq!(names, [DEFAULT_IDLE, "awake"]);
        assert_eq!(groups[0].asleep.as_ref().unwrap().median_ns, 5_000);
        assert_eq!(groups[1].asleep, None);
        for group in groups {
            let sum: f64 = group.stages.iter().map(|one| one.share_of_mean_ns).sum();
            assert!((sum - group.whole.mean_ns).abs() < 1e-6, "{group:?}");
        }
    }

    #[test]
    fn other_files_are_refused_in_one_line() {
        for (text, word) in [
            ("", "cut short"),
            ("{}", "no schema_version"),
            ("{\"schema_version\": 9}", "schema version 9"),
            ("{\"schema_version\": 1}", "cut short"),
        ] {
            let why = read(text.as_bytes()).unwrap_err();
            assert!(why.contains(word) && !why.contains('\n'), "{why}");
        }
    }
}
