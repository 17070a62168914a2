//! What could wait, for people.

use reveille_results::description;
use reveille_show::columns;
use reveille_show::quantity::{counted, duration, three_digits};
use reveille_show::sheet::{Column, Heading, Section, Sheet, Table};

use super::group::{Group, Slept};
use super::result::Found;

const FOOT: &str = "Savings are the recorded wake-ups, taken again with some of them delayed. A loop that is delayed \
                    each time also comes less often, and tasks that become runnable together are spread over \
                    CPUs: both are left out. Holding is given without what freezing and thawing cost.";

const GROUPS: &[Column<Group>] = &columns!(|group|
    words "command", "command", group.command.as_str(), "The processes' name";
    words "cgroup", "cgroup", group.cgroup.as_deref(), "Their cgroup, from the root of cgroup2 on";
    measured(Count) "processes", "processes", group.processes, "Processes that were seen";
    measured(Of("/s")) "wakeups_per_s", "wake-ups/s", group.wakeups_per_s,
        "CPUs' wake-ups for it, alone or with others";
    measured(Ns) "period_ns", "period", group.period_ns, "Median time between two timers of a thread, if it is regular";
    measured(Ns) "slack_ns", "slack", group.slack_ns, "Median timer slack of its sleeps";
    measured(Percent) "by_sleep_percent", "by sleeps", group.by_sleep_percent,
        "Of its wake-ups by interrupts, those by the timer of a sleep, to which timer slack applies";
    words "may_wait", "may wait", may_wait(group), "Whether it may be delayed, or why not";
    estimated(Of("/s")) "slack_saves_per_s", "slack saves/s", group.slack_saves_per_s,
        "Wake-ups that timer slack for it alone would save";
    estimated(Of("/s")) "holding_saves_per_s", "holding saves/s", group.holding_saves_per_s,
        "Wake-ups that holding it alone would save at most";
);

fn may_wait(group: &Group) -> String {
    match &group.reason {
        None => "yes".to_owned(),
        Some(reason) => format!("no: {}", reason.words()),
    }
}

/// How the machine sleeps, in one of the ways.
struct Way {
    name: &'static str,
    slept: Slept,
}

const WAYS: &[Column<Way>] = &columns!(|way|
    words "way", "", way.name, "As recorded, with timer slack, or held";
    estimated(Of("/s")) "wakeups_per_s", "wake-ups/s", way.slept.wakeups_per_s, "Wake-ups of all CPUs";
    estimated(Percent) "joint_percent", "all asleep", way.slept.joint_percent, "All CPUs slept at once, of the time";
    estimated(Of("/s")) "joint_per_s", "times/s", way.slept.joint_per_s, "How often they did";
    estimated(Ns) "joint_mean_ns", "for", way.slept.joint_mean_ns, "How long they did at a time, on average";
);

/// The columns of the tables, by the list of their rows in `quiet.json`.
pub fn reference() -> Vec<(&'static str, Vec<Heading>)> {
    vec![("groups[]", Column::headings(GROUPS))]
}

/// The result for every medium.
pub fn sheet(found: &Found) -> Sheet<'_> {
    let about = &found.about;
    let mut line = vec![duration(found.elapsed_ns as f64)];
    line.extend(about.machine.words());
    line.extend([about.started.clone(), about.tool.clone()]);
    let mut sheet = Sheet {
        title: "What could wait".to_owned(),
        about: vec![line.join(" · ")],
        answer: answer(found),
        foot: FOOT,
        notes: found.notes.clone(),
        ..Sheet::default()
    };
    sheet.fact(
        "Delay",
        format!("{} at most", duration(found.within_ns as f64)),
    );
    if let description::Ended::Disturbed(why) = &about.ended {
        sheet.fact("Ended", why.clone());
    }
    let ways = [
        ("as recorded", found.recorded),
        ("with timer slack", found.with_slack),
        ("held", found.held),
    ];
    let ways: Vec<Way> = ways
        .into_iter()
        .map(|(name, slept)| Way { name, slept })
        .collect();
    let table = Table::of("The machine", WAYS, &ways).whole();
    let words = "With timer slack for all that may wait, and with all of that held.";
    sheet.section(Section::new("ways", "The machine").text(words).table(table));
    let table = Table::of("Who wakes CPUs", GROUPS, &found.groups).first(15);
    sheet.section(Section::new("groups", "Who wakes CPUs").table(table));
    sheet
}

/// Below this number of wake-ups the answer has no share of them.
const FEWEST: u64 = 20;

/// `Of 481 wake-ups/s, delays of up to 100 ms would save 350 (73%) by timer slack, ...`
fn answer(found: &Found) -> String {
    let was = found.recorded;
    let within = duration(found.within_ns as f64);
    let recorded = (was.wakeups_per_s * found.elapsed_ns as f64 / 1e9).round() as u64;
    if recorded < FEWEST {
        return format!(
            "{} in {}: too few to tell what delays would save; the CPUs were busy, or the time is too short.",
            counted(recorded, "wake-up"),
            duration(found.elapsed_ns as f64)
        );
    }
    let many = found.groups.iter().filter(|group| group.may_wait).count();
    if many == 0 {
        return "Nothing that wakes CPUs may wait.".to_owned();
    }
    let saved = was.wakeups_per_s - found.with_slack.wakeups_per_s;
    if was.wakeups_per_s <= 0.0 || saved / was.wakeups_per_s < 0.01 {
        return format!(
            "Delays of up to {within} would save hardly any of the {} wake-ups/s by timer slack.",
            three_digits(was.wakeups_per_s)
        );
    }
    let together = match (was.joint_mean_ns, found.with_slack.joint_mean_ns) {
        (Some(was), Some(now)) => format!(
            "; all CPUs would sleep at once for {} at a time instead of {}",
            duration(now),
            duration(was)
        ),
        _ => String::new(),
    };
    format!(
        "Delays of up to {within} by timer slack would save {:.0}% of {} wake-ups/s{together}.",
        100.0 * saved / was.wakeups_per_s,
        three_digits(was.wakeups_per_s),
    )
}

#[cfg(test)]
mod tests {
    use reveille_kernel::{Identity, Root};
    use reveille_results::description::Ended;
    use reveille_results::kept::About;
    use reveille_show::sheet::not_in_json;
    use reveille_snapshot::snapshot;

    use super::super::group::{Foreground, tests::recorded};
    use super::super::result::{SCHEMA_VERSION, parse};
    use super::*;

    fn found() -> Found {
        let about = About {
            schema_version: SCHEMA_VERSION,
            tool: "reveille".to_owned(),
            name: "quiet find".to_owned(),
            started: "2026-11-26T12:00:00Z".to_owned(),
            command_line: Vec::new(),
            ended: Ended::Completed,
            machine: Identity::read(&Root::default()),
            driver: None,
            governor: None,
        };
        Found::of(about, &recorded(), &Foreground::Anybody, 100_000_000)
    }

    #[test]
    fn every_column_is_in_the_json_and_a_kept_result_is_read_again() {
        let found = found();
        let json = serde_json::to_value(&found).unwrap();
        for (list, headings) in reference() {
            assert_eq!(not_in_json(&json, list, &headings), [""; 0]);
        }
        assert_eq!(parse(&serde_json::to_vec(&found).unwrap()), Ok(found));
    }

    #[test]
    fn the_answer_has_what_slack_would_save() {
        let mut nothing = found();
        nothing.groups.retain(|group| !group.may_wait);
        let mut few = found();
        few.recorded.wakeups_per_s = 19.0 / (few.elapsed_ns as f64 / 1e9);
        let mut little = found();
        little.with_slack = little.recorded;
        let found = [
            ("some", found()),
            ("nothing may wait", nothing),
            ("few", few),
            ("little", little),
        ];
        snapshot!("words", found.map(|(case, found)| (case, answer(&found))));
    }
}
