//! What the service holds now, where, for whom, since when, and what it cost: for people and programs.

use std::path::PathBuf;

use reveille_kernel::requests;
use serde::{Deserialize, Serialize};

use crate::judge::{InTheWay, Judged};

/// Version of [`Status`] as JSON.
pub const SCHEMA_VERSION: u32 = 1;

/// All of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// [`SCHEMA_VERSION`].
    pub schema_version: u32,
    /// `reveille 0.1.0`.
    pub tool: String,
    /// The service's process.
    pub pid: u32,
    /// Since when it runs, s.
    pub running_s: f64,
    /// The rules' file.
    pub file: PathBuf,
    /// When the rules in force were read: RFC 3339, UTC.
    pub read: String,
    /// Why the file's present content is refused, if it is: the rules before stay in force.
    pub refused: Option<String>,
    /// What does not work, a sentence each without its full stop.
    pub problems: Vec<String>,
    /// Do the rules ask for wake latencies among the metrics?
    #[serde(default)]
    pub wake_latency: bool,
    /// In the file's order.
    pub rules: Vec<RuleStatus>,
    /// Holds of programs, oldest first.
    pub holds: Vec<HoldStatus>,
    /// Ascending.
    pub cpus: Vec<CpuStatus>,
    /// What the service itself took.
    pub own: Own,
    /// Only with accounting, and rules with traffic.
    pub accounted: Option<Accounted>,
}

impl Status {
    /// What keeps bounds out.
    pub fn in_the_way(&self) -> Vec<InTheWay> {
        let cpus = self.cpus.iter();
        let cpus = cpus.filter_map(|cpu| {
            let value = cpu.in_the_way.clone()?;
            Some(InTheWay {
                cpu: cpu.cpu,
                value,
            })
        });
        cpus.collect()
    }
}

/// What the kernel's programs did and cost, and whether bounds came in time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Accounted {
    /// Idle entries before a bound that was asked for was in force.
    pub late: u64,
    /// Packets of rules, and requests, that the programs saw.
    #[serde(default)]
    pub packets: u64,
    /// Runs of the programs.
    pub program_runs: u64,
    /// Their time, ns, without what an empty program takes.
    pub program_ns: u64,
}

impl Accounted {
    /// With what other programs did and cost before.
    pub fn and(self, before: Self) -> Self {
        Self {
            late: self.late + before.late,
            packets: self.packets + before.packets,
            program_runs: self.program_runs + before.program_runs,
            program_ns: self.program_ns + before.program_ns,
        }
    }
}

/// A rule and how it was in force.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RuleStatus {
    /// What it asks of this machine.
    #[serde(flatten)]
    pub judged: Judged,
    /// What it waits for, if something is missing: `interface eth9`.
    pub waits_for: Option<String>,
    /// CPUs on which it is in force now, ascending.
    pub in_force: Vec<u32>,
    /// How often it came into force, a sum over CPUs.
    pub times: u64,
    /// For how long it was in force, s, a sum over CPUs.
    pub held_s: f64,
    /// Packets seen; `None` without traffic.
    pub packets: Option<u64>,
    /// Requests to the disk that were seen; `None` without a disk.
    pub requests: Option<u64>,
}

/// A program's hold.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HoldStatus {
    /// Its number.
    pub number: u64,
    /// The user who asks.
    pub uid: u32,
    /// The process that asks; 0 if unknown.
    pub pid: u32,
    /// The program that asks.
    pub name: String,
    /// What for, in its words.
    pub reason: String,
    /// Since when, s.
    pub held_s: f64,
    /// What it asks of this machine.
    #[serde(flatten)]
    pub judged: Judged,
}

/// A CPU.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CpuStatus {
    /// Its number.
    pub cpu: u32,
    /// The bound that is wanted, µs; 0: no sleep; `None`: none.
    pub bound_us: Option<u32>,
    /// Since when, s.
    pub since_s: Option<f64>,
    /// Another program's value, which keeps the bound out: `20`, `n/a`.
    pub in_the_way: Option<String>,
    /// Why the bound could not be set or taken back.
    pub failed: Option<String>,
    /// Of each rule, and then of each hold that covers the CPU.
    pub why: Vec<Why>,
}

impl CpuStatus {
    /// Whether the bound that is wanted is kept; false, too, where none is.
    pub fn is_kept(&self) -> bool {
        let is_kept = |us| {
            self.in_the_way
                .as_deref()
                .is_none_or(|value| requests::is_within(value, us))
        };
        self.failed.is_none() && self.bound_us.is_some_and(is_kept)
    }

    /// Whether it is another program's tighter bound that keeps it.
    pub fn is_kept_by_another(&self) -> bool {
        self.in_the_way.is_some() && self.is_kept()
    }
}

/// Why a rule or hold is in force on a CPU, or is not.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Why {
    /// The rule's name, or `hold 7`.
    pub of: String,
    /// Is it?
    pub in_force: bool,
    /// Why, in words: `a packet 3 ms ago`.
    pub why: String,
}

/// The service's own use of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Own {
    /// CPU time, s.
    pub cpu_s: f64,
    /// How often one of its threads ran after it had waited.
    pub wakeups: u64,
}

impl Own {
    /// Of this process, so far.
    pub fn now() -> Self {
        use nix::sys::resource::{UsageWho, getrusage};
        let usage = getrusage(UsageWho::RUSAGE_SELF).expect("the kernel knows this process");
        let seconds =
            |time: nix::sys::time::TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
        Self {
            cpu_s: seconds(usage.user_time()) + seconds(usage.system_time()),
            wakeups: usage.voluntary_context_switches().try_into().unwrap_or(0),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A CPU on which 50 µs are wanted, and another program's value of the setting.
    pub(crate) fn wanting(cpu: u32, in_the_way: Option<&str>) -> CpuStatus {
        CpuStatus {
            cpu,
            bound_us: Some(50),
            since_s: Some(1.0),
            in_the_way: in_the_way.map(str::to_owned),
            failed: None,
            why: Vec::new(),
        }
    }

    #[test]
    fn a_bound_is_kept_by_the_service_by_another_program_or_not_at_all() {
        let kept = |in_the_way| {
            let cpu = wanting(0, in_the_way);
            (cpu.is_kept(), cpu.is_kept_by_another())
        };
        assert_eq!(kept(None), (true, false));
        assert_eq!(kept(Some("20")), (true, true));
        assert_eq!(kept(Some("n/a")), (true, true));
        assert_eq!(kept(Some("100")), (false, false));
        let failed = CpuStatus {
            failed: Some("why".into()),
            ..wanting(0, Some("20"))
        };
        assert!(!failed.is_kept_by_another());
    }
}
