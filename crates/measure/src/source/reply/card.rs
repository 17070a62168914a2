//! The card through which a neighbour is pinged: whether it timestamps replies and interrupts for each.

use std::net::IpAddr;

use reveille_kernel::network::ethtool::{self, Coalescing};
use reveille_kernel::network::timestamps::{self, Setting};
use reveille_kernel::network::{self, Interface};
use reveille_kernel::{Journal, Root};

use crate::{Error, Result};

/// `reply:IF,PEER`, from `IF` on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    pub interface: String,
    pub peer: IpAddr,
}

impl Target {
    /// # Errors
    /// [`Error::Usage`] for anything else.
    pub fn parse(text: &str) -> Result<Self> {
        let wrong = |what: String| {
            Error::Usage(format!(
                "source reply: {what}; it is reply:IF,PEER: the card's interface and a neighbour's address, as in \
                 reply:eth0,192.0.2.1"
            ))
        };
        let Some((interface, peer)) = text.split_once(',') else {
            return Err(wrong(format!("{text:?} names no neighbour")));
        };
        if interface.is_empty() {
            return Err(wrong("no interface is named".into()));
        }
        // fe80::1%eth0, as other programs want it.
        let address = peer.strip_suffix(&format!("%{interface}")).unwrap_or(peer);
        let address: IpAddr = address
            .parse()
            .map_err(|_| wrong(format!("{peer:?} is no address")))?;
        // ::ffff:192.0.2.1
        let address = address.to_canonical();
        if address.is_unspecified() || address.is_multicast() || address.is_loopback() {
            return Err(wrong(format!("{peer} is no neighbour's address")));
        }
        Ok(Self {
            interface: interface.into(),
            peer: address,
        })
    }
}

/// A card that timestamps every packet that it receives.
#[derive(Debug)]
pub struct Card {
    pub interface: Interface,
    pub driver: String,
    /// N of /dev/ptpN, by which it stamps: another card's, of some.
    pub clock: u32,
    pub coalescing: Option<Coalescing>,
}

impl Card {
    /// Looks whether the card can be used; changes nothing.
    ///
    /// # Errors
    /// [`Error::Usage`] if there is no such interface, [`Error::Cannot`] if it cannot be used.
    pub fn of(root: &Root, name: &str) -> Result<Self> {
        let cannot = |why: String| Error::Cannot(format!("source reply: {name} {why}"));
        let Some(interface) = Interface::read(root, name).filter(Interface::is_here) else {
            return Err(Error::Usage(format!(
                "source reply: there is no network interface {name:?}; `ip link` lists them"
            )));
        };
        if !interface.physical {
            return Err(cannot(
                "has no card, so nothing timestamps its packets; name a card's interface".into(),
            ));
        }
        let driver = network::driver(root, name).unwrap_or_else(|| "unknown".into());
        let abilities =
            timestamps::abilities(name).map_err(Error::system("ETHTOOL_GET_TS_INFO"))?;
        let clock = abilities.filter(|can| can.every_packet);
        let Some(clock) = clock.and_then(|can| can.clock) else {
            return Err(cannot(format!(
                "(driver {driver}) does not timestamp every packet that it receives; cards of e1000e, igb, igc, \
                 ixgbe and ice do"
            )));
        };
        if let Some(why) = not_ready(root, name).or_else(|| not_by_interrupt(&interface)) {
            return Err(cannot(why));
        }
        let coalescing = ethtool::coalescing(name).map_err(Error::system("ETHTOOL_GCOALESCE"))?;
        Ok(Self {
            interface,
            driver,
            clock,
            coalescing,
        })
    }

    /// Has it timestamp every received packet, through the journal, unless it does. What another program has set
    /// is not changed.
    ///
    /// # Errors
    /// [`Error::Cannot`] if another program needs another setting, or the driver refuses.
    pub fn timestamp(&self, journal: &mut Journal) -> Result<()> {
        let Self {
            interface, driver, ..
        } = self;
        let name = &interface.name;
        let set = timestamps::setting(name).map_err(Error::system("SIOCGHWTSTAMP"))?;
        let Some(set) = set else {
            return Err(Error::Cannot(format!(
                "source reply: {name} (driver {driver}) does not tell which packets it timestamps, so that could not \
                 be restored"
            )));
        };
        match set.received {
            // If it is another run's, which may end first, the journal notes that this one needs it, too.
            timestamps::ALL | timestamps::NONE => {
                let every = Setting {
                    received: timestamps::ALL,
                    ..set
                };
                let set = journal.set(&timestamps::path(interface)?, &every.text());
                set.map_err(|error| {
                    Error::Cannot(format!(
                        "source reply: {name} (driver {driver}) refuses to timestamp every packet: {error}"
                    ))
                })
            }
            other => Err(Error::Cannot(format!(
                "source reply: another program (ptp4l?) has {name} timestamp only some packets (filter {other}); end \
                 it, then run `hwstamp_ctl -i {name} -r 0`"
            ))),
        }
    }

    /// What delays its interrupt after the timestamp.
    pub fn moderation(&self) -> String {
        self.coalescing.map_or_else(
            || "interrupt moderation unknown".to_owned(),
            |delay| {
                let adaptive = if delay.adaptive_rx { "on" } else { "off" };
                format!("rx-usecs {}, adaptive-rx {adaptive}", delay.rx_usecs)
            },
        )
    }

    /// A note if the card may delay the interrupt.
    pub fn reservation(&self) -> Option<String> {
        let delay = self.coalescing?;
        let name = &self.interface.name;
        (delay.rx_usecs > 0 || delay.adaptive_rx).then(|| {
            format!(
                "source reply: {name} may delay an interrupt after the packet's timestamp ({}), and then the latency \
                 has the delay; `ethtool -C {name} adaptive-rx off rx-usecs 0` switches that off",
                self.moderation()
            )
        })
    }
}

/// Why no packet can come.
fn not_ready(root: &Root, name: &str) -> Option<String> {
    if network::is_up(root, name) == Some(false) {
        return Some(format!("is down; bring it up: `ip link set {name} up`"));
    }
    (network::has_link(root, name) == Some(false))
        .then(|| "has no link: is its cable connected, and the other end on?".into())
}

/// Why packets are handled elsewhere than where the card's interrupt comes.
fn not_by_interrupt(interface: &Interface) -> Option<String> {
    let name = &interface.name;
    if interface.interrupts.is_empty() {
        return Some("has no interrupt of its own by /sys".into());
    }
    if interface.threaded == Some(true) {
        return Some(format!(
            "is polled by threads, which run on any CPU; `echo 0 >/sys/class/net/{name}/threaded`"
        ));
    }
    if let Some(steered) = interface.steering.first() {
        return Some(format!(
            "hands the packets of queue {0} to other CPUs (RPS); `echo 0 >/sys/class/net/{name}/queues/rx-{0}/rps_cpus`",
            steered.queue
        ));
    }
    let deferred = interface.defer_hard_irqs.unwrap_or(0) > 0
        && interface.gro_flush_timeout_ns.unwrap_or(0) > 0;
    deferred.then(|| {
        format!(
            "is polled by a timer while its interrupt is off; `echo 0 >/sys/class/net/{name}/napi_defer_hard_irqs`"
        )
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use reveille_kernel::network::{Interrupt, Steering};

    use super::*;

    #[test]
    fn a_neighbour_is_an_interface_and_an_address() {
        let target = |text| {
            let target = Target::parse(text)?;
            Ok::<_, Error>((target.interface, target.peer.to_string()))
        };
        let eth0 = |peer: &str| ("eth0".to_owned(), peer.to_owned());
        assert_eq!(target("eth0,192.0.2.1").unwrap(), eth0("192.0.2.1"));
        assert_eq!(target("eth0,2001:db8::1").unwrap(), eth0("2001:db8::1"));
        assert_eq!(target("eth0,fe80::1%eth0").unwrap(), eth0("fe80::1"));
        assert_eq!(target("eth0,::ffff:192.0.2.1").unwrap(), eth0("192.0.2.1"));
        for wrong in [
            "",
            "eth0",
            ",192.0.2.1",
            "eth0,",
            "eth0,neighbour",
            "eth0,fe80::1%eth1",
            "eth0,0.0.0.0",
            "eth0,127.0.0.1",
            "eth0,::ffff:127.0.0.1",
            "eth0,224.0.0.1",
            "eth0,192.0.2.1,192.0.2.2",
        ] {
            let error = target(wrong).unwrap_err();
            assert_eq!(error.exit_code(), Error::USAGE, "{wrong:?}: {error}");
        }
    }

    #[test]
    fn an_interface_is_ready_if_it_is_up_and_has_a_link() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        let eth0 = folder.path().join("sys/class/net/eth0");
        fs::create_dir_all(&eth0).unwrap();
        let put = |file: &str, text: &str| fs::write(eth0.join(file), text).unwrap();
        put("flags", "0x1002\n");
        assert!(not_ready(&root, "eth0").unwrap().contains("is down"));
        put("flags", "0x1003\n");
        put("carrier", "0\n");
        assert!(not_ready(&root, "eth0").unwrap().contains("no link"));
        put("carrier", "1\n");
        assert_eq!(not_ready(&root, "eth0"), None);
    }

    fn card(change: impl FnOnce(&mut Interface)) -> Interface {
        let mut interface = Interface {
            name: "eth0".into(),
            index: 2,
            physical: true,
            interrupts: vec![Interrupt {
                number: 24,
                name: None,
                allowed: None,
                effective: None,
            }],
            steering: Vec::new(),
            defer_hard_irqs: Some(0),
            gro_flush_timeout_ns: Some(0),
            threaded: Some(false),
            runtime_power: None,
            link_states: None,
        };
        change(&mut interface);
        interface
    }

    #[test]
    fn whatever_takes_packets_from_the_interrupts_cpu_is_named() {
        let why = |change: fn(&mut Interface)| not_by_interrupt(&card(change));
        assert_eq!(why(|_| {}), None);
        assert_eq!(why(|card| card.gro_flush_timeout_ns = Some(20_000)), None);
        assert!(
            why(|card| card.threaded = Some(true))
                .unwrap()
                .contains("threads")
        );
        assert!(
            why(|card| card.interrupts.clear())
                .unwrap()
                .contains("no interrupt")
        );
        let steering = |card: &mut Interface| {
            card.steering = vec![Steering {
                queue: 1,
                cpus: vec![0],
            }];
        };
        assert!(why(steering).unwrap().contains("queues/rx-1/rps_cpus"));
        let deferred = |card: &mut Interface| {
            (card.defer_hard_irqs, card.gro_flush_timeout_ns) = (Some(2), Some(20_000));
        };
        assert!(why(deferred).unwrap().contains("napi_defer_hard_irqs"));
    }

    #[test]
    fn a_card_that_moderates_its_interrupt_has_a_note() {
        let of = |coalescing| Card {
            interface: card(|_| {}),
            driver: "igb".into(),
            clock: 0,
            coalescing,
        };
        let delay = |rx_usecs, adaptive_rx| {
            of(Some(Coalescing {
                rx_usecs,
                rx_frames: 0,
                adaptive_rx,
            }))
        };
        assert_eq!(of(None).reservation(), None);
        assert_eq!(delay(0, false).reservation(), None);
        assert!(
            delay(3, false)
                .reservation()
                .unwrap()
                .contains("rx-usecs 3")
        );
        assert!(
            delay(0, true)
                .reservation()
                .unwrap()
                .contains("adaptive-rx on")
        );
    }
}
