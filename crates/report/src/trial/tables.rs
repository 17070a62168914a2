//! The trial's figures as tables.

use reveille_figures::rounds::Estimate;
use reveille_trial::observe::Observed;
use reveille_trial::result::{Setting, Trial};
use reveille_trial::sentence::{Scale, three_digits};

use crate::compared::signed;
use reveille_show::html_table::{Origin, Table, known};
use reveille_show::quantity::{count, duration};

/// The workload's figure under each setting.
pub fn figures(trial: &Trial) -> String {
    let scale = Scale::of_trial(trial);
    let higher = trial.workload.higher_is_better;
    let (tail, worst) = if higher {
        ("p1", "min")
    } else {
        ("p99", "max")
    };
    let with_unit = |name: &str| format!("{name}, {}", scale.unit);
    let heads = ["median", tail, worst, "mean", "standard deviation"].map(with_unit);
    let measured = Some(Origin::Measured);
    let mut table = Table::new(
        "The workload's figure",
        1,
        &[
            ("setting", None),
            ("rounds", measured),
            ("figures", measured),
            ("failed", measured),
            (&heads[0], measured),
            (&heads[1], measured),
            (&heads[2], measured),
            (&heads[3], measured),
            (&heads[4], measured),
            ("median against as is [95 %]", Some(Origin::Estimated)),
            ("p99 against as is [95 %]", Some(Origin::Estimated)),
        ],
    );
    for setting in &trial.settings {
        let number = |figure: f64| scale.number(figure);
        let summary = setting.figure.as_ref();
        let figure = |value: fn(&reveille_figures::rounds::Summary) -> Option<f64>| {
            known(summary.and_then(value), number)
        };
        table.row(&[
            setting.name.clone(),
            count(setting.rounds),
            count(summary.map_or(0, |summary| summary.count)),
            count(setting.failed),
            figure(|summary| Some(summary.median)),
            if higher {
                figure(|one| one.p1)
            } else {
                figure(|one| one.p99)
            },
            if higher {
                figure(|one| Some(one.min))
            } else {
                figure(|one| Some(one.max))
            },
            figure(|summary| Some(summary.mean)),
            figure(|summary| summary.standard_deviation),
            difference(setting.median_difference.as_ref(), number),
            difference(setting.p99_difference.as_ref(), number),
        ]);
    }
    table.html()
}

/// What the machine did under each setting.
pub fn machine(trial: &Trial) -> String {
    let measured = Some(Origin::Measured);
    let estimated = Some(Origin::Estimated);
    let mut table = Table::new(
        "The machine meanwhile, all CPUs together",
        1,
        &[
            ("setting", None),
            ("power, W", measured),
            ("power against as is [95 %]", estimated),
            ("awake, %", measured),
            ("awake against as is [95 %]", estimated),
            ("wake-ups per s", measured),
            ("interrupts per s", measured),
            ("context switches per s", measured),
            ("frequency, MHz", measured),
            ("kernel's receipt to reader, median", measured),
        ],
    );
    for setting in &trial.settings {
        let observed = |value: fn(&Observed) -> Option<f64>| {
            known(setting.observed.as_ref().and_then(value), three_digits)
        };
        table.row(&[
            setting.name.clone(),
            observed(|one| one.power_w),
            difference(setting.power_difference_w.as_ref(), three_digits),
            observed(|one| one.awake_percent),
            difference(setting.awake_difference_percent.as_ref(), three_digits),
            observed(|one| one.wakeups_per_s),
            observed(|one| one.interrupts_per_s),
            observed(|one| one.context_switches_per_s),
            observed(|one| one.frequency_mhz),
            known(setting.reading_median_ns, duration),
        ]);
    }
    table.html()
}

/// Every idle state's share under each setting; nothing where the kernel counts none.
pub fn residency(trial: &Trial) -> String {
    let observed = || {
        trial
            .settings
            .iter()
            .filter_map(|setting| setting.observed.as_ref())
    };
    let mut states: Vec<&str> = Vec::new();
    for one in observed().flat_map(|observed| &observed.residency) {
        if !states.contains(&one.state.as_str()) {
            states.push(&one.state);
        }
    }
    if states.is_empty() {
        return String::new();
    }
    let heads: Vec<(&str, Option<Origin>)> = [("setting", None)]
        .into_iter()
        .chain(states.iter().map(|state| (*state, Some(Origin::Measured))))
        .collect();
    let mut table = Table::new("Residency, % of all CPUs' time", 1, &heads);
    for setting in &trial.settings {
        let percent = |state: &&str| {
            let residency = &setting.observed.as_ref()?.residency;
            let one = residency.iter().find(|one| one.state == **state)?;
            Some(one.percent)
        };
        let shares = states
            .iter()
            .map(|state| known(percent(state), |share| format!("{share:.1}")));
        let cells: Vec<String> = [setting.name.clone()].into_iter().chain(shares).collect();
        table.row(&cells);
    }
    table.html()
}

/// What each setting changed.
pub fn changes(trial: &Trial) -> String {
    let heads = [("setting", None), ("what was changed", None)];
    let mut table = Table::new("Settings", 2, &heads);
    for Setting { name, how, .. } in &trial.settings {
        table.row(&[name.clone(), how.clone()]);
    }
    table.html()
}

fn difference(difference: Option<&Estimate>, number: impl Fn(f64) -> String) -> String {
    known(difference, |one| one.text(|value| signed(value, &number)))
}
