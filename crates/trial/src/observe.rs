//! What the machine did during a round: residency, wake-ups, power and frequency.
//!
//! Everything is counted by the kernel or the hardware all the time, and read at the round's two
//! ends: watching adds nothing to what happens in between.

use std::collections::BTreeMap;
use std::time::Instant;

use reveille_kernel::asleep::Together;
use reveille_kernel::energy::{self, Packages, PackagesReading};
use reveille_kernel::{Idle, IdleState, Root, affinity, frequency, limits, load};
use serde::{Deserialize, Serialize};

use crate::residency::{self, PackageStates, Residency};
use crate::together::{self, Between};

/// What ended sleep of all CPUs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ender {
    /// The waker: a thread and how it woke, a timer's function, an interrupt.
    pub name: String,
    /// How often.
    pub per_s: f64,
}

/// What the machine did during a round, or during all rounds of a setting on average, this process's work
/// included. The columns of `show` describe the figures.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Observed {
    /// The observed time, s; of a mean, the mean of the rounds'.
    pub elapsed_s: f64,
    /// By depth.
    pub residency: Vec<Residency>,
    /// Of the packages' own states, a mean over packages; empty where nothing is counted.
    #[serde(default)]
    pub package_residency: Vec<Residency>,
    pub awake_percent: Option<f64>,
    pub wakeups_per_s: Option<f64>,
    /// `intr` of /proc/stat.
    pub interrupts_per_s: Option<f64>,
    /// `ctxt` of /proc/stat.
    pub context_switches_per_s: Option<f64>,
    pub power_w: Option<f64>,
    /// Of the processor packages, where `power_w` is by a meter that was named.
    pub packages_w: Option<f64>,
    pub frequency_mhz: Option<f64>,
    pub joint_percent: Option<f64>,
    pub joint_mean_ns: Option<f64>,
    /// Who ended that, the most frequent ones first; empty where it is unknown.
    #[serde(default)]
    pub joint_enders: Vec<Ender>,
}

impl Observed {
    /// With the power by a meter that was named; that of the packages, if it was that, stands beside it.
    pub(crate) fn by_meter(&mut self, power_w: Option<f64>, was_packages: bool) {
        self.packages_w = std::mem::replace(&mut self.power_w, power_w).filter(|_| was_packages);
    }

    /// The mean of several rounds, each figure over those rounds that have it; `None` of none.
    pub fn mean(rounds: &[&Self]) -> Option<Self> {
        let first = rounds.first()?;
        let mean = |figure: &dyn Fn(&Self) -> Option<f64>| {
            let known: Vec<f64> = rounds.iter().filter_map(|round| figure(round)).collect();
            (!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64)
        };
        let residency = |of: fn(&Self) -> &[Residency]| {
            let mean_of = |one: &Residency| {
                let of_round = |round: &Self| {
                    let found = of(round).iter().find(|other| other.state == one.state)?;
                    Some(found.percent)
                };
                Some(Residency {
                    state: one.state.clone(),
                    percent: mean(&of_round)?,
                })
            };
            of(first).iter().filter_map(mean_of).collect()
        };
        Some(Self {
            elapsed_s: mean(&|round| Some(round.elapsed_s))?,
            residency: residency(|round| &round.residency),
            package_residency: residency(|round| &round.package_residency),
            awake_percent: mean(&|round| round.awake_percent),
            wakeups_per_s: mean(&|round| round.wakeups_per_s),
            interrupts_per_s: mean(&|round| round.interrupts_per_s),
            context_switches_per_s: mean(&|round| round.context_switches_per_s),
            power_w: mean(&|round| round.power_w),
            packages_w: mean(&|round| round.packages_w),
            frequency_mhz: mean(&|round| round.frequency_mhz),
            joint_percent: mean(&|round| round.joint_percent),
            joint_mean_ns: mean(&|round| round.joint_mean_ns),
            joint_enders: mean_enders(rounds),
        })
    }
}

/// Of the enders in each round so many are kept: as many as a reader looks at, and more.
const ENDERS: usize = 20;

/// Over those rounds in which sleep of all CPUs was seen.
fn mean_enders(rounds: &[&Observed]) -> Vec<Ender> {
    let seen = rounds.iter().filter(|round| round.joint_percent.is_some());
    let mut sums: BTreeMap<&str, f64> = BTreeMap::new();
    for ender in seen.clone().flat_map(|round| &round.joint_enders) {
        *sums.entry(&ender.name).or_default() += ender.per_s;
    }
    let count = seen.count() as f64;
    let mut enders: Vec<Ender> = sums
        .into_iter()
        .map(|(name, sum)| Ender {
            name: name.to_owned(),
            per_s: sum / count,
        })
        .collect();
    enders.sort_by(|a, b| b.per_s.total_cmp(&a.per_s));
    enders.truncate(ENDERS);
    enders
}

/// Where the counters are.
pub struct Watch<'a> {
    root: Root,
    cpus: Vec<u32>,
    counters: Vec<Counter>,
    /// Names by depth.
    states: Vec<String>,
    packages: Option<Packages>,
    package_states: PackageStates,
    joint: Option<together::Counter<'a>>,
}

struct Counter {
    cpu: u32,
    state: usize,
    sleeps: bool,
    usage: String,
    time: String,
}

/// The counters at one instant.
pub struct Reading {
    at: Instant,
    /// Uses and µs of each counter; `None` where it could not be read (its CPU went offline).
    states: Vec<Option<(u64, u64)>>,
    idle_ticks: Option<BTreeMap<u32, u64>>,
    interrupts: Option<u64>,
    context_switches: Option<u64>,
    energy: Option<PackagesReading>,
    battery_w: Option<f64>,
    frequency_mhz: Option<f64>,
    package_states: residency::Reading,
    joint: Option<Together>,
}

impl<'a> Watch<'a> {
    /// Finds the counters of the CPUs that are online.
    pub fn new(root: &Root, idle: &Idle, joint: Option<together::Counter<'a>>) -> Self {
        let online = || idle.cpus.iter().filter(|cpu| cpu.online);
        let states = states_by_depth(idle);
        let states: Vec<String> = states.iter().map(|state| state.name.clone()).collect();
        let counters = online().flat_map(|cpu| {
            let states = &states;
            cpu.states.iter().filter_map(move |state| {
                let folder = format!(
                    "sys/devices/system/cpu/cpu{}/cpuidle/state{}",
                    cpu.number, state.index
                );
                Some(Counter {
                    cpu: cpu.number,
                    state: states.iter().position(|name| *name == state.name)?,
                    sleeps: limits::poll(std::slice::from_ref(state)).is_none(),
                    usage: format!("{folder}/usage"),
                    time: format!("{folder}/time"),
                })
            })
        });
        Self {
            root: root.clone(),
            cpus: online().map(|cpu| cpu.number).collect(),
            counters: counters.collect(),
            states: states.clone(),
            packages: Packages::of(root),
            package_states: PackageStates::open(root),
            joint,
        }
    }

    /// Is the power that of the processor packages?
    pub(crate) fn has_packages(&self) -> bool {
        self.packages.is_some()
    }

    /// Where the power comes from, in a sentence; `None` if unknown.
    pub(crate) fn power_source(&self) -> Option<String> {
        self.power(&self.read(), &self.read(), 1.0)?;
        Some(match self.packages {
            Some(_) => "Power is that of the processor packages, by RAPL.".into(),
            None => {
                "Power is the battery's at the end of each round; it responds slowly, so rounds should \
             be long."
                    .into()
            }
        })
    }

    /// Reads all counters, after a visit to every CPU: a stay is counted when it ends.
    pub fn read(&self) -> Reading {
        affinity::visit(&self.cpus);
        let at = Instant::now();
        let states = self.counters.iter().map(|counter| {
            let usage = self.root.number(&counter.usage)?;
            Some((usage, self.root.number(&counter.time)?))
        });
        let states = states.collect();
        let stat = self.root.text("proc/stat");
        let total = |name: &str| first_number(stat.as_deref()?, name);
        Reading {
            at,
            states,
            idle_ticks: load::idle_ticks(&self.root),
            interrupts: total("intr"),
            context_switches: total("ctxt"),
            energy: self.packages.as_ref().map(Packages::read),
            battery_w: self.battery_w(),
            frequency_mhz: self.frequency_mhz(),
            package_states: self.package_states.read(),
            joint: self.joint.and_then(|joint| joint()),
        }
    }

    fn battery_w(&self) -> Option<f64> {
        let batteries = energy::discharging(&self.root);
        let watts = batteries.iter().map(|battery| battery.watts);
        (!batteries.is_empty()).then(|| watts.sum())
    }

    fn frequency_mhz(&self) -> Option<f64> {
        let all = self.cpus.iter();
        let known: Vec<f64> = all
            .filter_map(|cpu| frequency::current_mhz(&self.root, *cpu))
            .collect();
        (!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64)
    }

    /// All packages' power, by their counters; else the battery's.
    fn power(&self, before: &Reading, after: &Reading, elapsed_s: f64) -> Option<f64> {
        let Some(packages) = &self.packages else {
            return after.battery_w;
        };
        let used_j = packages.between_j(before.energy.as_ref()?, after.energy.as_ref()?)?;
        Some(used_j / elapsed_s)
    }

    /// What happened between two readings.
    pub fn between(&self, before: &Reading, after: &Reading) -> Observed {
        let elapsed_s = after.at.duration_since(before.at).as_secs_f64();
        let per_s = |before: Option<u64>, after: Option<u64>| {
            Some(after?.checked_sub(before?)? as f64 / elapsed_s)
        };
        let mut observed = Observed {
            elapsed_s,
            interrupts_per_s: per_s(before.interrupts, after.interrupts),
            context_switches_per_s: per_s(before.context_switches, after.context_switches),
            power_w: self.power(before, after, elapsed_s),
            frequency_mhz: after.frequency_mhz,
            package_residency: self
                .package_states
                .between(&before.package_states, &after.package_states),
            ..Observed::default()
        };
        let joint = before.joint.as_ref().zip(after.joint.as_ref());
        if let Some(joint) = joint.and_then(|(before, after)| Between::of(before, after)) {
            observed.joint_percent = Some(joint.percent);
            observed.joint_mean_ns = joint.mean_ns;
            let enders = joint.enders.into_iter().take(ENDERS);
            let ender = |(name, per_s)| Ender { name, per_s };
            observed.joint_enders = enders.map(ender).collect();
        }
        self.states(before, after, &mut observed);
        if observed.awake_percent.is_none() {
            observed.awake_percent = awake_by_ticks(before, after, elapsed_s);
        }
        observed
    }

    /// Residency and wake-ups, over the CPUs whose counters could all be read at both ends.
    fn states(&self, before: &Reading, after: &Reading, observed: &mut Observed) {
        let counted: Vec<(&Counter, Option<(u64, u64)>)> = self
            .counters
            .iter()
            .zip(before.states.iter().zip(&after.states))
            .map(|(counter, (before, after))| (counter, grown(*before, *after)))
            .collect();
        let lost = |cpu: u32| {
            let mut of_cpu = counted.iter().filter(|(counter, _)| counter.cpu == cpu);
            of_cpu.any(|(_, grown)| grown.is_none())
        };
        let mut cpus: Vec<u32> = self.counters.iter().map(|counter| counter.cpu).collect();
        cpus.dedup();
        cpus.retain(|cpu| !lost(*cpu));
        if cpus.is_empty() {
            return;
        }
        let cpu_time_us = observed.elapsed_s * 1e6 * cpus.len() as f64;
        let mut times_us = vec![0; self.states.len()];
        let (mut asleep_us, mut uses) = (0, 0);
        for (counter, grown) in counted {
            let Some((used, us)) = grown.filter(|_| cpus.contains(&counter.cpu)) else {
                continue;
            };
            times_us[counter.state] += us;
            if counter.sleeps {
                asleep_us += us;
                uses += used;
            }
        }
        let percent = |us: u64| 100.0 * us as f64 / cpu_time_us;
        let states = self.states.iter().zip(times_us);
        observed.residency = states
            .map(|(state, us)| Residency {
                state: state.clone(),
                percent: percent(us),
            })
            .collect();
        // The readings of a CPU are not taken at the very instant of the clock's.
        observed.awake_percent = Some((100.0 - percent(asleep_us)).clamp(0.0, 100.0));
        observed.wakeups_per_s = Some(uses as f64 / observed.elapsed_s);
    }
}

/// Every idle state of the CPUs that are online, once by name.
pub(crate) fn states_by_depth(idle: &Idle) -> Vec<&IdleState> {
    let mut states: Vec<&IdleState> = Vec::new();
    let online = idle.cpus.iter().filter(|cpu| cpu.online);
    for state in online.flat_map(|cpu| &cpu.states) {
        if !states.iter().any(|known| known.name == state.name) {
            states.push(state);
        }
    }
    states.sort_by_key(|state| (state.exit_latency_us.unwrap_or(u64::MAX), state.index));
    states
}

fn grown(before: Option<(u64, u64)>, after: Option<(u64, u64)>) -> Option<(u64, u64)> {
    let ((uses, us), (later_uses, later_us)) = (before?, after?);
    Some((later_uses.checked_sub(uses)?, later_us.checked_sub(us)?))
}

/// Where cpuidle counts nothing: the scheduler's idle ticks of 10 ms.
fn awake_by_ticks(before: &Reading, after: &Reading, elapsed_s: f64) -> Option<f64> {
    let (before, after) = (before.idle_ticks.as_ref()?, after.idle_ticks.as_ref()?);
    let idle: Vec<u64> = before
        .iter()
        .filter_map(|(cpu, ticks)| after.get(cpu)?.checked_sub(*ticks))
        .collect();
    let per_s = nix::unistd::sysconf(nix::unistd::SysconfVar::CLK_TCK).ok()??;
    let ticks = elapsed_s * per_s as f64 * idle.len() as f64;
    let idle_percent = 100.0 * idle.iter().sum::<u64>() as f64 / ticks;
    (ticks > 0.0).then(|| (100.0 - idle_percent).clamp(0.0, 100.0))
}

/// The number after `name` at the beginning of a line of /proc/stat: the sum over all CPUs.
fn first_number(stat: &str, name: &str) -> Option<u64> {
    let mut lines = stat.lines();
    let line = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;
    use std::time::Duration;

    use super::*;

    const STATES: [(&str, u32); 3] = [("POLL", 0), ("C1", 2), ("C6", 100)];

    /// Two CPUs with three states; each CPU's states have these uses and µs.
    fn write(root: &Path, counts: [[(u64, u64); 3]; 2], idle_ticks: u64) {
        let system = root.join("sys/devices/system/cpu");
        for (cpu, counts) in counts.iter().enumerate() {
            for (index, ((uses, us), (name, latency))) in counts.iter().zip(STATES).enumerate() {
                let folder = system.join(format!("cpu{cpu}/cpuidle/state{index}"));
                fs::create_dir_all(&folder).unwrap();
                fs::write(folder.join("name"), name).unwrap();
                fs::write(folder.join("latency"), latency.to_string()).unwrap();
                fs::write(folder.join("usage"), uses.to_string()).unwrap();
                fs::write(folder.join("time"), us.to_string()).unwrap();
            }
        }
        fs::create_dir_all(root.join("proc")).unwrap();
        for list in ["present", "online"] {
            fs::write(system.join(list), "0-1\n").unwrap();
        }
        let stat = format!(
            "cpu  0 0 0 0\ncpu0 0 0 0 {idle_ticks} 0\ncpu1 0 0 0 {idle_ticks} 0\nintr {} 7 8\nctxt {}\n",
            idle_ticks * 10,
            idle_ticks * 20
        );
        fs::write(root.join("proc/stat"), stat).unwrap();
    }

    fn between(before: [[(u64, u64); 3]; 2], after: [[(u64, u64); 3]; 2]) -> Observed {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), before, 0);
        let root = Root::at(folder.path());
        let watch = Watch::new(&root, &Idle::read(&root).unwrap(), None);
        let first = watch.read();
        write(folder.path(), after, 100);
        let mut second = watch.read();
        second.at = first.at + Duration::from_secs(2);
        watch.between(&first, &second)
    }

    const NOTHING: [[(u64, u64); 3]; 2] = [[(0, 0); 3]; 2];

    #[test]
    fn residency_is_a_share_of_all_cpus_time_and_polling_is_being_awake() {
        let after = [
            [(5, 400_000), (10, 600_000), (20, 1_000_000)],
            [(0, 0), (30, 1_000_000), (40, 1_000_000)],
        ];
        let observed = between(NOTHING, after);
        let percent: Vec<f64> = observed.residency.iter().map(|one| one.percent).collect();
        assert_eq!(percent, [10.0, 40.0, 50.0]);
        assert_eq!(observed.residency[2].state, "C6");
        assert_eq!(observed.awake_percent, Some(10.0));
        // Polls are no wake-ups: 10 + 20 + 30 + 40 in two seconds.
        assert_eq!(observed.wakeups_per_s, Some(50.0));
        assert_eq!(observed.interrupts_per_s, Some(500.0));
        assert_eq!(observed.context_switches_per_s, Some(1000.0));
        assert_eq!((observed.power_w, observed.frequency_mhz), (None, None));
    }

    #[test]
    fn power_is_that_of_all_packages_and_not_of_their_parts_as_well() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), NOTHING, 0);
        let zone = |zone: &str, name: &str, uj: u64| {
            let zone = folder.path().join("sys/class/powercap").join(zone);
            fs::create_dir_all(&zone).unwrap();
            fs::write(zone.join("name"), name).unwrap();
            fs::write(zone.join("energy_uj"), uj.to_string()).unwrap();
            fs::write(zone.join("max_energy_range_uj"), "1000000000").unwrap();
        };
        let zones = |used: u64| {
            zone("intel-rapl:0", "package-0", 1_000_000 + 20 * used);
            zone("intel-rapl:0:0", "core", 500_000 + 10 * used);
            zone(
                "intel-rapl:1",
                "package-1",
                (999_999_990 + 10 * used) % 1_000_000_000,
            );
        };
        zones(0);
        let root = Root::at(folder.path());
        let watch = Watch::new(&root, &Idle::read(&root).unwrap(), None);
        let first = watch.read();
        assert!(watch.power_source().unwrap().contains("RAPL"));
        zones(1_000_000);
        let mut second = watch.read();
        second.at = first.at + Duration::from_secs(2);
        // 20 J and 10 J in two seconds, the second counter wrapping around.
        assert_eq!(watch.between(&first, &second).power_w, Some(15.0));
    }

    #[test]
    fn counters_that_went_back_are_unknown_and_that_cpu_does_not_count() {
        let mut before = NOTHING;
        before[1][2] = (7, 9);
        let after = [[(0, 0), (0, 0), (2, 2_000_000)], [(0, 0); 3]];
        let observed = between(before, after);
        assert_eq!(observed.awake_percent, Some(0.0));
        assert_eq!(observed.wakeups_per_s, Some(1.0));
    }

    #[test]
    fn the_mean_of_rounds_omits_unknown_values() {
        let round = |power_w, awake| Observed {
            elapsed_s: 1.0,
            residency: vec![Residency {
                state: "C1".into(),
                percent: awake,
            }],
            awake_percent: Some(awake),
            power_w,
            ..Observed::default()
        };
        let rounds = [
            round(Some(5.0), 10.0),
            round(None, 20.0),
            round(Some(7.0), 60.0),
        ];
        let mean = Observed::mean(&rounds.iter().collect::<Vec<_>>()).unwrap();
        assert_eq!(mean.joint_enders, []);
        assert_eq!((mean.power_w, mean.awake_percent), (Some(6.0), Some(30.0)));
        assert_eq!(
            (mean.residency[0].percent, mean.wakeups_per_s),
            (30.0, None)
        );
        assert_eq!(Observed::mean(&[]), None);
    }

    #[test]
    fn who_ends_joint_sleep_is_a_mean_over_the_rounds_that_saw_it() {
        let round = |enders: &[(&str, f64)], joint_percent| Observed {
            joint_percent,
            joint_enders: enders
                .iter()
                .map(|(name, per_s)| Ender {
                    name: (*name).to_owned(),
                    per_s: *per_s,
                })
                .collect(),
            ..Observed::default()
        };
        let rounds = [
            round(&[("a", 10.0), ("b", 4.0)], Some(50.0)),
            round(&[("c", 30.0)], Some(60.0)),
            round(&[], None),
        ];
        let mean = Observed::mean(&rounds.iter().collect::<Vec<_>>()).unwrap();
        let enders: Vec<(&str, f64)> = mean
            .joint_enders
            .iter()
            .map(|ender| (&*ender.name, ender.per_s))
            .collect();
        assert_eq!(enders, [("c", 15.0), ("a", 5.0), ("b", 2.0)]);
    }

    #[test]
    fn without_cpuidle_idle_ticks_give_the_time_awake() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), NOTHING, 0);
        for cpu in ["cpu0", "cpu1"] {
            fs::remove_dir_all(folder.path().join("sys/devices/system/cpu").join(cpu)).unwrap();
        }
        let root = Root::at(folder.path());
        let watch = Watch::new(&root, &Idle::read(&root).unwrap(), None);
        let first = watch.read();
        // 50 ticks of 10 ms on each CPU, in two seconds.
        write(folder.path(), NOTHING, 50);
        let mut second = watch.read();
        second.at = first.at + Duration::from_secs(2);
        let observed = watch.between(&first, &second);
        assert_eq!(observed.awake_percent, Some(75.0));
        assert_eq!(
            (observed.residency.len(), observed.wakeups_per_s),
            (0, None)
        );
    }

    #[test]
    fn without_packages_the_battery_gives_the_power_and_cpus_their_mean_frequency_at_the_end() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), NOTHING, 0);
        let put = |file: &str, text: &str| {
            let path = folder.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let khz = |cpu: u32, khz: &str| {
            let file = format!("sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_cur_freq");
            put(&file, khz);
        };
        let battery = |name: &str, uw: &str| {
            let folder = format!("sys/class/power_supply/{name}");
            put(&format!("{folder}/type"), "Battery");
            put(&format!("{folder}/status"), "Discharging");
            put(&format!("{folder}/power_now"), uw);
        };
        let root = Root::at(folder.path());
        let watch = Watch::new(&root, &Idle::read(&root).unwrap(), None);
        assert_eq!(watch.power_source(), None);
        khz(0, "800000");
        battery("BAT0", "3000000");
        let first = watch.read();
        khz(0, "2000000");
        khz(1, "3000000");
        battery("BAT0", "5000000");
        battery("BAT1", "2500000");
        reveille_snapshot::snapshot!("notes", [("a battery", watch.power_source().unwrap())]);
        let mut second = watch.read();
        second.at = first.at + Duration::from_secs(2);
        let observed = watch.between(&first, &second);
        assert_eq!(observed.power_w, Some(7.5));
        assert_eq!(observed.frequency_mhz, Some(2500.0));
        assert_eq!(observed.elapsed_s, 2.0);
    }

    #[test]
    fn idle_ticks_without_a_common_cpu_are_unknown() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), NOTHING, 0);
        let root = Root::at(folder.path());
        let watch = Watch::new(&root, &Idle::read(&root).unwrap(), None);
        let first = watch.read();
        fs::write(folder.path().join("proc/stat"), "cpu2 0 0 0 50 0\n").unwrap();
        let second = watch.read();
        assert_eq!(awake_by_ticks(&first, &second, 2.0), None);
        assert_eq!(awake_by_ticks(&first, &first, 2.0), Some(100.0));
    }

    #[test]
    fn a_line_of_proc_stat_is_found_by_its_whole_name() {
        let stat = "cpu  1 2\nintrs 3\nintr 40 5 6\nctxt x\n";
        assert_eq!(first_number(stat, "intr"), Some(40));
        assert_eq!(first_number(stat, "ctxt"), None);
        assert_eq!(first_number(stat, "btime"), None);
    }
}
