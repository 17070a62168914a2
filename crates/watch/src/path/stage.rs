//! The stages of a packet's time.

use serde::{Deserialize, Serialize};

use super::Packet;

/// A part of a packet's time, from the previous observed instant to the one that it is named for.
/// The stages of a packet follow one another without a gap.
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

impl Stage {
    /// In a packet's order.
    pub const ALL: [Self; 12] = [
        Self::Wake,
        Self::Interrupt,
        Self::Softirq,
        Self::Driver,
        Self::Protocol,
        Self::Answer,
        Self::Queue,
        Self::Transmit,
        Self::Socket,
        Self::ReaderWake,
        Self::Schedule,
        Self::Return,
    ];

    /// The stage's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Wake => "wake",
            Self::Interrupt => "interrupt",
            Self::Softirq => "softirq",
            Self::Driver => "NAPI poll",
            Self::Protocol => "receive",
            Self::Answer => "ICMP echo",
            Self::Queue => "queue",
            Self::Transmit => "transmit",
            Self::Socket => "socket",
            Self::ReaderWake => "reader's CPU",
            Self::Schedule => "schedule",
            Self::Return => "return",
        }
    }

    /// Its unique letter in a bar of text.
    pub fn letter(self) -> char {
        match self {
            Self::Wake => 'w',
            Self::Interrupt => 'i',
            Self::Softirq => 's',
            Self::Driver => 'n',
            Self::Protocol => 'r',
            Self::Answer => 'e',
            Self::Queue => 'q',
            Self::Transmit => 't',
            Self::Socket => 'k',
            Self::ReaderWake => 'c',
            Self::Schedule => 'd',
            Self::Return => 'u',
        }
    }

    /// The instant that ends it.
    pub fn until(self) -> &'static str {
        match self {
            Self::Wake => "first code after idle",
            Self::Interrupt => "interrupt handler",
            Self::Softirq => "receiving softirq",
            Self::Driver => "driver hands it over",
            Self::Protocol => "protocols get it",
            Self::Answer => "reply is made",
            Self::Queue => "driver gets the reply",
            Self::Transmit => "driver has taken it",
            Self::Socket => "reader's wake-up begins",
            Self::ReaderWake => "first code on its CPU",
            Self::Schedule => "switch to the reader",
            Self::Return => "reader's first instruction",
        }
    }
}

/// A packet's instants with the stage that each ends; the first ends none.
fn ends(packet: &Packet) -> [(Option<Stage>, Option<u64>); 13] {
    [
        (None, packet.sent),
        (Some(Stage::Wake), packet.woke),
        (Some(Stage::Interrupt), packet.interrupt),
        (Some(Stage::Softirq), packet.softirq),
        (Some(Stage::Driver), packet.driver),
        (Some(Stage::Protocol), packet.protocol),
        (Some(Stage::Answer), packet.answered),
        (Some(Stage::Queue), packet.transmit),
        (Some(Stage::Transmit), packet.transmitted),
        (Some(Stage::Socket), packet.waking),
        (Some(Stage::ReaderWake), packet.reader_woke),
        (Some(Stage::Schedule), packet.switched),
        (Some(Stage::Return), packet.returned),
    ]
}

/// A packet's stages in order, ns. The first observed instant begins the first one.
pub fn stages(packet: &Packet) -> Vec<(Stage, i64)> {
    let mut before = None;
    let mut stages = Vec::with_capacity(Stage::ALL.len());
    for (stage, instant) in ends(packet) {
        let Some(instant) = instant else {
            continue;
        };
        if let (Some(stage), Some(before)) = (stage, before) {
            stages.push((stage, instant as i64 - before as i64));
        }
        before = Some(instant);
    }
    stages
}

/// From the first observed instant to the last, ns.
pub fn whole_ns(packet: &Packet) -> i64 {
    let seen = || ends(packet).into_iter().filter_map(|(_, instant)| instant);
    match (seen().next(), seen().next_back()) {
        (Some(first), Some(last)) => last as i64 - first as i64,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_follow_one_another_and_unobserved_time_goes_to_the_next() {
        let packet = Packet {
            sent: Some(10),
            softirq: Some(25),
            protocol: Some(27),
            answered: Some(30),
            transmit: Some(30),
            transmitted: Some(34),
            ..Packet::default()
        };
        assert_eq!(
            stages(&packet),
            [
                (Stage::Softirq, 15),
                (Stage::Protocol, 2),
                (Stage::Answer, 3),
                (Stage::Queue, 0),
                (Stage::Transmit, 4),
            ]
        );
        assert_eq!(whole_ns(&packet), 24);
        assert_eq!(whole_ns(&Packet::default()), 0);
    }

    #[test]
    fn every_stage_has_its_own_letter() {
        let letters: std::collections::BTreeSet<char> =
            Stage::ALL.into_iter().map(Stage::letter).collect();
        assert_eq!(letters.len(), Stage::ALL.len());
    }
}
