//! What a setting costs, as far as a result shows it.

use reveille_results::{Loaded, NULL, columns};
use serde::Serialize;

use crate::{Advice, Target};

/// wult records it; our own results do not.
const FREQUENCY: &str = "cpu_frequency_khz";

/// What the setting costs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Cost {
    /// The share of the measured CPU's idle time, from boot to the run, that was spent in what is
    /// now forbidden, per cent; `None` if the states' times are unknown.
    pub forbidden_time_percent: Option<f64>,
    /// The CPU's frequency when it was back, by state; empty where it was not recorded.
    pub frequency: Vec<StateFrequency>,
}

/// The frequency at which wakes out of a state ran.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StateFrequency {
    /// As the driver calls it: `C6`. Only states with a frequency are listed.
    pub state: String,
    /// Datapoints that have a frequency.
    pub count: u64,
    /// Their median, kHz, from wult's column `CPUFreq`.
    pub median_khz: i64,
}

impl Cost {
    /// The costs of this advice, of the result it was drawn from.
    pub fn of(loaded: &Loaded, target: &Target, advice: &Advice) -> Self {
        Self {
            forbidden_time_percent: forbidden_time(target, advice),
            frequency: frequency(loaded, advice),
        }
    }
}

fn forbidden_time(target: &Target, advice: &Advice) -> Option<f64> {
    // A result keeps the states as they were found before the run.
    let sum = |sum: u64, time: Option<u64>| sum.checked_add(time?);
    let mut times = target.states.iter().map(|state| state.time_us);
    let whole = times.try_fold(0, sum).filter(|&whole| whole > 0)?;
    let mut times = advice
        .forbidden()
        .map(|one| target.state(&one.state)?.time_us);
    let forbidden = times.try_fold(0, sum)?;
    Some(forbidden as f64 * 100.0 / whole as f64)
}

fn frequency(loaded: &Loaded, advice: &Advice) -> Vec<StateFrequency> {
    let columns = &loaded.columns;
    let (Some(frequencies), Some((codes, names))) = (
        columns.integers(FREQUENCY),
        columns.names("requested_state"),
    ) else {
        return Vec::new();
    };
    let of_state = |state: &crate::StateAdvice| {
        let code = names.iter().position(|name| *name == state.state)?;
        let code = u8::try_from(code)
            .ok()
            .filter(|&code| code != columns::NO_NAME)?;
        let rows = frequencies.iter().zip(codes);
        let mut sample: Vec<i64> = rows
            .filter(|&(&khz, &of)| of == code && khz != NULL)
            .map(|(&khz, _)| khz)
            .collect();
        let count = sample.len();
        let middle = count.div_ceil(2).checked_sub(1)?;
        Some(StateFrequency {
            state: state.state.clone(),
            count: count as u64,
            median_khz: *sample.select_nth_unstable(middle).1,
        })
    };
    advice.states.iter().filter_map(of_state).collect()
}
