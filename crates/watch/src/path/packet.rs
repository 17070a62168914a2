//! One packet's way, as far as it was seen.

use serde::{Deserialize, Serialize};

/// Instants are CLOCK_MONOTONIC, ns; `None` where one was not seen or is not this packet's.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Packet {
    /// The sending interface got it, where its sender runs on this machine.
    pub sent: Option<u64>,
    /// The receiving CPU's first code after an idle state that the packet ended.
    pub woke: Option<u64>,
    /// The handler of the interrupt that asked for the receiving softirq.
    pub interrupt: Option<u64>,
    /// The receiving softirq began.
    pub softirq: Option<u64>,
    /// The driver handed it over, out of its NAPI poll.
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
    /// The first code of the reader's CPU after an idle state, where it slept.
    pub reader_woke: Option<u64>,
    /// The CPU switched to the reader.
    pub switched: Option<u64>,
    /// The reader left the kernel: its next instruction is its own.
    pub returned: Option<u64>,
    /// The receiving CPU.
    pub cpu: u32,
    /// What the receiving CPU was at.
    pub met: Met,
    /// Why the receiving CPU looked for packets.
    pub cause: Cause,
    /// Whom it woke; `None` for an echo request, and where nobody slept.
    pub reader: Option<Reader>,
    /// The interface's index.
    pub interface: u32,
    /// Bytes from the network header on.
    pub length: u32,
    /// Of an ICMP echo request.
    pub identifier: u16,
    /// Of an ICMP echo request, as the sender numbers them.
    pub sequence: u16,
}

/// What the packet found the receiving CPU at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum Met {
    /// In an idle state, which the packet ended.
    Asleep(Sleep),
    /// In no idle state.
    #[default]
    Awake,
    /// It came with others in one poll; when, and what it met, is not known.
    InPoll,
}

/// An idle period that a packet ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Sleep {
    /// As cpuidle numbers the state.
    pub state: i32,
    /// From its beginning to the first code, ns.
    pub length_ns: u64,
}

/// What made the CPU look for packets.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// The interrupt that asked for the softirq was not seen.
    #[default]
    Unseen,
    /// A device's interrupt, by its number.
    Device(u32),
    /// Another CPU's message: packet steering, or a sender there.
    OtherCpu,
    /// A timer interrupt: the card's interrupts are deferred.
    Timer,
    /// Code on this CPU, without an interrupt: loopback, veth, a poll that went on.
    ThisCpu,
}

/// Who was woken for a packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reader {
    /// The thread.
    pub thread: u32,
    /// Its name (`comm`).
    pub name: String,
    /// Where it ran.
    pub cpu: u32,
    /// What that CPU slept in, where it did.
    pub sleep: Option<Sleep>,
}

// Only what follows packets makes them out of instants.
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

    /// Leaves what belongs to this packet, of what its CPU had seen when it took it up. `position`:
    /// the how manieth it was of its softirq, from 1.
    ///
    /// An interrupt that was served before a packet was sent did not announce it; nor is it known of
    /// the second one in a poll whether it came before the interrupt or after it.
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
    fn the_first_packet_of_a_poll_is_the_one_that_woke() {
        let mut packet = woken();
        packet.keep_own(1);
        assert_eq!(packet, woken());
    }

    #[test]
    fn of_a_later_packet_of_a_poll_it_is_not_known_when_it_came() {
        let mut packet = woken();
        packet.keep_own(2);
        assert_eq!(packet.met, Met::InPoll);
        assert_eq!((packet.woke, packet.softirq), (None, None));
        assert_eq!(packet.driver, Some(1_007));
    }

    #[test]
    fn what_was_before_the_sending_belongs_to_another_packet() {
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
