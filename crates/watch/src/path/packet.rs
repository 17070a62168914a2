//! One packet's recorded instants.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::stage::Stage;

/// Instants are CLOCK_MONOTONIC, ns.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Packet {
    /// The sending interface got it, if its sender runs on this machine.
    pub sent: Option<u64>,
    /// The instant that ends each stage, if it was observed and is this packet's.
    pub ends: BTreeMap<Stage, u64>,
    /// The receiving CPU.
    pub cpu: u32,
    /// What the receiving CPU was doing.
    pub met: Met,
    /// Why the receiving CPU looked for packets.
    pub cause: Cause,
    /// The reader that it woke; `None` for an echo request, or if no reader slept.
    pub reader: Option<Reader>,
    /// The interface's index.
    pub interface: u32,
    /// Bytes from the network header on.
    pub length: u32,
    /// Of an ICMP echo request.
    pub identifier: u16,
    /// Of an ICMP echo request.
    pub sequence: u16,
}

/// What the receiving CPU was doing when the packet came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum Met {
    /// In an idle state, which the packet ended.
    Asleep(Sleep),
    /// In no idle state.
    #[default]
    Awake,
    /// It came behind others in one poll: its arrival is unknown.
    InPoll,
}

/// An idle period that a packet ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Sleep {
    /// cpuidle's index.
    pub state: i32,
    /// From its start to the first code, ns.
    pub length_ns: u64,
}

/// Why the CPU looked for packets.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// The interrupt that raised the softirq was not observed.
    #[default]
    Unseen,
    /// A device's interrupt, by its number.
    Device(u32),
    /// A message from another CPU: packet steering, or a sender there.
    OtherCpu,
    /// A timer interrupt: the card's interrupts are deferred.
    Timer,
    /// Code on this CPU, without an interrupt: loopback, veth, a continued poll.
    ThisCpu,
}

/// The thread woken for a packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reader {
    /// The thread.
    pub thread: u32,
    /// Its name (`comm`).
    pub name: String,
    /// The CPU on which it ran.
    pub cpu: u32,
    /// That CPU's idle period, if it slept.
    pub sleep: Option<Sleep>,
}

// Only the follower makes packets.
#[cfg(any(feature = "bpf", test))]
impl Packet {
    /// Removes the instants of its CPU that do not belong to this packet. `position`: its number in
    /// its softirq, from 1.
    ///
    /// An interrupt that was served before a packet was sent did not announce it. It is unknown
    /// whether the second packet of a poll came before the interrupt or after it.
    pub(super) fn keep_own(&mut self, position: u32) {
        let unannounced = position > 1 || self.cause == Cause::Unseen;
        if self.sent.is_none() && unannounced {
            self.ends.retain(|stage, _| *stage > Stage::Softirq);
            self.met = Met::InPoll;
        }
        let mut latest = self.sent.unwrap_or(0);
        self.ends.retain(|_, time| {
            let is_own = *time >= latest;
            latest = latest.max(*time);
            is_own
        });
        if !self.ends.contains_key(&Stage::Wake) && matches!(self.met, Met::Asleep(_)) {
            self.met = Met::Awake;
        }
        if !self.ends.contains_key(&Stage::Softirq) {
            self.cause = Cause::Unseen;
        }
    }
}

/// A packet's stages in order, ns. The first observed instant begins the first one.
pub fn stages(packet: &Packet) -> Vec<(Stage, i64)> {
    let mut before = packet.sent;
    let mut stages = Vec::with_capacity(packet.ends.len());
    for (stage, end) in &packet.ends {
        if let Some(before) = before.replace(*end) {
            stages.push((*stage, *end as i64 - before as i64));
        }
    }
    stages
}

/// From the first observed instant to the last, ns.
pub fn whole_ns(packet: &Packet) -> i64 {
    let mut seen = packet.sent.iter().chain(packet.ends.values());
    match (seen.next(), seen.last()) {
        (Some(first), Some(last)) => *last as i64 - *first as i64,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Asleep from 100 on, woken by its interrupt at 1000.
    fn woken() -> Packet {
        Packet {
            ends: [
                (Stage::Wake, 1_000),
                (Stage::Interrupt, 1_002),
                (Stage::Softirq, 1_005),
                (Stage::Driver, 1_007),
                (Stage::Protocol, 1_008),
            ]
            .into(),
            met: Met::Asleep(Sleep {
                state: 2,
                length_ns: 900,
            }),
            cause: Cause::Device(41),
            ..Packet::default()
        }
    }

    #[test]
    fn the_first_packet_of_a_poll_woke_the_cpu() {
        let mut packet = woken();
        packet.keep_own(1);
        assert_eq!(packet, woken());
    }

    #[test]
    fn the_arrival_of_a_later_packet_of_a_poll_is_unknown() {
        let mut packet = woken();
        packet.keep_own(2);
        assert_eq!(packet.met, Met::InPoll);
        let ends = [(Stage::Driver, 1_007), (Stage::Protocol, 1_008)];
        assert_eq!(packet.ends, ends.into());
    }

    #[test]
    fn instants_before_the_sending_belong_to_another_packet() {
        let mut packet = woken();
        packet.sent = Some(1_006);
        packet.keep_own(2);
        assert_eq!(packet.met, Met::Awake);
        let ends = [(Stage::Driver, 1_007), (Stage::Protocol, 1_008)];
        assert_eq!(packet.ends, ends.into());
        assert_eq!(packet.cause, Cause::Unseen);
        let mut packet = woken();
        packet.sent = Some(950);
        packet.keep_own(2);
        assert_eq!(
            (packet.ends[&Stage::Wake], packet.cause),
            (1_000, Cause::Device(41))
        );
    }

    #[test]
    fn a_hand_over_of_an_older_packet_at_the_same_address_is_not_taken() {
        let mut packet = woken();
        packet.ends.insert(Stage::Driver, 700);
        packet.keep_own(1);
        assert_eq!(packet.ends.get(&Stage::Driver), None);
        assert_eq!(packet.ends[&Stage::Protocol], 1_008);
    }

    #[test]
    fn stages_follow_one_another_and_unobserved_time_goes_to_the_next() {
        let packet = Packet {
            sent: Some(10),
            ends: [
                (Stage::Softirq, 25),
                (Stage::Protocol, 27),
                (Stage::Answer, 30),
                (Stage::Queue, 30),
                (Stage::Transmit, 34),
            ]
            .into(),
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
}
