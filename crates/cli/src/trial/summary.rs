//! What a trial found, in two tables and a few sentences.

use std::io::{self, Write};
use std::path::Path;

use reveille_figures::rounds::Estimate;
use reveille_trial::observe::Observed;
use reveille_trial::result::{Setting, Trial};
use reveille_trial::sentence::{Scale, sentences, three_digits};

use reveille_show::table::{Side, Table};
use reveille_show::terminal;

use crate::compared;

const UNKNOWN: &str = "-";

pub fn print(trial: &Trial, folder: Option<&Path>) -> io::Result<()> {
    let mut out = terminal::stdout();
    head(trial, &mut out)?;
    figures(trial).write(&mut out)?;
    writeln!(out)?;
    machine(trial).write(&mut out)?;
    writeln!(out)?;
    let mut said = sentences(trial);
    said.extend(failures(trial));
    compared::said(&said, &trial.notes, folder, &mut out)
}

fn head(trial: &Trial, out: &mut impl Write) -> io::Result<()> {
    let pace = trial.workload.pace.as_ref().map(|pace| {
        format!(
            "; {} requests a turn, {} ms apart",
            pace.requests_per_round, pace.interval_ms
        )
    });
    let figure = format!(
        "{}, {} rounds in shuffled order{}",
        trial.workload.figure,
        trial.plan.rounds,
        pace.unwrap_or_default()
    );
    let what = trial.workload.what.clone();
    compared::head(&trial.about, &[("Workload", what), ("Figure", figure)], out)
}

/// The workload's figure, and by how much it differs from "as is".
fn figures(trial: &Trial) -> Table {
    let scale = Scale::of_trial(trial);
    // The table's headings live as long as the program; there are two units per run at most.
    let unit: &'static str = String::leak(scale.unit.clone());
    let against: &'static str = String::leak(format!("{unit} [95 %]").trim().to_owned());
    let (tail, worst) = match trial.workload.higher_is_better {
        true => ("p1", "min"),
        false => ("p99", "max"),
    };
    let mut table = Table::new(&[
        ("setting", "", Side::Left),
        ("count", "", Side::Right),
        ("median", unit, Side::Right),
        (tail, unit, Side::Right),
        (worst, unit, Side::Right),
        ("mean ± sd", unit, Side::Right),
        ("against as is", against, Side::Right),
    ]);
    for setting in &trial.settings {
        table.row(figures_of(setting, &scale, trial.workload.higher_is_better));
    }
    table
}

fn figures_of(setting: &Setting, scale: &Scale, higher_is_better: bool) -> [String; 7] {
    let name = setting.name.clone();
    let Some(figure) = &setting.figure else {
        let unknown = || UNKNOWN.to_owned();
        return [
            name,
            "0".into(),
            unknown(),
            unknown(),
            unknown(),
            unknown(),
            unknown(),
        ];
    };
    let (tail, worst) = match higher_is_better {
        true => (figure.p1, figure.min),
        false => (figure.p99, figure.max),
    };
    let deviation = figure
        .standard_deviation
        .map(|sd| format!(" ± {}", scale.number(sd)));
    [
        name,
        figure.count.to_string(),
        scale.number(figure.median),
        known(tail, |tail| scale.number(tail)),
        scale.number(worst),
        format!(
            "{}{}",
            scale.number(figure.mean),
            deviation.unwrap_or_default()
        ),
        setting
            .median_difference
            .as_ref()
            .map_or(String::new(), |one| against(one, scale)),
    ]
}

fn against(difference: &Estimate, scale: &Scale) -> String {
    let signed = |figure: f64| {
        let number = scale.number(figure);
        match figure > 0.0 {
            true => format!("+{number}"),
            false => number,
        }
    };
    difference.text(signed)
}

/// What the machine did meanwhile.
fn machine(trial: &Trial) -> Table {
    let mut table = Table::new(&[
        ("setting", "", Side::Left),
        ("power", "W", Side::Right),
        ("awake", "%", Side::Right),
        ("wake-ups", "/s", Side::Right),
        ("interrupts", "/s", Side::Right),
        ("frequency", "MHz", Side::Right),
        ("residency", "%", Side::Left),
    ]);
    for setting in &trial.settings {
        table.row(machine_of(setting));
    }
    table
}

fn machine_of(setting: &Setting) -> [String; 7] {
    let observed = setting.observed.as_ref();
    let figure = |value: fn(&Observed) -> Option<f64>, digits: usize| {
        known(observed.and_then(value), |value| {
            format!("{value:.digits$}")
        })
    };
    [
        setting.name.clone(),
        known(observed.and_then(|one| one.power_w), three_digits),
        figure(|one| one.awake_percent, 1),
        figure(|one| one.wakeups_per_s, 0),
        figure(|one| one.interrupts_per_s, 0),
        figure(|one| one.frequency_mhz, 0),
        observed.map_or(UNKNOWN.into(), residency),
    ]
}

/// The states that matter, the most used first.
fn residency(observed: &Observed) -> String {
    /// Less is not worth a word.
    const SHOWN_PERCENT: f64 = 0.5;
    /// As many as 80 columns leave room for.
    const SHOWN: usize = 3;
    let mut states: Vec<_> = observed.residency.iter().collect();
    states.sort_by(|one, other| other.percent.total_cmp(&one.percent));
    let shown = states
        .iter()
        .filter(|one| one.percent >= SHOWN_PERCENT)
        .take(SHOWN);
    let words: Vec<String> = shown
        .map(|one| format!("{} {:.0}", one.state, one.percent))
        .collect();
    match words.is_empty() {
        true => UNKNOWN.into(),
        false => words.join(", "),
    }
}

/// Requests without an answer, and runs that failed.
fn failures(trial: &Trial) -> Vec<String> {
    let (one, many) = match trial.workload.kind.as_str() {
        "command" => ("run failed", "runs failed"),
        _ => ("request had no answer", "requests had no answer"),
    };
    let failed = |(place, setting): (usize, &Setting)| {
        let words = match setting.failed {
            0 => return None,
            1 => one,
            _ => many,
        };
        let mut of_setting = trial.rounds.iter().filter(|round| round.setting == place);
        let why = of_setting.find_map(|round| round.why_failed.as_deref());
        let why = why.map(|why| format!(": {why}")).unwrap_or_default();
        Some(format!(
            "`{}`: {} {words}{why}",
            setting.name, setting.failed
        ))
    };
    trial
        .settings
        .iter()
        .enumerate()
        .filter_map(failed)
        .collect()
}

fn known(figure: Option<f64>, text: impl FnOnce(f64) -> String) -> String {
    figure.map_or(UNKNOWN.into(), text)
}
