//! What a run found, from its description alone.

use reveille_kernel::driver_and_governor;
use reveille_show::quantity::{count, counted, duration, nanoseconds, share};
use reveille_show::sheet::{Section, Sheet};

use crate::Description;
use crate::description::{Ended, NOT_IDLE, Probe};
use crate::schema::AWAKE;

use super::input::Input;
use super::notices::{by_probe, subject};
use super::sources;
use super::statistics::{Row, latency, tails};
use super::verdicts::answer;

/// The key of the probes' cost in [`crate::description::Characterisation::costs`].
const PROBE_COST: &str = "probe at idle entry and exit";

/// The result for every medium but a page, which needs the datapoints.
pub fn summary(description: &Description) -> Sheet<'_> {
    let mut sheet = Sheet {
        title: format!("Wake latency: {}", description.name),
        answer: match description.statistics.is_empty() {
            true => String::new(),
            false => answer(description),
        },
        notes: description.notes.clone(),
        ..Sheet::default()
    };
    sheet.fact("Measured", subject(description));
    sheet.fact("Wake-ups", wake_ups(description));
    if let Some(early) = description.ended.early() {
        let ended = format!("{early}; results so far are kept");
        match description.ended {
            Ended::Disturbed(_) => sheet.failures.push(("ended", ended)),
            _ => sheet.fact("Ended", ended),
        }
    }
    details(description, &mut sheet);
    let row = |of: &_| Row {
        result: String::new(),
        of: Clone::clone(of),
    };
    let rows: Vec<Row> = description.statistics.iter().map(row).collect();
    sheet.section(Section::new("statistics", "Statistics").table(latency(&rows)));
    sheet.section(tails(&rows));
    sheet.section(sources::section(sources::empty(), "", description));
    sheet
}

/// The results of several machines, by their names, in one table.
pub fn summary_of_hosts<'a>(results: &[(&str, &'a Description)]) -> Sheet<'a> {
    let mut sheet = Sheet {
        title: format!(
            "Wake latency on {}",
            counted(results.len() as u64, "machine")
        ),
        ..Sheet::default()
    };
    let mut rows = Vec::new();
    for (host, description) in results {
        let subject = subject(description);
        let named = format!("{}: ", description.name);
        let subject = subject.strip_prefix(&named).unwrap_or(&subject);
        sheet.fact("Measured", format!("{host}: {subject}"));
        if let Some(early) = description.ended.early() {
            let ended = format!("{host}: {early}; results so far are kept");
            match description.ended {
                Ended::Disturbed(_) => sheet.failures.push(("ended", ended)),
                _ => sheet.fact("Ended", ended),
            }
        }
        let notes = description
            .notes
            .iter()
            .map(|note| format!("{host}: {note}"));
        sheet.notes.extend(notes);
        rows.extend(description.statistics.iter().map(|of| Row {
            result: (*host).to_owned(),
            of: of.clone(),
        }));
    }
    let mut table = latency(&rows);
    if let Some(first) = table.headings.first_mut() {
        first.name = "host".into();
    }
    sheet.section(Section::new("statistics", "Statistics").table(table));
    sheet
}

/// As [`summary`], of the datapoints that are shown.
pub fn summary_of(input: &Input) -> Sheet<'_> {
    let mut sheet = summary(input.description());
    sheet.answer = input.told(sheet.answer);
    sheet
}

/// What the answer rests on, but does not decide it.
fn details(description: &Description, sheet: &mut Sheet<'_>) {
    floors(description, sheet);
    counts(description, sheet);
    sheet.detail("Kernel", description.machine.kernel_words());
    let (driver, governor) = (&description.driver, &description.governor);
    // Another tool need not say; "none" would mean a machine without cpuidle.
    if description.probe != Probe::Foreign || driver.is_some() || governor.is_some() {
        sheet.detail(
            "Idle",
            driver_and_governor(driver.as_deref(), governor.as_deref()),
        );
    }
    let (probe, arming) = (by_probe(description), &description.settings.arming);
    sheet.detail("Probe", format!("{probe}; {arming}"));
}

fn floors(description: &Description, sheet: &mut Sheet<'_>) {
    for floor in &description.characterisation.floors {
        let place = match floor.state.as_str() {
            AWAKE => "on a CPU that is awake".to_owned(),
            poll => format!("in {poll}, where nothing sleeps"),
        };
        let p99 = floor.p99_ns.map_or(String::new(), |p99| {
            format!(", {} at p99", nanoseconds(p99))
        });
        sheet.detail(
            "Floor",
            format!(
                "{}: {} at the median{p99}, {place} ({})",
                floor.source,
                nanoseconds(floor.median_ns),
                counted(floor.count, "datapoint")
            ),
        );
    }
}

/// How many of the attempts are datapoints, and what most others met where they are many.
fn wake_ups(description: &Description) -> String {
    /// A tenth of the attempts.
    const MANY: f64 = 0.1;
    let counts = &description.counts;
    let mut words = match counts.launched {
        // Another tool need not say.
        0 if counts.kept > 0 => counted(counts.kept, "datapoint"),
        launched => format!(
            "{} valid of {}",
            count(counts.kept),
            counted(launched, "attempt")
        ),
    };
    if counts.possible.is_some_and(|possible| possible > 0) {
        words += &format!(" in {}", duration(counts.elapsed_s * 1e9));
    }
    let most = counts.dropped.iter().max_by_key(|(_, dropped)| **dropped);
    if let Some((reason, dropped)) = most {
        let of = *dropped as f64 / counts.launched.max(1) as f64;
        let met = match reason.as_str() {
            NOT_IDLE => format!("{} was busy", description.settings.cpu_name()),
            other => other.to_owned(),
        };
        if of >= MANY {
            words += &format!("; {met} at {} of them", share(of));
        }
    }
    words
}

fn counts(description: &Description, sheet: &mut Sheet<'_>) {
    let counts = &description.counts;
    if let Some(possible) = counts.possible.filter(|possible| *possible > 0) {
        let of = share(counts.kept as f64 / possible as f64);
        sheet.detail("Rate", format!("{of} of what the launch distances allow"));
    }
    let dropped = counts.dropped.iter();
    let dropped: Vec<_> = dropped
        .map(|(reason, dropped)| format!("{reason} {}", count(*dropped)))
        .collect();
    if !dropped.is_empty() {
        sheet.detail("Dropped", dropped.join(", "));
    }
    if description.probe != Probe::Foreign {
        let periods = count(counts.idle_periods);
        let periods = format!("datapoints are of {periods} idle periods");
        sheet.detail(
            "Checked",
            match counts.cpuidle_entries {
                Some(entries) => {
                    let entries = count(entries);
                    format!("{periods}, and cpuidle counts {entries} idle entries meanwhile")
                }
                None => format!("{periods}; cpuidle has no counts to compare with"),
            },
        );
    }
    if let Some((least, most)) = counts.joint_percent {
        let (least, most) = (share(least / 100.0), share(most / 100.0));
        sheet.detail(
            "Asleep",
            format!("all CPUs at once for {least} to {most} of the run"),
        );
    }
    if let Some(cost) = description.characterisation.probe_cost_per_idle_ns {
        let windows = description.characterisation.costs.get(PROBE_COST);
        let of = windows.map_or(String::new(), |windows| {
            format!(", the median of {}", counted(windows.count, "window"))
        });
        let cost = duration(cost);
        sheet.detail("Probes", format!("{cost} per idle entry and exit{of}"));
    }
}

/// The error if a run that was completed has no datapoint.
pub fn nothing(description: &Description) -> String {
    let (counts, cpu) = (&description.counts, description.settings.cpu_name());
    if counts.launched == 0 {
        return format!(
            "no datapoint: nothing was launched on {cpu}; `reveille doctor` shows what this \
             machine can do"
        );
    }
    let dropped: Vec<_> = counts
        .dropped
        .iter()
        .map(|(reason, count)| format!("{reason} {count}"))
        .collect();
    format!(
        "no datapoint: each of {} launches on {cpu} was dropped ({}); choose an idle CPU with \
         --cpu",
        counts.launched,
        dropped.join(", ")
    )
}
