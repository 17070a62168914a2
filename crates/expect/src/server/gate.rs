//! Which hints of other machines are followed: a signature, no replay, and budgets for each client.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;

use super::Rate;
use crate::budget::Budget;
use crate::limits::{LEAST_CHARGED_NS, Limits, Refusal, Window};
use crate::remote::{Hint, Invalid, Key, Stamp, decode};

/// How far a signed hint's time may be from this machine's: longer, and it can have been recorded.
const FRESH_NS: u64 = 10_000_000_000;
/// Clients and senders that are remembered, each.
const MOST: usize = 4096;

/// What clients may ask for.
#[derive(Debug, Clone)]
pub struct Allowed {
    /// With one, only hints that were made with it are followed.
    pub key: Option<Key>,
    /// Hints of a client in any second: a quarter of them at once, and the others one after the other.
    pub per_second: u32,
    /// Time awake that a client may ask for in any second, in millionths of it: a longest window at once, and the rest one
    /// after the other. Each window counts for [`LEAST_CHARGED_NS`] more, in which the CPU wakes.
    pub awake_ppm: u32,
}

impl Default for Allowed {
    fn default() -> Self {
        Self {
            key: None,
            per_second: 200,
            awake_ppm: 50_000,
        }
    }
}

/// What is to be awake for a hint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Admitted {
    /// As it came.
    pub hint: Hint,
    /// The window's beginning, ns of CLOCK_MONOTONIC.
    pub at_ns: u64,
    /// The window's length, ns.
    pub window_ns: u64,
    /// A number of the client's own.
    pub client: u32,
}

/// Why a hint is not followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, thiserror::Error)]
pub enum Rejected {
    /// The datagram is none.
    #[error("no hint")]
    Invalid,
    /// It was not made with the key.
    #[error("wrong signature")]
    Signature,
    /// Its time is not this machine's, by more than 10 s.
    #[error("too old, or the clocks differ")]
    Stale,
    /// It came before, or after a later one of its sender.
    #[error("came before")]
    Replayed,
    /// The client sends too many.
    #[error("too many")]
    TooMany,
    /// The client asks for too much time awake.
    #[error("over the client's budget")]
    Budget,
    /// Its window is over, too long, empty or too far ahead.
    #[error("invalid window")]
    Window,
    /// More clients or senders than are remembered.
    #[error("too many clients")]
    Clients,
}

#[derive(Debug)]
struct Client {
    number: u32,
    hints: Rate,
    budget: Budget,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Sender {
    Signed(u64),
    Address(IpAddr),
}

/// How far ahead a window of another machine may begin: it takes a place in a CPU's plan until then.
pub const MOST_AHEAD: Duration = Duration::from_secs(1);

/// Decides on hints.
#[derive(Debug)]
pub struct Gate {
    allowed: Allowed,
    limits: Limits,
    clients: HashMap<IpAddr, Client>,
    /// When each sender's last hint was sent; without a key, anybody may use any sender's number, so
    /// an address is one.
    senders: HashMap<Sender, u64>,
    numbers: u32,
    /// Ns since 1970: what was signed before that may have been recorded.
    began_ns: u64,
}

impl Gate {
    /// For clients that may ask for so much, from `wall_ns` since 1970 on.
    pub fn new(allowed: Allowed, wall_ns: u64) -> Self {
        Self {
            began_ns: wall_ns,
            limits: Limits {
                ahead_ns: crate::clock::whole_ns(MOST_AHEAD),
                awake_ppm: allowed.awake_ppm,
                ..Limits::default()
            },
            allowed,
            clients: HashMap::new(),
            senders: HashMap::new(),
            numbers: 0,
        }
    }

    /// Decides on a datagram from that address. `now_ns` is CLOCK_MONOTONIC, `wall_ns` since 1970.
    ///
    /// # Errors
    /// Why it is not followed.
    pub fn admit(
        &mut self,
        from: IpAddr,
        datagram: &[u8],
        now_ns: u64,
        wall_ns: u64,
    ) -> Result<Admitted, Rejected> {
        let from = from.to_canonical();
        let decoded = decode(datagram, self.allowed.key.as_ref());
        let (hint, stamp) = decoded.map_err(|invalid| match invalid {
            Invalid::Form => Rejected::Invalid,
            Invalid::Signature => Rejected::Signature,
        })?;
        // What is forged or recorded costs the client whose address it bears nothing.
        let sender = self.sender(from, stamp, wall_ns)?;
        let hints = &mut self.client(from, now_ns)?.hints;
        hints.take(now_ns).map_err(|_| Rejected::TooMany)?;
        self.senders.insert(sender, stamp.sent_ns);
        let after_ns = crate::clock::whole_ns(hint.announced.after);
        let within_ns = crate::clock::whole_ns(hint.announced.within);
        let begins_ns = now_ns.saturating_add(after_ns.saturating_sub(within_ns));
        let ends_ns = now_ns + after_ns + within_ns;
        let length_ns = (ends_ns - begins_ns).max(LEAST_CHARGED_NS);
        let window = self.limits.window(now_ns, begins_ns, length_ns);
        let window = window.map_err(|_: Refusal| Rejected::Window)?;
        let client = self.client(from, now_ns)?;
        let charged = charged(window);
        if !client.budget.allows(now_ns, charged) {
            return Err(Rejected::Budget);
        }
        client.budget.take(charged);
        Ok(Admitted {
            hint,
            at_ns: window.at_ns,
            window_ns: window.length_ns,
            client: client.number,
        })
    }

    /// Nothing is awake for it after all.
    pub fn give_back(&mut self, from: IpAddr, admitted: &Admitted, now_ns: u64) {
        let window = Window {
            at_ns: admitted.at_ns,
            length_ns: admitted.window_ns,
        };
        if let Some(client) = self.clients.get_mut(&from.to_canonical()) {
            client.budget.give_back(now_ns, charged(window));
        }
    }

    fn client(&mut self, from: IpAddr, now_ns: u64) -> Result<&mut Client, Rejected> {
        if self.clients.len() >= MOST && !self.clients.contains_key(&from) {
            let used = |client: &mut Client| {
                !client.hints.is_full(now_ns) || !client.budget.is_full(now_ns)
            };
            self.clients.retain(|_, client| used(client));
            if self.clients.len() >= MOST {
                return Err(Rejected::Clients);
            }
        }
        let (allowed, limits) = (&self.allowed, &self.limits);
        let numbers = &mut self.numbers;
        Ok(self.clients.entry(from).or_insert_with(|| {
            *numbers = numbers.wrapping_add(1);
            Client {
                // Users' numbers are below.
                number: *numbers | 1 << 31,
                hints: Rate::at_most(allowed.per_second, now_ns),
                budget: Budget::new(allowed.awake_ppm, limits.window_ns, now_ns),
            }
        }))
    }

    /// Whose hint it is, if it is new.
    fn sender(&mut self, from: IpAddr, stamp: Stamp, wall_ns: u64) -> Result<Sender, Rejected> {
        let sender = match self.allowed.key {
            Some(_)
                if stamp.sent_ns.abs_diff(wall_ns) > FRESH_NS || stamp.sent_ns < self.began_ns =>
            {
                return Err(Rejected::Stale);
            }
            Some(_) => Sender::Signed(stamp.sender),
            None => Sender::Address(from),
        };
        match self.senders.get(&sender) {
            // Without a key anybody may send any time, also a late one that would shut out all that follow.
            Some(last) if self.allowed.key.is_none() && stamp.sent_ns != *last => Ok(sender),
            Some(last) if stamp.sent_ns <= *last => Err(Rejected::Replayed),
            None if self.senders.len() >= MOST => {
                // Of a signed hint that is older, nothing has to be remembered.
                self.senders
                    .retain(|_, sent_ns| sent_ns.abs_diff(wall_ns) <= FRESH_NS);
                match self.senders.len() < MOST {
                    true => Ok(sender),
                    false => Err(Rejected::Clients),
                }
            }
            _ => Ok(sender),
        }
    }
}

fn charged(window: Window) -> Window {
    Window {
        length_ns: window.length_ns + LEAST_CHARGED_NS,
        ..window
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::time::Duration;

    use super::*;
    use crate::remote::{Announced, Service, encode};

    const MS: u64 = 1_000_000;
    const SECOND: u64 = 1_000 * MS;
    const WALL: u64 = 1_800_000_000 * SECOND;

    fn address(last: u8) -> IpAddr {
        Ipv4Addr::new(192, 0, 2, last).into()
    }

    fn hint(after_us: u64, within_us: u64) -> Hint {
        Hint {
            service: Service::tcp(80),
            announced: Announced {
                after: Duration::from_micros(after_us),
                within: Duration::from_micros(within_us),
            },
        }
    }

    fn datagram(sender: u64, sent_ns: u64, hint: &Hint, key: Option<&Key>) -> Vec<u8> {
        encode(hint, &Stamp { sent_ns, sender }, key)
    }

    fn signed() -> (Key, Gate) {
        let key = Key::new(b"secret");
        let allowed = Allowed {
            key: Some(key.clone()),
            ..Allowed::default()
        };
        (key, Gate::new(allowed, WALL - SECOND))
    }

    #[test]
    fn the_window_lies_around_the_announced_time() {
        let mut gate = Gate::new(Allowed::default(), WALL - SECOND);
        let bytes = datagram(1, WALL, &hint(3_000, 1_000), None);
        let admitted = gate.admit(address(1), &bytes, SECOND, WALL).unwrap();
        assert_eq!(admitted.at_ns, SECOND + 2 * MS);
        assert_eq!(admitted.window_ns, 2 * MS);
        // More jitter than lead: the window begins now.
        let bytes = datagram(1, WALL + 1, &hint(1_000, 3_000), None);
        let admitted = gate.admit(address(1), &bytes, SECOND, WALL).unwrap();
        assert_eq!((admitted.at_ns, admitted.window_ns), (SECOND, 4 * MS));
    }

    #[test]
    fn a_hint_counts_once_and_only_while_it_is_fresh() {
        let (key, mut gate) = signed();
        let bytes = datagram(1, WALL, &hint(3_000, 500), Some(&key));
        assert!(gate.admit(address(1), &bytes, SECOND, WALL).is_ok());
        // From another address, too: the sender is signed.
        for from in [address(1), address(2)] {
            let again = gate.admit(from, &bytes, 2 * SECOND, WALL + SECOND);
            assert_eq!(again, Err(Rejected::Replayed));
        }
        let earlier = datagram(1, WALL - 1, &hint(3_000, 500), Some(&key));
        let earlier = gate.admit(address(1), &earlier, 2 * SECOND, WALL);
        assert_eq!(earlier, Err(Rejected::Replayed));
        let (_, mut slow) = signed();
        let late = slow.admit(address(1), &bytes, SECOND, WALL + FRESH_NS + 1);
        assert_eq!(late, Err(Rejected::Stale));
        // A gate that has just begun remembers nothing: what was sent before may have been recorded.
        let allowed = Allowed {
            key: Some(key),
            ..Allowed::default()
        };
        let mut anew = Gate::new(allowed, WALL + 1);
        let before = anew.admit(address(2), &bytes, SECOND, WALL + 1);
        assert_eq!(before, Err(Rejected::Stale));
    }

    #[test]
    fn without_a_key_a_wrong_clock_shuts_nobody_out() {
        let mut gate = Gate::new(Allowed::default(), WALL);
        let mut admit = |sent_ns| {
            let bytes = datagram(1, sent_ns, &hint(3_000, 50), None);
            gate.admit(address(1), &bytes, SECOND, WALL).map(|_| ())
        };
        assert_eq!(admit(u64::MAX), Ok(()));
        assert_eq!(admit(WALL), Ok(()));
        assert_eq!(admit(WALL), Err(Rejected::Replayed));
    }

    #[test]
    fn a_client_that_floods_or_forges_changes_nothing_for_others() {
        let (key, mut gate) = signed();
        let mut admitted = 0;
        for nth in 0..100_000 {
            let bytes = datagram(1, WALL + nth, &hint(100, 50), Some(&key));
            admitted += u32::from(gate.admit(address(1), &bytes, SECOND + nth, WALL).is_ok());
            let forged = datagram(3, WALL + nth, &hint(100, 50), None);
            let forged = gate.admit(address(3), &forged, SECOND + nth, WALL);
            assert_eq!(forged, Err(Rejected::Signature));
        }
        // A quarter of what a second allows.
        assert!(admitted <= 50, "{admitted}");
        let bytes = datagram(3, WALL, &hint(3_000, 500), Some(&key));
        assert!(gate.admit(address(3), &bytes, SECOND, WALL).is_ok());
    }

    #[test]
    fn time_awake_is_limited_by_client() {
        let mut gate = Gate::new(Allowed::default(), WALL - SECOND);
        let mut asked = |from: u8, nth: u64| {
            let bytes = datagram(1, WALL + nth, &hint(5_000, 2_500), None);
            gate.admit(address(from), &bytes, SECOND, WALL)
        };
        // 10 ms at once: a window of 5 ms, and the time in which the CPU wakes.
        let first = asked(1, 1).unwrap();
        assert_eq!(asked(1, 2), Err(Rejected::Budget));
        let other = asked(2, 3).unwrap();
        assert_eq!(other.at_ns, SECOND + 2_500_000);
        gate.give_back(address(1), &first, SECOND);
        let bytes = datagram(1, WALL + 4, &hint(5_000, 2_500), None);
        assert!(gate.admit(address(1), &bytes, SECOND, WALL).is_ok());
    }

    #[test]
    fn windows_have_limits() {
        let mut gate = Gate::new(Allowed::default(), WALL - SECOND);
        for (nth, (after_us, within_us)) in (0..).zip([
            (20_000_000, 1),
            (1_000, 6_000_000),
            (u64::from(u32::MAX), 0),
        ]) {
            let bytes = datagram(1, WALL + nth, &hint(after_us, within_us), None);
            let refused = gate.admit(address(1), &bytes, SECOND, WALL);
            assert_eq!(refused, Err(Rejected::Window), "{after_us}");
        }
        let refused = gate.admit(address(1), b"rvlh", SECOND, WALL);
        assert_eq!(refused, Err(Rejected::Invalid));
    }

    #[test]
    fn what_is_remembered_of_clients_is_bounded() {
        let mut gate = Gate::new(Allowed::default(), WALL - SECOND);
        let mut admit = |nth: u64, now_ns: u64| {
            let from = IpAddr::from((nth as u32).to_be_bytes());
            let bytes = datagram(nth, WALL + now_ns, &hint(3_000, 500), None);
            gate.admit(from, &bytes, now_ns, WALL + now_ns)
        };
        for nth in 0..MOST as u64 {
            assert!(admit(nth, SECOND).is_ok(), "{nth}");
        }
        assert_eq!(admit(1 << 20, SECOND), Err(Rejected::Clients));
        // Those that are silent make room.
        assert!(admit(1 << 20, 60 * SECOND).is_ok());
        assert!(gate.clients.len() <= MOST && gate.senders.len() <= MOST);
    }
}
