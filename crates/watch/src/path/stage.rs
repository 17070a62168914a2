//! The stages of a packet's time.

use serde::{Deserialize, Serialize};

/// A part of a packet's time, without a gap from the previous observed instant to its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// Until the receiving CPU's first code after idle.
    Wake,
    /// Until the interrupt's handler.
    Interrupt,
    /// Until the receiving softirq begins.
    Softirq,
    /// Until the driver hands the packet over from its NAPI poll.
    Driver,
    /// Until the protocols get it.
    Protocol,
    /// Until the echo reply is made and queued.
    Answer,
    /// Until the driver gets the reply.
    Queue,
    /// Until the driver has taken it.
    Transmit,
    /// Until the wake-up of the socket's reader begins.
    Socket,
    /// Until the first code of the reader's CPU after idle, if it slept.
    ReaderWake,
    /// Until the CPU switches to the reader.
    Schedule,
    /// Until the reader's first instruction in user space.
    Return,
}

/// In a packet's order: name, letter in a bar of text, and the instant that ends the stage.
const ALL: [(Stage, &str, char, &str); 12] = [
    (Stage::Wake, "wake", 'w', "first code after idle"),
    (Stage::Interrupt, "interrupt", 'i', "interrupt handler"),
    (Stage::Softirq, "softirq", 's', "receiving softirq"),
    (Stage::Driver, "NAPI poll", 'n', "driver hands it over"),
    (Stage::Protocol, "receive", 'r', "protocols get it"),
    (Stage::Answer, "ICMP echo", 'e', "reply is made"),
    (Stage::Queue, "queue", 'q', "driver gets the reply"),
    (Stage::Transmit, "transmit", 't', "driver has taken it"),
    (Stage::Socket, "socket", 'k', "reader's wake-up begins"),
    (
        Stage::ReaderWake,
        "reader's CPU",
        'c',
        "first code on its CPU",
    ),
    (Stage::Schedule, "schedule", 'd', "switch to the reader"),
    (Stage::Return, "return", 'u', "reader's first instruction"),
];

impl Stage {
    /// All stages, in a packet's order.
    pub fn all() -> impl Iterator<Item = Self> {
        ALL.into_iter().map(|(stage, ..)| stage)
    }

    /// The stage's name.
    pub fn name(self) -> &'static str {
        ALL[self as usize].1
    }

    /// Its unique letter in a bar of text.
    pub fn letter(self) -> char {
        ALL[self as usize].2
    }

    /// The instant that ends it.
    pub fn until(self) -> &'static str {
        ALL[self as usize].3
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_stage_has_its_own_letter() {
        let letters: std::collections::BTreeSet<char> = Stage::all().map(Stage::letter).collect();
        assert_eq!(letters.len(), ALL.len());
    }
}
