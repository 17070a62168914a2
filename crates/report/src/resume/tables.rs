//! Stages, slack and removals in figures.

use reveille_resume::analysis::{
    CallResult, CycleResult, Machine, half_name, no_devices, no_length, stage_words,
};
use reveille_resume::cycle::Us;
use reveille_resume::graph::Half;

use super::bars::time;
use reveille_show::html_table::{Origin, Table, known};
use reveille_show::markup::escape;
use reveille_show::quantity::count;

pub fn stages(machine: &Machine, cycle: &CycleResult) -> String {
    let several = machine.cycles.len() > 1;
    let measured = Some(Origin::Measured);
    let mut heads = vec![
        ("stage", None),
        ("begins", measured),
        ("takes", measured),
        ("by the kernel's word", measured),
        ("calls", None),
        ("they take in all", measured),
    ];
    if several {
        heads.extend([
            ("median", measured),
            ("shortest", measured),
            ("longest", measured),
        ]);
    }
    let caption = match several {
        true => format!("Cycle {}, and all {}", cycle.number, machine.cycles.len()),
        false => "The cycle".to_owned(),
    };
    let mut table = Table::new(&caption, 1, &heads);
    for (kind, all) in machine.all_stages() {
        let stage = cycle.stages.iter().find(|one| one.stage == kind);
        let mut row = vec![
            stage_words(kind).to_owned(),
            known(stage.and_then(|stage| cycle.begins_us(stage)), time),
            known(stage.and_then(|stage| stage.duration_us), time),
            known(stage.and_then(|stage| stage.says_us), time),
            known(stage, |stage| count(stage.calls as u64)),
            known(stage, |stage| time(stage.calls_us)),
        ];
        if several {
            row.extend([
                known(all, |all| time(all.median)),
                known(all, |all| time(all.min)),
                known(all, |all| time(all.max)),
            ]);
        }
        table.row(&row);
    }
    table.html()
}

/// The longest calls of a half with their slack.
pub fn slack(machine: &Machine, half: Half, top: usize) -> String {
    let (cycle, name) = (machine.shown(), half_name(half));
    let mut calls: Vec<&CallResult> = cycle
        .calls_of(half)
        .map(|(_, one)| one)
        .filter(|one| one.duration_us.is_some())
        .collect();
    if calls.is_empty() {
        return String::new();
    }
    let all = calls.len();
    calls.sort_by_key(|one| (std::cmp::Reverse(one.duration_us), one.call.start));
    calls.truncate(top);
    let heads = [
        ("device", None),
        ("driver", None),
        ("parent", None),
        ("stage", None),
        ("takes", Some(Origin::Measured)),
        ("slack", None),
    ];
    let caption = format!(
        "The {} longest of {} calls in the {name}",
        calls.len(),
        count(all as u64)
    );
    let mut table = Table::new(&caption, 4, &heads);
    for one in calls {
        let call = &one.call;
        let text = |name: &Option<reveille_resume::cycle::Name>| {
            name.as_deref().unwrap_or_default().to_owned()
        };
        table.row(&[
            call.device.to_string(),
            text(&call.driver),
            text(&call.parent),
            stage_words(call.stage).to_owned(),
            known(one.duration_us, time),
            known(one.slack_us, time),
        ]);
    }
    format!(
        "<p>Slack is how much longer a call could take without the {name} getting longer; without \
         slack a call is on a critical path.</p>{}",
        table.html()
    )
}

/// Of the half; what saves less is not worth a row.
const LEAST_SHARE: f64 = 0.0002;

/// What each device alone would save.
pub fn removals(machine: &Machine, half: Half, top: usize) -> String {
    let (cycle, name) = (machine.shown(), half_name(half));
    if cycle.path_of(half).is_empty() {
        return String::new();
    }
    if let Some(why) = no_devices(cycle, half) {
        return format!("<p>{}</p>", escape(&why));
    }
    if let Some(why) = no_length(cycle, half) {
        let why = format!("{why}: what a removal would save is unknown.");
        return format!("<p>{}</p>", escape(&why));
    }
    let removals = match half {
        Half::Resume => &machine.removals,
        Half::Suspend => &machine.suspend_removals,
    };
    if removals.is_empty() {
        return format!("<p>No single device shortens the {name} if it is taken out.</p>");
    }
    let heads = [
        ("without", None),
        ("driver", None),
        ("devices below", None),
        (name, Some(Origin::Estimated)),
        ("saves", Some(Origin::Estimated)),
    ];
    let caption = "What each device alone would save, with all that lies below it";
    let mut table = Table::new(caption, 2, &heads);
    let path = cycle.path_of(half).iter();
    let measured: Us = path.map(|link| link.duration_us).sum();
    let least = (measured as f64 * LEAST_SHARE) as Us;
    let worth = removals.iter().filter(|one| one.saves_us >= least);
    for removal in worth.take(top) {
        table.row(&[
            removal.device.to_string(),
            removal.driver.as_deref().unwrap_or_default().to_owned(),
            count(removal.with_below as u64),
            time(removal.total_us),
            time(removal.saves_us),
        ]);
    }
    table.html()
}
