//! What the engine has done so far, from its tables. The columns of `live::show` describe the fields.

use std::net::{IpAddr, SocketAddr};
use std::{mem, ptr};

use libbpf_rs::{MapCore, MapFlags};
use reveille_kernel::Root;
use reveille_kernel::bpf::thread_name;
use serde::Serialize;

use super::agents::{Agents, Expectations, NO_DEVICE};
use super::skeleton::types;
use super::{DEVICES, Engine};
use crate::model::Model;
use crate::{AwakePower, Operation, Result};

/// OPERATIONS and DEPTHS of anticipate.h.
const OPERATIONS: u32 = 2;
/// `OF_PACKETS` and `OF_HINTS` of anticipate.h.
const OF_PACKETS: u32 = DEVICES * OPERATIONS;
const OF_HINTS: u32 = OF_PACKETS + 1;
/// `PACKETS` of anticipate.h.
const PACKETS: u32 = 0xfffe;
/// `ARRIVAL_SECTORS` of arrivals.h.
const ARRIVAL_SECTORS: u32 = 8;
/// Buckets of latencies are 32 for each power of two.
const STEPS: usize = 32;

/// All of it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Statistics {
    /// How long it has run, s.
    pub elapsed_s: f64,
    /// The power by which energy is computed; `None` if it is unknown, and energy with it.
    pub awake_power: Option<AwakePower>,
    /// Time kept awake, all CPUs together: CPU seconds.
    pub awake_s: f64,
    /// What these cost, J, rather too much than too little; `None` without
    /// [`Statistics::awake_power`].
    pub awake_j: Option<f64>,
    /// Devices and operations of which something was seen.
    pub operations: Vec<OperationStatistics>,
    /// Ascending by number.
    pub cpus: Vec<Cpu>,
    /// `None` unless packets are anticipated.
    pub packets: Option<PacketStatistics>,
    /// What became of the windows of clients' hints; `None` unless they are taken.
    #[serde(rename = "hinted")]
    pub hints: Option<Assistance>,
    /// What applications expected.
    pub expectations: Expectations,
    /// By process and disk, the longest time awake first.
    pub accounting: Vec<Accounted>,
}

/// One operation of one device.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OperationStatistics {
    /// As in `/sys/block`: `nvme0n1`.
    pub device: String,
    /// What the requests do.
    pub operation: Operation,
    /// Synchronous requests of those for whom is anticipated.
    pub requests: u64,
    /// What became of them.
    pub assistance: Assistance,
    /// Errors of the prediction, % of what the request took: the median; `None` without any.
    pub error_median_percent: Option<f64>,
    /// As the median: nine of ten are no larger; `None` below 100 predictions.
    pub error_p90_percent: Option<f64>,
    /// By the number in flight, ascending; those that have learnt something.
    pub models: Vec<Model>,
    /// From issue until the waiting task runs again, of those left alone at random.
    pub left_alone: Option<Latency>,
    /// The same, of those assisted.
    pub assisted: Option<Latency>,
    /// `None` unless there are both.
    pub gain: Option<Gain>,
}

/// Packets of periodic flows.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PacketStatistics {
    /// Arrivals, of all flows.
    pub arrivals: u64,
    /// What became of them.
    pub assistance: Assistance,
    /// From a packet's arrival until its reader runs, of those left alone at random.
    pub left_alone: Option<Latency>,
    /// The same, of those assisted.
    pub assisted: Option<Latency>,
    /// `None` unless there are both.
    pub gain: Option<Gain>,
    /// Those that were assisted most; at most 32.
    pub flows: Vec<Flow>,
}

/// Flows that are listed.
const FLOWS: usize = 32;

/// Packets from one address and port to another.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Flow {
    /// `udp`, `tcp`.
    pub protocol: &'static str,
    /// Address and port.
    pub from: SocketAddr,
    /// Address and port.
    pub to: SocketAddr,
    /// Arrivals; packets that come together are one.
    pub arrivals: u64,
    /// Of these, those for which the engine scheduled a CPU to be awake.
    pub assisted: u64,
    /// Of these, those that came while the CPU was ready.
    pub in_time: u64,
    /// The mean period, µs; `None` until enough is known.
    pub period_us: Option<f64>,
    /// From the 5th to the 90th percentile of the predicted time, µs; `None` until enough is known.
    pub spread_us: Option<f64>,
}

/// What became of the requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Assistance {
    /// Not assisted: the model has too few requests.
    pub learning: u64,
    /// Not assisted: too many are in flight.
    pub crowded: u64,
    /// Not assisted: the budget was spent.
    pub over_budget: u64,
    /// Not assisted: too many windows were open on the CPU.
    pub plan_full: u64,
    /// Not assisted: issued by the kernel, for no task.
    pub unattended: u64,
    /// Not assisted, at random, for comparison.
    pub control: u64,
    /// Those for which a CPU was scheduled to be awake.
    pub assisted: u64,
    /// Of those assisted: complete while the CPU was ready.
    pub in_time: u64,
    /// Of those assisted: complete before.
    pub early: u64,
    /// Of those assisted: complete after the window.
    pub late: u64,
    /// Of those assisted: complete before the CPU slept at all.
    pub cpu_busy: u64,
    /// Of those assisted: the CPU that takes the interrupt was scheduled, too.
    pub two_cpus: u64,
    /// Not assisted: packets that arrive at times that vary too much.
    pub irregular: u64,
}

/// A quantile is reported only where ten figures lie beyond it, as everywhere.
const ENOUGH_FOR_P90: u64 = 100;
const ENOUGH_FOR_P99: u64 = 1000;

/// Latencies, µs; from buckets that are 3% wide.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Latency {
    pub count: u64,
    pub median_us: f64,
    /// `None` where fewer than ten lie beyond it, as for the next.
    pub p90_us: Option<f64>,
    pub p99_us: Option<f64>,
    /// Standard error of the median, by order statistics, µs.
    pub median_error_us: f64,
}

/// The difference of the medians, those assisted less those left alone; an interval of 95%.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Gain {
    pub median_us: f64,
    pub low_us: f64,
    pub high_us: f64,
}

/// What was done on a CPU.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Cpu {
    pub cpu: u32,
    pub awake_s: f64,
    /// What that cost, J; `None` without [`Statistics::awake_power`].
    pub awake_j: Option<f64>,
    pub awake_percent: f64,
    pub spells: u64,
    pub timers: u64,
    /// Timers that the kernel did not take.
    pub refused: u64,
    pub fired: u64,
    pub cancelled: u64,
    pub busy: u64,
    /// Timers that the kernel had moved to another CPU.
    pub strayed: u64,
    pub naps: u64,
    /// Times that one of the program's threads was woken: another CPU's, for its interrupts, or
    /// this one's, to arm the timer for an announced window.
    pub notices: u64,
    /// How late nine of ten timers come at most, µs, by the length of sleep, µs (at least).
    pub late_us: Vec<(u64, f64)>,
    /// How late short naps end, on average, µs.
    pub nap_late_us: Option<f64>,
}

/// Time awake on behalf of a process.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Accounted {
    /// The process's number; `None`: it has none in this PID namespace.
    pub process: Option<u32>,
    pub name: String,
    /// The number of its cgroup's folder; 0 if unknown.
    pub cgroup: u64,
    /// `None`: windows that it announced itself.
    pub device: Option<String>,
    pub requests: u64,
    pub assisted: u64,
    pub awake_s: f64,
    pub awake_j: Option<f64>,
}

impl Engine {
    /// What it has done so far.
    pub fn statistics(&self) -> Result<Statistics> {
        let elapsed_s = self.elapsed().as_secs_f64();
        let mut operations = Vec::new();
        for (index, device) in (0u32..).zip(&self.settings.devices) {
            for operation in Operation::ALL {
                let seen = self.operation(index, &device.name, operation)?;
                operations.extend(seen);
            }
        }
        let mut cpus = Vec::new();
        for cpu in 0..self.cpus {
            cpus.extend(self.cpu(cpu, elapsed_s)?);
        }
        let awake_s = cpus.iter().map(|cpu| cpu.awake_s).sum();
        let hinted = self.settings.packets.hinted;
        let hints = hinted.then(|| self.outcome(OF_HINTS)).transpose()?;
        Ok(Statistics {
            elapsed_s,
            packets: match self.settings.packets.periodic {
                true => Some(self.packets()?),
                false => None,
            },
            hints: hints.as_ref().map(|outcome| Assistance {
                assisted: outcome.requests,
                ..Assistance::of(outcome)
            }),
            awake_power: self.settings.awake_power,
            awake_s,
            awake_j: self.joules(awake_s),
            operations,
            cpus,
            expectations: self
                .agents
                .as_ref()
                .map(Agents::expectations)
                .unwrap_or_default(),
            accounting: self.accounting()?,
        })
    }

    /// The energy of that time awake.
    fn joules(&self, awake_s: f64) -> Option<f64> {
        Some(awake_s * self.settings.awake_power?.median_w)
    }

    /// Requests and arrivals so far that it was to anticipate.
    pub(super) fn requests(&self) -> Result<u64> {
        let mut requests = 0;
        for key in 0..=OF_PACKETS {
            requests += self.outcome(key)?.requests;
        }
        Ok(requests)
    }

    fn outcome(&self, key: u32) -> Result<types::outcome> {
        Ok(entry(&self.skel.maps.outcomes, &key.to_ne_bytes())?.unwrap_or_default())
    }

    fn operation(
        &self,
        index: u32,
        device: &str,
        operation: Operation,
    ) -> Result<Option<OperationStatistics>> {
        let maps = &self.skel.maps;
        let key = index * OPERATIONS + operation as u32;
        let outcome = self.outcome(key)?;
        let learnt: Option<types::device> = entry(&maps.devices, &index.to_ne_bytes())?;
        let models = learnt.map_or_else(Vec::new, |learnt| {
            let models = &learnt.models[operation as usize];
            let models = [0, 1, 2, 4].into_iter().zip(models);
            models
                .filter_map(|(depth, model)| crate::model::read(depth, model))
                .collect()
        });
        if outcome.requests == 0 && models.is_empty() {
            return Ok(None);
        }
        let errors = numbers(&maps.errors, key)?;
        let left_alone = Latency::of(&numbers(&maps.latencies, key * 2)?);
        let assisted = Latency::of(&numbers(&maps.latencies, key * 2 + 1)?);
        Ok(Some(OperationStatistics {
            device: device.to_owned(),
            operation,
            requests: outcome.requests,
            assistance: Assistance::of(&outcome),
            error_median_percent: quantile(&errors, 0.5).map(|percent| percent as f64),
            error_p90_percent: quantile(&errors, 0.9)
                .filter(|_| errors.iter().sum::<u64>() >= ENOUGH_FOR_P90)
                .map(|percent| percent as f64),
            models,
            gain: gain(assisted, left_alone),
            left_alone,
            assisted,
        }))
    }

    fn packets(&self) -> Result<PacketStatistics> {
        let maps = &self.skel.maps;
        let outcome = self.outcome(OF_PACKETS)?;
        let left_alone = Latency::of(&numbers(&maps.latencies, OF_PACKETS * 2)?);
        let assisted = Latency::of(&numbers(&maps.latencies, OF_PACKETS * 2 + 1)?);
        let mut flows = Vec::new();
        for key in maps.flows.keys() {
            let Some(flow) = entry::<types::flow>(&maps.flows, &key)? else {
                continue;
            };
            // Most flows are nobody's, or end soon.
            if flow.assisted > 0 {
                flows.push(Flow::of(&plain(&key), &flow));
            }
        }
        flows.sort_by_key(|flow| std::cmp::Reverse((flow.assisted, flow.arrivals)));
        flows.truncate(FLOWS);
        Ok(PacketStatistics {
            arrivals: outcome.requests,
            assistance: Assistance::of(&outcome),
            gain: gain(assisted, left_alone),
            left_alone,
            assisted,
            flows,
        })
    }

    fn cpu(&self, cpu: u32, elapsed_s: f64) -> Result<Option<Cpu>> {
        let plan = entry::<types::plan>(&self.skel.maps.plans, &cpu.to_ne_bytes())?;
        let Some(plan) = plan else { return Ok(None) };
        let sums = plan.sums;
        let us = |ns: u32| f64::from(ns) / 1e3;
        let late = plan.late.iter().enumerate().filter(|(_, ns)| **ns > 0);
        let awake_s = sums.awake_ns as f64 / 1e9;
        Ok(Some(Cpu {
            cpu,
            awake_s,
            awake_j: self.joules(awake_s),
            awake_percent: 100.0 * awake_s / elapsed_s.max(1e-9),
            spells: sums.spells,
            timers: sums.armed,
            refused: sums.refused,
            fired: sums.fired,
            cancelled: sums.cancelled,
            busy: sums.busy,
            strayed: sums.strayed,
            naps: sums.naps,
            notices: sums.notices,
            late_us: late.map(|(log, ns)| (1 << log, us(*ns))).collect(),
            nap_late_us: (plan.nap_late > 0).then(|| us(plan.nap_late)),
        }))
    }

    fn accounting(&self) -> Result<Vec<Accounted>> {
        let charges = &self.skel.maps.charges;
        let mut all = Vec::new();
        for key in charges.keys() {
            let Some(charge) = entry::<types::charge>(charges, &key)? else {
                continue;
            };
            let owner: types::owner = plain(&key);
            let device = self.settings.devices.get(owner.device as usize);
            let awake_s = charge.awake_ns as f64 / 1e9;
            all.push(Accounted {
                process: (charge.process > 0).then_some(charge.process),
                name: name(&charge.name, charge.process),
                cgroup: owner.cgroup,
                device: match owner.device {
                    NO_DEVICE => None,
                    PACKETS => Some("(packets)".to_owned()),
                    _ => Some(device.map_or_else(|| "?".to_owned(), |device| device.name.clone())),
                },
                requests: charge.requests,
                assisted: charge.assisted,
                awake_s,
                awake_j: self.joules(awake_s),
            });
        }
        all.sort_by(|one, other| other.awake_s.total_cmp(&one.awake_s));
        Ok(all)
    }
}

/// Of those assisted against those left alone.
fn gain(assisted: Option<Latency>, left_alone: Option<Latency>) -> Option<Gain> {
    let both = assisted.zip(left_alone);
    both.map(|(assisted, alone)| assisted.less(&alone))
}

impl Assistance {
    fn of(outcome: &types::outcome) -> Self {
        Self {
            learning: outcome.learning,
            crowded: outcome.crowded,
            over_budget: outcome.over_budget,
            plan_full: outcome.plan_full,
            unattended: outcome.unattended,
            cpu_busy: outcome.cpu_busy,
            control: outcome.control,
            assisted: outcome.assisted,
            in_time: outcome.in_time,
            early: outcome.early,
            late: outcome.late,
            two_cpus: outcome.two_cpus,
            irregular: outcome.irregular,
        }
    }
}

impl Flow {
    fn of(key: &types::flow_key, flow: &types::flow) -> Self {
        let end = |nth: usize| {
            let bytes: [u8; 16] = key.addresses[nth];
            let address = match key.family {
                4 => IpAddr::from([bytes[0], bytes[1], bytes[2], bytes[3]]),
                _ => IpAddr::from(bytes),
            };
            SocketAddr::new(address, key.ports[nth])
        };
        let learnt = crate::model::learnt(&flow.model);
        let expected = crate::expected(&learnt, ARRIVAL_SECTORS);
        Self {
            protocol: if key.protocol == 6 { "tcp" } else { "udp" },
            from: end(0),
            to: end(1),
            arrivals: flow.arrivals,
            assisted: flow.assisted,
            in_time: flow.in_time,
            period_us: expected.map(|expected| expected.ns / 1e3),
            spread_us: expected.map(|expected| (expected.late_ns - expected.early_ns) / 1e3),
        }
    }
}

impl Latency {
    /// `None` where nothing was counted.
    fn of(counts: &[u64]) -> Option<Self> {
        let count: u64 = counts.iter().sum();
        let us = |share: f64| Some(middle_ns(quantile(counts, share)?) / 1e3);
        // Ranks of the median's interval: 1.96 standard deviations of the binomial each way.
        let half = 0.98 / (count.max(1) as f64).sqrt();
        let (low, high) = (us((0.5 - half).max(0.0))?, us((0.5 + half).min(1.0))?);
        Some(Self {
            count,
            median_us: us(0.5)?,
            p90_us: us(0.9).filter(|_| count >= ENOUGH_FOR_P90),
            p99_us: us(0.99).filter(|_| count >= ENOUGH_FOR_P99),
            median_error_us: (high - low) / (2.0 * 1.96),
        })
    }

    fn less(&self, other: &Self) -> Gain {
        let difference = self.median_us - other.median_us;
        let half = 1.96 * self.median_error_us.hypot(other.median_error_us);
        Gain {
            median_us: difference,
            low_us: difference - half,
            high_us: difference + half,
        }
    }
}

/// The bucket in which that share of the counts ends.
fn quantile(counts: &[u64], share: f64) -> Option<usize> {
    let count: u64 = counts.iter().sum();
    let rank = (share * count as f64).ceil().max(1.0) as u64;
    let mut seen = 0;
    counts.iter().position(|bucket| {
        seen += bucket;
        count > 0 && seen >= rank.min(count)
    })
}

/// The middle of a bucket of latencies.
fn middle_ns(bucket: usize) -> f64 {
    let least = |bucket: usize| match bucket < STEPS {
        true => bucket as f64,
        false => (STEPS + bucket % STEPS) as f64 * 2f64.powi((bucket / STEPS) as i32 - 1),
    };
    f64::midpoint(least(bucket), least(bucket + 1))
}

/// A process's name; where the kernel side has none, the running process's.
fn name(comm: &[std::ffi::c_char], process: u32) -> String {
    match thread_name(comm) {
        name if name.is_empty() => Root::default().line(&format!("proc/{process}/comm")),
        name => Some(name),
    }
    .unwrap_or_default()
}

fn entry<T: Copy + Default>(table: &impl MapCore, key: &[u8]) -> Result<Option<T>> {
    Ok(table.lookup(key, MapFlags::ANY)?.map(|bytes| plain(&bytes)))
}

/// The counts of an entry; empty without one.
fn numbers(table: &impl MapCore, key: u32) -> Result<Vec<u64>> {
    let bytes = table
        .lookup(&key.to_ne_bytes(), MapFlags::ANY)?
        .unwrap_or_default();
    Ok(bytes.chunks_exact(8).map(plain).collect())
}

/// A table's bytes as what they are; all of these types are numbers and letters, of any bits.
fn plain<T: Copy + Default>(bytes: &[u8]) -> T {
    assert!(
        bytes.len() >= mem::size_of::<T>(),
        "the tables hold their types"
    );
    // SAFETY: the bytes are as many as the type has, which is plain data (asserted above and by its
    // use here alone); the read needs no alignment.
    unsafe { ptr::read_unaligned(bytes.as_ptr().cast()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As `bucket` of anticipate.bpf.c.
    fn bucket(ns: u64) -> usize {
        match ns {
            0..32 => ns as usize,
            _ => {
                let exponent = ns.ilog2();
                (exponent as usize - 4) * 32 + ((ns >> (exponent - 5)) & 31) as usize
            }
        }
    }

    #[test]
    fn the_middle_of_a_bucket_maps_back_to_it() {
        for ns in [
            0,
            1,
            31,
            32,
            33,
            63,
            64,
            100,
            1000,
            54_321,
            1 << 30,
            (1 << 35) + 12345,
        ] {
            let middle = middle_ns(bucket(ns));
            assert!(
                (middle - ns as f64).abs() <= (ns as f64 / 32.0).max(1.0),
                "{ns}: {middle}"
            );
        }
    }

    #[test]
    fn medians_and_their_difference_come_from_the_counts() {
        let counts = |around: u64| {
            let mut counts = vec![0; 1056];
            for ns in around - 5000..around + 5000 {
                counts[bucket(ns)] += 1;
            }
            counts
        };
        let (slow, fast) = (Latency::of(&counts(55_000)), Latency::of(&counts(42_000)));
        let (slow, fast) = (slow.unwrap(), fast.unwrap());
        assert!((slow.median_us - 55.0).abs() < 1.5 && (fast.median_us - 42.0).abs() < 1.5);
        let gain = fast.less(&slow);
        assert!(gain.high_us < -10.0 && gain.low_us > -16.0, "{gain:?}");
        assert_eq!(Latency::of(&[0; 1056]), None);
    }

    #[test]
    fn quantiles_need_ten_values_beyond_them() {
        let known = |count: u64| {
            let mut counts = vec![0; 1056];
            counts[200] = count;
            let latency = Latency::of(&counts).unwrap();
            (latency.p90_us.is_some(), latency.p99_us.is_some())
        };
        assert_eq!(known(99), (false, false));
        assert_eq!(known(100), (true, false));
        assert_eq!(known(999), (true, false));
        assert_eq!(known(1000), (true, true));
    }
}
