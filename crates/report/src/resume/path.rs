//! The critical path as a table, and in a sentence.

use reveille_resume::analysis::{CycleResult, LinkKind, LinkResult, stage_words, why_words};
use reveille_resume::cycle::Us;

use super::time;
use crate::quantity::share;
use crate::section::table::{Origin, Table};

/// Rows of the table; what is shorter is put together.
const LINKS: usize = 40;

/// Of the whole; what is shorter is put together, too.
const LEAST_SHARE: f64 = 0.0005;

/// How much of the path is devices, CPUs, the kernel itself, and what the log does not tell.
pub fn sentence(cycle: &CycleResult) -> String {
    let total = total(&cycle.path);
    if total <= 0 {
        return "The log has no resume, and so there is no critical path.".to_owned();
    }
    let of = |kinds: &[LinkKind]| {
        let links = cycle.path.iter().filter(|link| kinds.contains(&link.what));
        links.map(|link| link.duration_us).sum::<Us>()
    };
    let mut parts: Vec<(Us, &str)> = vec![
        (of(&[LinkKind::Call]), "devices"),
        (
            of(&[LinkKind::Cpu, LinkKind::BeforeCpu]),
            "CPUs that come on",
        ),
        (
            of(&[LinkKind::Stage, LinkKind::BeforeStage, LinkKind::BeforeCall]),
            "the kernel's own work",
        ),
        (
            of(&[LinkKind::NotTold]),
            "waits that the log does not explain",
        ),
    ];
    parts.retain(|(us, _)| *us > 0);
    let parts: Vec<String> = parts
        .iter()
        .map(|(us, what)| format!("{what} {}", share(*us as f64 / total as f64)))
        .collect();
    let longest = cycle.path.iter().filter(|link| link.what == LinkKind::Call);
    let longest = longest.max_by_key(|link| link.duration_us);
    let longest = longest.map_or(String::new(), |link| {
        format!(
            " Its longest call is {} ({}), {}.",
            link.words(),
            stage_words(link.stage),
            time(link.duration_us)
        )
    });
    format!(
        "The critical path of the resume is {}.{longest}",
        parts.join(", ")
    )
}

fn total(path: &[LinkResult]) -> Us {
    path.iter().map(|link| link.duration_us).sum()
}

pub fn table(cycle: &CycleResult) -> String {
    let path = &cycle.path;
    let total = total(path);
    if total <= 0 {
        return String::new();
    }
    let heads = [
        ("what", None),
        ("driver", None),
        ("stage", None),
        ("why then", None),
        ("at", Some(Origin::Measured)),
        ("takes", Some(Origin::Measured)),
        ("share", None),
    ];
    let mut table = Table::new(
        "What waited for what, from the resume's begin to its end",
        4,
        &heads,
    );
    let mut lengths: Vec<Us> = path.iter().map(|link| link.duration_us).collect();
    lengths.sort_unstable_by_key(|us| std::cmp::Reverse(*us));
    let least = lengths.get(LINKS).copied().unwrap_or(0);
    let least = least.max((total as f64 * LEAST_SHARE) as Us);
    let mut smaller: Vec<&LinkResult> = Vec::new();
    for link in path {
        if link.duration_us < least {
            smaller.push(link);
            continue;
        }
        together(&mut table, &mut smaller, total);
        table.row(&[
            link.words(),
            link.driver.as_deref().unwrap_or_default().to_owned(),
            stage_words(link.stage).to_owned(),
            why_words(link.why).to_owned(),
            time(link.start_us - path[0].start_us),
            time(link.duration_us),
            share(link.duration_us as f64 / total as f64),
        ]);
    }
    together(&mut table, &mut smaller, total);
    table.html()
}

/// One row for those that are too short for their own.
fn together(table: &mut Table, smaller: &mut Vec<&LinkResult>, total: Us) {
    if smaller.is_empty() {
        return;
    }
    let us: Us = smaller.iter().map(|link| link.duration_us).sum();
    table.row(&[
        format!("({} shorter)", smaller.len()),
        String::new(),
        String::new(),
        String::new(),
        String::new(),
        time(us),
        share(us as f64 / total as f64),
    ]);
    smaller.clear();
}
