//! What is run under each setting, and gives figures.

mod client;
mod command;
mod echo;
mod message;
mod ping;
mod requests;
mod rhythm;
mod server;

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use client::Client;
pub use command::{Command, Figure};
pub use echo::Transport;
pub use requests::Pace;
pub use rhythm::{Bursts, Rhythm};
pub use server::{Server, parse_address};

use crate::Result;

/// The unit of figures that are times; every other unit is the user's word.
pub const NANOSECONDS: &str = "ns";

/// What a workload is, for whoever reads the result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Description {
    /// `command`, `ping` or `echo`.
    pub kind: String,
    /// One line: what was run, or who was asked and how.
    pub what: String,
    /// What the figure is: `duration`, `round trip`, `round trip within bursts`, or the user's expression.
    pub figure: String,
    /// [`NANOSECONDS`], or the user's word; empty where none was given.
    pub unit: String,
    /// Is a larger figure the better one? Not of times.
    pub higher_is_better: bool,
    /// `None` for a command.
    pub pace: Option<PaceDescription>,
    /// What a reader must know of this figure (one sentence each).
    pub notes: Vec<String>,
}

/// How often was asked, and with how much.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PaceDescription {
    /// As many as were asked for in each round.
    pub requests_per_round: u32,
    /// From an answer to the next request, the mean, ms; `None` in bursts.
    pub interval_ms: Option<f64>,
    /// `None` where requests are sent evenly.
    pub bursts: Option<BurstsDescription>,
    /// How long an answer is waited for, ms.
    pub timeout_ms: f64,
    /// Bytes of payload in a request.
    pub size_bytes: usize,
}

/// How requests come in bursts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BurstsDescription {
    /// Requests a second within a burst.
    pub per_s: u32,
    /// Requests in a burst.
    pub requests: u32,
    /// Of a burst, ms.
    pub length_ms: f64,
    /// From a burst's last answer to the next one's first request, the mean, ms.
    pub pause_ms: f64,
    /// Whose sleep in the pauses is counted; `None` if the scheduler chooses.
    pub cpu: Option<u32>,
}

/// What a round of bursts gave apart from its figures.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct InBursts {
    /// Round trips of the bursts' first requests, ns, in order. They are not among the round's figures.
    pub first: Vec<f64>,
    /// Other requests that were sent later than due, because the reply before came after that.
    pub late: u64,
    /// Share of the pauses in which the CPU slept, by cpuidle's count, 0 to 100; `None` without a CPU or
    /// a count.
    pub asleep_percent: Option<f64>,
}

/// What one round of a workload gave.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Gathered {
    /// In the figure's unit, in order.
    pub figures: Vec<f64>,
    /// Requests without an answer, or runs that failed.
    pub failed: u64,
    /// Why, of the first of them.
    pub why: Option<String>,
    /// From the kernel's receive stamp of an answer to the reader's next instruction, ns; empty
    /// where the kernel does not stamp.
    pub reading_ns: Vec<f64>,
    /// Of requests in bursts.
    pub bursts: Option<InBursts>,
}

impl Gathered {
    fn fail(&mut self, why: impl FnOnce() -> String) {
        self.failed += 1;
        self.why.get_or_insert_with(why);
    }
}

/// Something that can be run again and again.
pub trait Workload {
    /// What it is, as the result keeps it.
    fn description(&self) -> &Description;

    /// Tries once, before anything is changed: an error if there is no reply or no such command.
    fn try_once(&mut self) -> Result<()>;

    /// Runs for about `settle` without figures, so that the machine adapts to a setting.
    fn settle(&mut self, settle: Duration, stop: &AtomicBool);

    /// One round; it ends early if `stop` is set. An error means that later rounds would fail, too.
    fn round(&mut self, stop: &AtomicBool) -> Result<Gathered>;

    /// How long a round takes; `None` if unknown before the first.
    fn expected(&self) -> Option<Duration>;
}

fn no_answer_within(timeout: Duration) -> String {
    format!("no reply within {} ms", timeout.as_millis())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_failure_is_counted_and_the_first_is_reported() {
        let mut gathered = Gathered::default();
        gathered.fail(|| no_answer_within(Duration::from_millis(1500)));
        gathered.fail(|| "another reason".into());
        let expected = Gathered {
            failed: 2,
            why: Some("no reply within 1500 ms".into()),
            ..Gathered::default()
        };
        assert_eq!(gathered, expected);
    }
}
