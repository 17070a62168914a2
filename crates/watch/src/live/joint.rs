//! Joint sleep between two readings: the time in which all CPUs of a package, or of the machine, sleep at once.

use std::collections::BTreeMap;

use reveille_kernel::Idle;

use crate::live::JointSleep;
use crate::live::seen::SeenJoint;
use crate::lower_edge;

/// A unit of the histogram of lengths, ns: `bpf/live.h`.
const UNIT_NS: f64 = 1024.0;
/// A p99 needs ten lengths beyond it.
const ENOUGH_FOR_P99: u64 = 1000;

/// The packages, ascending, with the CPUs of each; none where the kernel does not report them.
pub fn packages(idle: &Idle) -> BTreeMap<u32, Vec<u32>> {
    let mut packages: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for cpu in &idle.cpus {
        if let Some(package) = cpu.package {
            packages.entry(package).or_default().push(cpu.number);
        }
    }
    packages
}

/// How many CPUs are online: of the machine, then of each package.
pub fn online(idle: &Idle) -> Vec<u32> {
    let online = |cpus: &[u32]| {
        let is_online = |number: &&u32| idle.cpu(**number).is_some_and(|cpu| cpu.online);
        cpus.iter().filter(is_online).count() as u32
    };
    let all: Vec<u32> = idle.cpus.iter().map(|cpu| cpu.number).collect();
    let packages = packages(idle);
    let packages = packages.values().map(|cpus| online(cpus));
    [online(&all)].into_iter().chain(packages).collect()
}

/// Between two readings; `None` of no time, and where a CPU came or went: until the second one, it was not known how many
/// had to sleep.
pub fn between(before: &SeenJoint, after: &SeenJoint) -> Option<JointSleep> {
    if before.cpus != after.cpus {
        return None;
    }
    let elapsed_ns = after.at_ns.checked_sub(before.at_ns).filter(|ns| *ns > 0)? as f64;
    let times = after.times.checked_sub(before.times)?;
    let ended_ns = after.ended_ns.saturating_sub(before.ended_ns) as f64;
    // The present one of the reading before was counted as far as it had come.
    let slept_ns = after.time_ns.saturating_sub(before.time_ns) as f64;
    Some(JointSleep {
        share_percent: (100.0 * slept_ns / elapsed_ns).clamp(0.0, 100.0),
        ended_per_s: times as f64 / elapsed_ns * 1e9,
        mean_us: (times > 0).then(|| ended_ns / times as f64 / 1e3),
        median_us: quantile_us(after, 0.5),
        p99_us: quantile_us(after, 0.99).filter(|_| after.times >= ENOUGH_FOR_P99),
    })
}

/// The middle of the quantile's bucket.
fn quantile_us(seen: &SeenJoint, quantile: f64) -> Option<f64> {
    let count: u64 = seen.lengths.iter().map(|count| u64::from(*count)).sum();
    let rank = ((quantile * count as f64).ceil() as u64).max(1);
    let sums = seen.lengths.iter().scan(0, |sum, count| {
        *sum += u64::from(*count);
        Some(*sum)
    });
    let bucket = sums.into_iter().position(|sum| sum >= rank)?;
    let (low, next) = (lower_edge(bucket), lower_edge(bucket + 1));
    Some((low + next) as f64 / 2.0 * UNIT_NS / 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(at_ms: u64, times: u64, ended_ms: u64, present_ms: u64) -> SeenJoint {
        let mut lengths = vec![0; 200];
        // Each of some 1 ms: 976 units.
        lengths[63] = times as u32;
        SeenJoint {
            at_ns: at_ms * 1_000_000,
            cpus: 2,
            times,
            time_ns: (ended_ms + present_ms) * 1_000_000,
            ended_ns: ended_ms * 1_000_000,
            lengths,
        }
    }

    #[test]
    fn a_share_counts_the_present_sleep_once() {
        // 5 of 10 ms of the sleep in between were before the first reading.
        let joint = between(&seen(100, 2, 20, 5), &seen(200, 4, 40, 30)).unwrap();
        assert_eq!((joint.share_percent, joint.ended_per_s), (45.0, 20.0));
        assert_eq!(joint.mean_us, Some(10_000.0));
        let median_us = joint.median_us.unwrap();
        assert!((930.0..1050.0).contains(&median_us), "{median_us}");
        assert_eq!(joint.p99_us, None);
        assert_eq!(between(&seen(100, 2, 20, 5), &seen(100, 2, 20, 5)), None);
        let fewer = SeenJoint {
            cpus: 1,
            ..seen(200, 4, 40, 30)
        };
        assert_eq!(between(&seen(100, 2, 20, 5), &fewer), None);
    }

    #[test]
    fn without_a_joint_sleep_there_is_no_length() {
        let joint = between(&seen(100, 0, 0, 0), &seen(200, 0, 0, 0)).unwrap();
        assert_eq!(
            (joint.share_percent, joint.mean_us, joint.median_us),
            (0.0, None, None)
        );
    }
}
