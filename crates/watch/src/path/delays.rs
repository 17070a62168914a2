//! Settings of the card and its driver that add latency.

use std::io;

use reveille_kernel::network::ethtool::{Coalescing, LinkSleep};
use reveille_kernel::network::{self, Interface, ethtool};
use reveille_kernel::{Root, cpulist};

use super::summary::{Delay, ReadersPlace};

/// The driver's settings that are not in `/sys` and `/proc`; `None` on a recorded machine.
#[derive(Debug, Default)]
pub struct DriverSettings {
    /// Interrupt coalescing.
    pub coalescing: Option<io::Result<Option<Coalescing>>>,
    /// Energy-Efficient Ethernet.
    pub link_sleep: Option<io::Result<Option<LinkSleep>>>,
}

impl DriverSettings {
    /// Queries the running machine's driver.
    pub fn of(interface: &str) -> Self {
        Self {
            coalescing: Some(ethtool::coalescing(interface)),
            link_sleep: Some(ethtool::link_sleep(interface)),
        }
    }
}

/// Every setting that can delay packets at this interface, with its current effect.
pub fn delays(
    root: &Root,
    interface: &Interface,
    driver: &DriverSettings,
    readers: Option<&ReadersPlace>,
) -> Vec<Delay> {
    let mut delays = Vec::new();
    if interface.physical {
        let settings = driver.coalescing.as_ref();
        delays.extend(settings.map(|settings| coalescing(interface, settings)));
        delays.extend(affinity(interface, readers));
    } else {
        delays.push(delay(
            interface,
            "interrupts",
            "none: a virtual interface, without a card",
        ));
    }
    delays.extend(deferral(interface));
    delays.extend(steering(interface));
    delays.extend(aspm(root, interface));
    delays.extend(runtime_power(interface));
    let settings = driver.link_sleep.as_ref();
    delays.extend(settings.and_then(|settings| link_sleep(interface, settings)));
    delays.extend(busy_polling(root));
    delays
}

fn delay(interface: &Interface, what: &str, now: impl Into<String>) -> Delay {
    Delay {
        what: what.to_owned(),
        interface: Some(interface.name.clone()),
        now: now.into(),
        adds: None,
        set: None,
    }
}

/// The first word where a setting that could add latency adds none now.
const NOTHING: &str = "nothing";

impl Delay {
    /// Whether it adds latency now.
    pub fn adds_any(&self) -> bool {
        let adds = self.adds.as_ref();
        adds.is_some_and(|adds| !adds.starts_with(NOTHING))
    }

    fn adds(mut self, adds: impl Into<String>) -> Self {
        self.adds = Some(adds.into());
        self
    }

    fn set(mut self, set: impl Into<String>) -> Self {
        self.set = Some(set.into());
        self
    }

    /// What it adds, and the command against it, if it applies.
    fn if_so(self, applies: bool, adds: &str, set: impl Into<String>) -> Self {
        if applies {
            self.adds(adds).set(set)
        } else {
            self
        }
    }
}

fn coalescing(interface: &Interface, settings: &io::Result<Option<Coalescing>>) -> Delay {
    let what = "interrupt coalescing";
    let figures = match settings {
        Ok(Some(figures)) => figures,
        Ok(None) => return delay(interface, what, "not reported by the driver"),
        Err(why) => return delay(interface, what, format!("unknown: {why}")),
    };
    let adaptive = if figures.adaptive_rx { "on" } else { "off" };
    let delay = delay(
        interface,
        what,
        format!(
            "rx-usecs {}, rx-frames {}, adaptive-rx {adaptive}",
            figures.rx_usecs, figures.rx_frames
        ),
    );
    let name = &interface.name;
    match (figures.adaptive_rx, figures.rx_usecs) {
        (true, _) => delay
            .adds("a delay that the driver chooses by the packet rate")
            .set(format!("ethtool -C {name} adaptive-rx off rx-usecs 0")),
        (false, 0) => delay,
        (false, usecs) if figures.rx_frames == 1 => delay.adds(format!(
            "{NOTHING} for the first packet: 1 frame ends the {usecs} µs"
        )),
        (false, usecs) => delay
            .adds(format!("up to {usecs} µs to a single packet"))
            .set(format!("ethtool -C {name} rx-usecs 0")),
    }
}

/// The CPUs of the card's interrupts, compared with those of the readers.
fn affinity(interface: &Interface, readers: Option<&ReadersPlace>) -> Vec<Delay> {
    let what = "interrupt affinity";
    let list = |cpus: &Option<Vec<u32>>| cpus.as_deref().map(cpulist::format);
    let mut delays = Vec::new();
    for one in &interface.interrupts {
        // The card's many other interrupts (configuration, link, transmit) do not matter here.
        let name = one.name.as_deref().unwrap_or_default();
        if is_other(name) {
            continue;
        }
        let served = list(&one.effective).or_else(|| list(&one.allowed));
        let allowed = list(&one.allowed).map_or(String::new(), |cpus| format!(" of {cpus}"));
        let served = served.map_or("unknown".to_owned(), |cpus| format!("CPU {cpus}"));
        let label = name.rsplit(' ').next().unwrap_or_default();
        delays.push(delay(
            interface,
            what,
            format!("interrupt {} ({label}) on {served}{allowed}", one.number),
        ));
    }
    if delays.is_empty() {
        delays.push(delay(interface, what, "its interrupts are unknown"));
    }
    if let (Some(readers), Some(last)) = (readers, delays.last_mut())
        && let Some(other) = &readers.on_another_cpu
    {
        let same = readers.on_the_same_cpu.as_ref();
        let all = other.count + same.map_or(0, |same| same.count);
        let against = same.map_or(String::new(), |same| {
            format!("; on the receiving CPU {}", us(same.median_ns))
        });
        last.adds = Some(format!(
            "the wake-up of another CPU: {} of {all} readers did not run on the receiving CPU, {} \
             from wake-up to first instruction at the median{against}",
            other.count,
            us(other.median_ns),
        ));
        let mut receiving = interface.interrupts.iter();
        let receiving = receiving.find(|one| !is_other(one.name.as_deref().unwrap_or_default()));
        let cpu = readers.received_on.first().copied().unwrap_or(0);
        last.set = Some(match receiving {
            Some(one) => format!(
                "taskset -c {cpu} READER; or echo CPU > /proc/irq/{}/smp_affinity_list",
                one.number
            ),
            None => format!("taskset -c {cpu} READER"),
        });
    }
    delays
}

/// Whether an interrupt of this name announces no received packets.
fn is_other(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let announces = ["rx", "input"].iter().any(|word| name.contains(word));
    let other = ["config", "-tx", "output", "event", "control", "async"];
    !announces && other.iter().any(|word| name.contains(word))
}

fn deferral(interface: &Interface) -> Option<Delay> {
    let polls = interface.defer_hard_irqs?;
    let timeout = interface.gro_flush_timeout_ns?;
    let now = format!("napi_defer_hard_irqs {polls}, gro_flush_timeout {timeout} ns");
    let longest = us(timeout as i64);
    Some(delay(interface, "deferred interrupts", now).if_so(
        timeout > 0,
        &format!("up to {longest} after a poll, also to packets that GRO holds back"),
        format!(
            "echo 0 > /sys/class/net/{}/gro_flush_timeout",
            interface.name
        ),
    ))
}

fn steering(interface: &Interface) -> Vec<Delay> {
    let one = |steering: &network::Steering| {
        let queue = steering.queue;
        delay(
            interface,
            "packet steering (RPS)",
            format!(
                "queue {queue}: handled by CPU {}",
                cpulist::format(&steering.cpus)
            ),
        )
        .adds("an interrupt to another CPU, and its wake-up if it sleeps")
        .set(format!(
            "echo 0 > /sys/class/net/{}/queues/rx-{queue}/rps_cpus",
            interface.name
        ))
    };
    interface.steering.iter().map(one).collect()
}

fn aspm(root: &Root, interface: &Interface) -> Option<Delay> {
    if !interface.physical {
        return None;
    }
    let (policy, _) = network::aspm_policy(root)?;
    let states = interface.link_states.as_deref();
    let link = match states {
        Some([]) => "no state enabled on its link".to_owned(),
        Some(states) => format!("{} enabled on its link", states.join(", ")),
        None => "its link's states are unknown".to_owned(),
    };
    let delay = delay(interface, "PCIe ASPM", format!("policy {policy}; {link}"));
    Some(delay.if_so(
        states.is_some_and(|states| !states.is_empty()),
        "the link's exit latency: up to some µs in L0s and L1, some 100 µs in L1.2",
        "echo performance > /sys/module/pcie_aspm/parameters/policy",
    ))
}

fn runtime_power(interface: &Interface) -> Option<Delay> {
    let power = interface.runtime_power.as_ref()?;
    let mut now = format!("control {}", power.control);
    if let Some(status) = &power.status {
        now += &format!(", {status}");
    }
    if let Some(delay) = power.autosuspend_delay_ms {
        now += &format!(", after {delay} ms");
    }
    let supported = power.status.as_deref() != Some("unsupported");
    Some(delay(interface, "runtime power of the device", now).if_so(
        power.control == "auto" && supported,
        "its resume, if its driver lets it sleep (most only without a link)",
        format!("echo on > {}", power.control_file),
    ))
}

fn link_sleep(interface: &Interface, settings: &io::Result<Option<LinkSleep>>) -> Option<Delay> {
    let settings = settings.as_ref().ok()?.as_ref()?;
    let now = match (settings.enabled, settings.active) {
        (false, _) => "off",
        (true, false) => "on, but not negotiated with the link partner",
        (true, true) => "on",
    };
    Some(delay(interface, "Energy-Efficient Ethernet", now).if_so(
        settings.active,
        "the link's wake-up before a packet: 17 µs at 1000BASE-T, 30 µs at 100BASE-TX",
        format!("ethtool --set-eee {} eee off", interface.name),
    ))
}

fn busy_polling(root: &Root) -> Option<Delay> {
    let read = root.number("proc/sys/net/core/busy_read")?;
    let poll = root.number("proc/sys/net/core/busy_poll")?;
    let delay = Delay {
        what: "busy polling".to_owned(),
        interface: None,
        now: format!("net.core.busy_read {read}, net.core.busy_poll {poll}"),
        adds: None,
        set: None,
    };
    Some(delay.if_so(
        (read, poll) == (0, 0),
        &format!("{NOTHING}; if it is on, readers poll the card for a while before they sleep"),
        "sysctl net.core.busy_read=50 net.core.busy_poll=50",
    ))
}

fn us(ns: i64) -> String {
    match ns {
        0..10_000 => format!("{:.1} µs", ns as f64 / 1e3),
        _ => format!("{:.0} µs", ns as f64 / 1e3),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use reveille_kernel::network::{Interrupt, RuntimePower, Steering};

    fn card() -> Interface {
        Interface {
            name: "eth5".to_owned(),
            index: 3,
            physical: true,
            interrupts: vec![Interrupt {
                number: 152,
                name: Some("IR-PCI-MSI 2621441-edge eth5-rx-0".to_owned()),
                allowed: Some(vec![0, 1, 2, 3]),
                effective: Some(vec![2]),
            }],
            steering: Vec::new(),
            defer_hard_irqs: Some(0),
            gro_flush_timeout_ns: Some(0),
            threaded: Some(false),
            runtime_power: None,
            link_states: Some(Vec::new()),
        }
    }

    fn nowhere() -> Root {
        Root::at("/nonexistent")
    }

    fn driver(rx_usecs: u32, rx_frames: u32, adaptive_rx: bool) -> DriverSettings {
        DriverSettings {
            coalescing: Some(Ok(Some(Coalescing {
                rx_usecs,
                rx_frames,
                adaptive_rx,
            }))),
            link_sleep: None,
        }
    }

    fn of<'a>(delays: &'a [Delay], what: &str) -> &'a Delay {
        let found = delays.iter().find(|delay| delay.what.contains(what));
        found.unwrap_or_else(|| panic!("{what} is not in {delays:?}"))
    }

    #[test]
    fn coalescing_adds_what_the_driver_reports_and_names_the_command() {
        let delays = delays(&nowhere(), &card(), &driver(3, 0, false), None);
        let delay = of(&delays, "coalescing");
        assert_eq!(delay.now, "rx-usecs 3, rx-frames 0, adaptive-rx off");
        assert!(delay.adds.as_deref().unwrap().starts_with("up to 3 µs"));
        assert_eq!(delay.set.as_deref(), Some("ethtool -C eth5 rx-usecs 0"));
    }

    #[test]
    fn coalescing_that_is_off_adds_nothing() {
        let delays = delays(&nowhere(), &card(), &driver(0, 1, false), None);
        assert_eq!(of(&delays, "coalescing").adds, None);
        let adaptive = super::delays(&nowhere(), &card(), &driver(0, 1, true), None);
        assert!(of(&adaptive, "coalescing").adds.is_some());
    }

    #[test]
    fn unreported_settings_are_shown_as_such() {
        let mut silent = driver(0, 0, false);
        silent.coalescing = Some(Ok(None));
        let delays = delays(&nowhere(), &card(), &silent, None);
        let delay = of(&delays, "coalescing");
        assert_eq!(
            (delay.now.as_str(), &delay.adds),
            ("not reported by the driver", &None)
        );
    }

    #[test]
    fn a_sleeping_link_and_device_are_listed_with_the_command_against_it() {
        let mut card = card();
        card.link_states = Some(vec!["l1".to_owned()]);
        card.runtime_power = Some(RuntimePower {
            control_file: "/sys/devices/x/power/control".to_owned(),
            control: "auto".to_owned(),
            status: Some("active".to_owned()),
            autosuspend_delay_ms: Some(200),
        });
        card.steering = vec![Steering {
            queue: 1,
            cpus: vec![2, 3],
        }];
        card.gro_flush_timeout_ns = Some(20_000);
        let machine = tempfile::tempdir().unwrap();
        let policy = machine.path().join("sys/module/pcie_aspm/parameters");
        std::fs::create_dir_all(&policy).unwrap();
        std::fs::write(policy.join("policy"), "[default] performance\n").unwrap();
        let sleeps = LinkSleep {
            active: true,
            enabled: true,
        };
        let settings = DriverSettings {
            link_sleep: Some(Ok(Some(sleeps))),
            coalescing: None,
        };
        let delays = delays(&Root::at(machine.path()), &card, &settings, None);
        for (what, command) in [
            (
                "ASPM",
                "echo performance > /sys/module/pcie_aspm/parameters/policy",
            ),
            ("runtime power", "echo on > /sys/devices/x/power/control"),
            (
                "steering",
                "echo 0 > /sys/class/net/eth5/queues/rx-1/rps_cpus",
            ),
            ("deferred", "echo 0 > /sys/class/net/eth5/gro_flush_timeout"),
            ("Energy-Efficient", "ethtool --set-eee eth5 eee off"),
        ] {
            let delay = of(&delays, what);
            assert_eq!(delay.set.as_deref(), Some(command), "{delay:?}");
            assert!(delay.adds.is_some(), "{delay:?}");
        }
    }

    #[test]
    fn readers_on_another_cpu_get_the_receiving_one_in_the_command() {
        let mut sample = vec![30_000; 40];
        let readers = ReadersPlace {
            names: [("server".to_owned(), 40)].into(),
            received_on: vec![2],
            read_on: vec![1],
            on_the_same_cpu: None,
            on_another_cpu: reveille_results::statistics::summarise(&mut sample),
            cpu_asleep: 40,
        };
        let delays = delays(
            &nowhere(),
            &card(),
            &DriverSettings::default(),
            Some(&readers),
        );
        let delay = of(&delays, "affinity");
        assert_eq!(delay.now, "interrupt 152 (eth5-rx-0) on CPU 2 of 0-3");
        assert!(delay.adds.as_deref().unwrap().contains("40 of 40 readers"));
        let command = "taskset -c 2 READER; or echo CPU > /proc/irq/152/smp_affinity_list";
        assert_eq!(delay.set.as_deref(), Some(command));
    }

    #[test]
    fn a_virtual_interface_is_no_error() {
        let mut virtual_one = card();
        virtual_one.physical = false;
        virtual_one.interrupts = Vec::new();
        let delays = delays(&nowhere(), &virtual_one, &driver(3, 0, false), None);
        assert!(of(&delays, "interrupts").now.contains("virtual"));
        assert!(
            delays
                .iter()
                .all(|delay| !delay.what.contains("coalescing"))
        );
    }

    #[test]
    fn interrupts_that_announce_no_packet_are_left_out() {
        for (name, other) in [
            ("virtio3-config", true),
            ("virtio2-output.0", true),
            ("virtio2-input.0", false),
            ("eth0-TxRx-0", false),
            ("eth0-tx-0", true),
            ("iwlwifi", false),
            ("mlx5_async0", true),
        ] {
            assert_eq!(is_other(name), other, "{name}");
        }
    }
}
