//! The result of `reveille stage bench`, kept as `stage-bench.json`.

use reveille_figures::quantile::{MEDIAN, P99, P99_9};
use reveille_figures::rounds::{self, Estimate};
use reveille_meter::Watched;
use reveille_results::kept::{self, About};
use reveille_show::quantity::counted;
use serde::{Deserialize, Serialize};

/// The file's name in the result's folder.
pub const FILE: &str = "stage-bench.json";

/// The version of its schema.
pub const SCHEMA_VERSION: u32 = 1;

/// What takes turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Setting {
    /// No request comes: how often the server's CPUs wake anyway.
    NoLoad,
    /// Requests pass at once.
    Direct,
    /// Requests are released at the multiples of a time.
    Grid,
    /// Requests are released when the first one must go.
    Staged,
}

impl Setting {
    /// All, in the order in which they are shown.
    pub const ALL: [Self; 4] = [Self::NoLoad, Self::Direct, Self::Grid, Self::Staged];

    /// As people see it.
    pub fn name(self) -> &'static str {
        match self {
            Self::NoLoad => "no load",
            Self::Direct => "direct",
            Self::Grid => "grid",
            Self::Staged => "staged",
        }
    }
}

/// One measurement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Turn {
    /// From 0.
    pub round: u32,
    /// The setting.
    pub setting: Setting,
    /// How long it was watched, s.
    pub elapsed_s: f64,
    /// Requests that came in that time.
    pub requests: u64,
    /// Of them, those without a response.
    pub failed: u64,
    /// Of the others, from the instant at which each was to be sent to the end of its response, ns.
    pub latencies_ns: Vec<i64>,
    /// By the proxy's account, with the warm-up: deadlines that were missed because of a hold.
    pub missed: u64,
    /// By the proxy's account, with the warm-up: deadlines that the server alone missed.
    pub late: u64,
    /// Times that held requests were released, with the warm-up.
    pub bursts: u64,
    /// Of these times, those early, while the server ran for others.
    #[serde(default)]
    pub early: u64,
    /// How often the server's CPUs woke, all together; `None` without cpuidle.
    pub wakes_per_s: Option<f64>,
    /// How often the own server's CPU woke in the times of 10 ms and more without a request, a second; without load,
    /// [`Self::wakes_per_s`].
    #[serde(default)]
    pub wakes_between_per_s: Option<f64>,
    /// How long the server's CPUs slept, a mean over them, per cent.
    pub slept_percent: Option<f64>,
    /// How long all CPUs slept at once, at least and at most, per cent.
    pub joint_percent: Option<(f64, f64)>,
    /// The meter's mean power; `None` without a meter, or if it failed.
    pub power_w: Option<f64>,
    /// Why it failed.
    #[serde(default)]
    pub why_no_power: Option<String>,
}

/// What a setting gave.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// The setting.
    pub setting: Setting,
    /// Requests of all rounds.
    pub requests: u64,
    /// Without a response.
    pub failed: u64,
    /// Of all rounds together, ns; `None` of too few.
    pub median_ns: Option<i64>,
    /// As the median.
    pub p99_ns: Option<i64>,
    /// As the median.
    pub p99_9_ns: Option<i64>,
    /// The longest.
    pub max_ns: Option<i64>,
    /// Latencies above the deadline, as the client saw them.
    pub over: u64,
    /// Deadlines that were missed because of a hold, by the proxy's account.
    pub missed: u64,
    /// Wake-ups of the server's CPUs a second, over rounds.
    pub wakes_per_s: Option<Estimate>,
    /// The wake-ups less those of the same round without load, by those of the direct load less the same.
    pub wakes_left: Option<Estimate>,
    /// Wake-ups of the own server's CPU a second of the time between bursts, over rounds.
    #[serde(default)]
    pub wakes_between_per_s: Option<Estimate>,
    /// Sleep of the server's CPUs, per cent, over rounds.
    pub slept_percent: Option<Estimate>,
    /// The mean length of their sleep, s, over rounds.
    pub mean_sleep_s: Option<Estimate>,
    /// All CPUs slept at once at least so long, per cent, over rounds.
    pub joint_low_percent: Option<Estimate>,
    /// At most.
    pub joint_high_percent: Option<Estimate>,
    /// Power, over rounds; `None` without a meter.
    pub power_w: Option<Estimate>,
    /// By how much less than with the direct load of the same round; `None` of that itself.
    pub saves_w: Option<Estimate>,
}

/// The whole result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Bench {
    /// Who made it, when, where.
    #[serde(flatten)]
    pub about: About,
    /// The server; `None`: this program's own.
    pub upstream: Option<String>,
    /// What the own server computed for each request, s.
    pub work_s: Option<f64>,
    /// The own server was asked in HTTP/2.
    #[serde(default)]
    pub http2: bool,
    /// The own server was asked by its Unix socket.
    #[serde(default)]
    pub unix: bool,
    /// The server's CPUs.
    pub server_cpus: Vec<u32>,
    /// Requests a second.
    pub rate_per_s: f64,
    /// What the rate was multiplied by from the middle of each turn on; `None`: it stayed.
    #[serde(default)]
    pub surge: Option<f64>,
    /// Requests a second that others sent to the server, past the proxy, in every setting; `None`: nobody did.
    #[serde(default)]
    pub beside_per_s: Option<f64>,
    /// Each request's deadline, s.
    pub deadline_s: f64,
    /// The share that was to keep to it, per cent.
    pub percentile: f64,
    /// The grid's step, s.
    pub grid_s: f64,
    /// Rounds that were planned.
    pub rounds: u32,
    /// Turns that were not kept, as other programs took CPU time.
    pub disturbed: u32,
    /// Seed of the order of turns and of the load.
    pub seed: u64,
    /// The meter, as it was seen before.
    pub meter: Option<Watched>,
    /// What a reader must know (one sentence each).
    #[serde(default)]
    pub notes: Vec<String>,
    /// One for each setting that had a turn.
    pub settings: Vec<Summary>,
    /// Every turn.
    pub turns: Vec<Turn>,
}

/// What a reader of these turns must know.
pub fn notes(turns: &[Turn]) -> Vec<String> {
    let failed: Vec<&String> = turns
        .iter()
        .filter_map(|turn| turn.why_no_power.as_ref())
        .collect();
    let note = |why: &&String| {
        let turns = counted(failed.len() as u64, "turn");
        format!("The power of {turns} is unknown, as the meter failed: {why}.")
    };
    failed.last().map(note).into_iter().collect()
}

/// The summaries of these turns.
pub fn summaries(turns: &[Turn], deadline_s: f64, cpus: usize) -> Vec<Summary> {
    let of = |setting: Setting| turns.iter().filter(move |turn| turn.setting == setting);
    let wakes = |setting: Setting| -> Vec<Option<f64>> {
        of(setting).map(|turn| turn.wakes_per_s).collect()
    };
    let powers =
        |setting: Setting| -> Vec<Option<f64>> { of(setting).map(|turn| turn.power_w).collect() };
    let idle = wakes(Setting::NoLoad);
    let direct = rounds::differences(&wakes(Setting::Direct), &idle);
    let summary = |setting: Setting| {
        let mut latencies: Vec<i64> = of(setting)
            .flat_map(|turn| turn.latencies_ns.iter().copied())
            .collect();
        latencies.sort_unstable();
        let over = |of: fn(&Turn) -> Option<f64>| {
            let rounds = turns
                .iter()
                .filter(|turn| turn.setting == setting)
                .filter_map(of);
            Estimate::over(rounds)
        };
        let more = rounds::differences(&wakes(setting), &idle);
        let left = more.iter().zip(&direct).filter_map(|(more, direct)| {
            let direct = (*direct)?;
            (direct > 0.0).then_some((*more)? / direct)
        });
        let sleeps = of(setting).filter_map(|turn| {
            let wakes = turn.wakes_per_s.filter(|wakes| *wakes > 0.0)?;
            Some(turn.slept_percent? / 100.0 * cpus as f64 / wakes)
        });
        Summary {
            setting,
            requests: of(setting).map(|turn| turn.requests).sum(),
            failed: of(setting).map(|turn| turn.failed).sum(),
            median_ns: MEDIAN.of(&latencies),
            p99_ns: P99.carried(&latencies),
            p99_9_ns: P99_9.carried(&latencies),
            max_ns: latencies.last().copied(),
            over: latencies
                .iter()
                .filter(|ns| **ns as f64 > deadline_s * 1e9)
                .count() as u64,
            missed: of(setting).map(|turn| turn.missed).sum(),
            wakes_per_s: over(|turn| turn.wakes_per_s),
            wakes_between_per_s: over(|turn| turn.wakes_between_per_s),
            wakes_left: match setting {
                Setting::Grid | Setting::Staged => Estimate::over(left),
                Setting::NoLoad | Setting::Direct => None,
            },
            slept_percent: over(|turn| turn.slept_percent),
            mean_sleep_s: Estimate::over(sleeps),
            joint_low_percent: over(|turn| turn.joint_percent.map(|(low, _)| low)),
            joint_high_percent: over(|turn| turn.joint_percent.map(|(_, high)| high)),
            power_w: over(|turn| turn.power_w),
            saves_w: match setting {
                Setting::Direct => None,
                _ => Estimate::over(rounds::paired(&powers(Setting::Direct), &powers(setting))),
            },
        }
    };
    Setting::ALL
        .into_iter()
        .filter(|setting| of(*setting).next().is_some())
        .map(summary)
        .collect()
}

/// Reads a kept one.
///
/// # Errors
/// As [`kept::parse`].
pub fn parse(text: &[u8]) -> Result<Bench, String> {
    kept::parse(text, FILE, SCHEMA_VERSION)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turn(round: u32, setting: Setting, wakes: f64, latencies_ns: Vec<i64>) -> Turn {
        Turn {
            round,
            setting,
            elapsed_s: 1.0,
            requests: latencies_ns.len() as u64 + 1,
            failed: 1,
            latencies_ns,
            missed: 2,
            late: 0,
            bursts: 0,
            early: 0,
            wakes_per_s: Some(wakes),
            wakes_between_per_s: Some(wakes / 2.0),
            slept_percent: Some(50.0),
            joint_percent: Some((10.0, 20.0)),
            power_w: Some(10.0 + wakes / 100.0),
            why_no_power: None,
        }
    }

    #[test]
    fn a_meter_that_fails_leaves_the_turns() {
        let mut turns = vec![
            turn(0, Setting::Direct, 1.0, vec![1]),
            turn(0, Setting::Staged, 1.0, vec![1]),
        ];
        assert_eq!(notes(&turns), [""; 0]);
        turns[1].power_w = None;
        turns[1].why_no_power = Some("no answer".into());
        assert_eq!(
            notes(&turns),
            ["The power of 1 turn is unknown, as the meter failed: no answer."]
        );
        let staged = &summaries(&turns, 0.5, 1)[1];
        assert_eq!((staged.requests, staged.power_w.is_none()), (2, true));
    }

    #[test]
    fn wake_ups_are_counted_above_those_without_load() {
        let turns: Vec<Turn> = (0..6)
            .flat_map(|round| {
                let more = f64::from(round);
                [
                    turn(round, Setting::NoLoad, 20.0 + more, Vec::new()),
                    turn(round, Setting::Direct, 220.0 + more, vec![1, 2, 3]),
                    turn(round, Setting::Grid, 120.0 + more, vec![4]),
                    turn(round, Setting::Staged, 70.0 + more, vec![600_000_000, 5]),
                ]
            })
            .collect();
        let all = summaries(&turns, 0.5, 2);
        let left = |nth: usize| all[nth].wakes_left.as_ref().map(|left| left.estimate);
        assert_eq!(
            [left(0), left(1), left(2), left(3)],
            [None, None, Some(0.5), Some(0.25)]
        );
        assert_eq!(
            (all[3].over, all[3].missed, all[3].requests, all[3].failed),
            (6, 12, 18, 6)
        );
        let saves = |nth: usize| {
            let saves: &Estimate = all[nth].saves_w.as_ref()?;
            Some((saves.estimate * 10.0).round())
        };
        assert_eq!(
            [saves(0), saves(1), saves(2), saves(3)],
            [Some(20.0), None, Some(10.0), Some(15.0)]
        );
        // Two CPUs slept for half of the time, 22.5 times a second together.
        let sleep = all[0].mean_sleep_s.as_ref().unwrap().estimate;
        assert!((sleep - 1.0 / 22.5).abs() < 1e-3, "{sleep}");
        assert_eq!(
            (all[1].median_ns, all[1].max_ns, all[1].p99_ns),
            (Some(2), Some(3), None)
        );
    }
}
