//! One packet's recorded instants.

use serde::{Deserialize, Serialize};

/// Instants are CLOCK_MONOTONIC, ns; `None` if one was not observed or is not this packet's.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Packet {
    /// The sending interface got it, if its sender runs on this machine.
    pub sent: Option<u64>,
    /// The receiving CPU's first code after an idle state that the packet ended.
    pub woke: Option<u64>,
    /// The handler of the interrupt that raised the receiving softirq.
    pub interrupt: Option<u64>,
    /// The receiving softirq began.
    pub softirq: Option<u64>,
    /// The driver handed it over from its NAPI poll.
    pub driver: Option<u64>,
    /// It reached the protocols.
    pub protocol: Option<u64>,
    /// The echo reply was made and queued.
    pub answered: Option<u64>,
    /// The reply was given to the driver.
    pub transmit: Option<u64>,
    /// The driver had taken it.
    pub transmitted: Option<u64>,
    /// The wake-up of the socket's reader began.
    pub waking: Option<u64>,
    /// The first code of the reader's CPU after an idle state, if it slept.
    pub reader_woke: Option<u64>,
    /// The CPU switched to the reader.
    pub switched: Option<u64>,
    /// The reader returned to user space.
    pub returned: Option<u64>,
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
    /// Its instants in the order in which they happen.
    pub(super) fn instants(&mut self) -> [&mut Option<u64>; 13] {
        [
            &mut self.sent,
            &mut self.woke,
            &mut self.interrupt,
            &mut self.softirq,
            &mut self.driver,
            &mut self.protocol,
            &mut self.answered,
            &mut self.transmit,
            &mut self.transmitted,
            &mut self.waking,
            &mut self.reader_woke,
            &mut self.switched,
            &mut self.returned,
        ]
    }

    /// Removes the instants of its CPU that do not belong to this packet. `position`: its number in
    /// its softirq, from 1.
    ///
    /// An interrupt that was served before a packet was sent did not announce it. It is unknown
    /// whether the second packet of a poll came before the interrupt or after it.
    pub(super) fn keep_own(&mut self, position: u32) {
        let unannounced = position > 1 || self.cause == Cause::Unseen;
        if self.sent.is_none() && unannounced {
            (self.woke, self.interrupt, self.softirq) = (None, None, None);
            self.met = Met::InPoll;
        }
        let mut latest = 0;
        for instant in self.instants() {
            match *instant {
                Some(time) if time < latest => *instant = None,
                Some(time) => latest = time,
                None => {}
            }
        }
        if self.woke.is_none() && matches!(self.met, Met::Asleep(_)) {
            self.met = Met::Awake;
        }
        if self.softirq.is_none() {
            self.cause = Cause::Unseen;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Asleep from 100 on, woken by its interrupt at 1000.
    fn woken() -> Packet {
        Packet {
            woke: Some(1_000),
            interrupt: Some(1_002),
            softirq: Some(1_005),
            driver: Some(1_007),
            protocol: Some(1_008),
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
        assert_eq!((packet.woke, packet.softirq), (None, None));
        assert_eq!(packet.driver, Some(1_007));
    }

    #[test]
    fn instants_before_the_sending_belong_to_another_packet() {
        let mut packet = woken();
        packet.sent = Some(1_006);
        packet.keep_own(2);
        assert_eq!(packet.met, Met::Awake);
        assert_eq!((packet.interrupt, packet.softirq), (None, None));
        assert_eq!(packet.cause, Cause::Unseen);
        let mut packet = woken();
        packet.sent = Some(950);
        packet.keep_own(2);
        assert_eq!(
            (packet.woke, packet.cause),
            (Some(1_000), Cause::Device(41))
        );
    }

    #[test]
    fn a_hand_over_of_an_older_packet_at_the_same_address_is_not_taken() {
        let mut packet = woken();
        packet.driver = Some(700);
        packet.keep_own(1);
        assert_eq!(packet.driver, None);
        assert_eq!(packet.protocol, Some(1_008));
    }
}
