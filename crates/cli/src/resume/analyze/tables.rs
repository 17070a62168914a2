//! The critical path, the slowest devices, and what could be gained.

use std::io::{self, Write};

use reveille_resume::analysis::{CycleResult, LinkKind, LinkResult, Machine, Removal, why_words};
use reveille_resume::cycle::Us;

use super::text::{UNKNOWN, duration, known, ms, stage_column};
use crate::table::{Side, Table};
use crate::wrap::wrapped;

/// Letters of a name that a line has room for.
pub const NAME: usize = 24;

pub fn path(cycle: &CycleResult, top: usize, out: &mut impl Write) -> io::Result<()> {
    let total: Us = cycle.path.iter().map(|link| link.duration_us).sum();
    if cycle.path.is_empty() || total <= 0 {
        return writeln!(out, "\nNo resume in the log, and so no critical path.");
    }
    writeln!(out, "\nCritical path of the resume, {}", duration(total))?;
    let mut table = Table::new(&[
        ("at", "ms", Side::Right),
        ("takes", "ms", Side::Right),
        ("share", "%", Side::Right),
        ("what", "", Side::Left),
        ("stage", "", Side::Left),
        ("why then", "", Side::Left),
    ]);
    let begin = cycle.path[0].start_us;
    let (mut few, mut few_us) = (0, 0);
    let least = least(&cycle.path, top);
    for link in &cycle.path {
        if link.duration_us < least {
            few += 1;
            few_us += link.duration_us;
            continue;
        }
        if few > 0 {
            table.row(smaller(few, few_us, total));
            (few, few_us) = (0, 0);
        }
        table.row([
            ms(link.start_us - begin),
            ms(link.duration_us),
            share(link.duration_us, total),
            cut(&link.words(), NAME + 2),
            stage_column(link.stage),
            why_words(link.why).to_owned(),
        ]);
    }
    if few > 0 {
        table.row(smaller(few, few_us, total));
    }
    table.write(out)?;
    let untold = cycle
        .path
        .iter()
        .filter(|link| link.what == LinkKind::NotTold);
    let untold: Us = untold.map(|link| link.duration_us).sum();
    if untold > 0 {
        wrapped(
            out,
            "",
            2,
            &format!(
                "The log does not tell what {} of it waited for: a supplier of the device, a lock, a \
                 busy CPU.",
                duration(untold)
            ),
        )?;
    }
    Ok(())
}

fn smaller(count: usize, us: Us, total: Us) -> [String; 6] {
    let pieces = if count == 1 { "piece" } else { "pieces" };
    [
        String::new(),
        ms(us),
        share(us, total),
        format!("({count} smaller {pieces})"),
        String::new(),
        String::new(),
    ]
}

/// Shorter pieces of the path have no row of their own.
const LEAST_SHARE: f64 = 0.0005;

/// The length of the last of the `top` longest links.
fn least(path: &[LinkResult], top: usize) -> Us {
    let mut lengths: Vec<Us> = path.iter().map(|link| link.duration_us).collect();
    lengths.sort_unstable_by_key(|us| std::cmp::Reverse(*us));
    let longest = lengths.get(top.saturating_sub(1)).copied().unwrap_or(0);
    longest.max((lengths.iter().sum::<Us>() as f64 * LEAST_SHARE) as Us)
}

pub fn share(us: Us, total: Us) -> String {
    format!("{:.1}", us as f64 * 100.0 / total as f64)
}

/// The slowest devices of the resume; not the path, which says so by the slack.
pub fn devices(machine: &Machine, top: usize, out: &mut impl Write) -> io::Result<()> {
    if machine.devices.is_empty() {
        return Ok(());
    }
    let several = machine.cycles.len() > 1;
    let shown = machine.devices.len().min(top);
    writeln!(
        out,
        "\nSlowest in the resume, {shown} of {} devices{}",
        machine.devices.len(),
        if several {
            "; medians of all cycles"
        } else {
            ""
        }
    )?;
    let mut heads = vec![
        ("device", "", Side::Left),
        ("driver", "", Side::Left),
        ("takes", "ms", Side::Right),
    ];
    if several {
        heads.extend([("min", "ms", Side::Right), ("max", "ms", Side::Right)]);
    }
    heads.extend([("slack", "ms", Side::Right), ("on path", "", Side::Right)]);
    let mut table = Table::new(&heads);
    for device in machine.devices.iter().take(top) {
        let mut row = vec![
            cut(&device.device, NAME),
            device
                .driver
                .as_deref()
                .map_or(UNKNOWN.into(), |name| cut(name, 16)),
            ms(device.resume_us.median),
        ];
        if several {
            row.extend([ms(device.resume_us.min), ms(device.resume_us.max)]);
        }
        row.push(known(device.slack_us, |slack| ms(slack.median)));
        row.push(match (several, device.on_path) {
            (_, 0) => String::new(),
            (false, _) => "yes".to_owned(),
            (true, count) => format!("{count} of {}", device.resume_us.count),
        });
        table.push(row);
    }
    table.write(out)
}

/// Single devices whose absence shortens the resume.
pub fn removals(machine: &Machine, top: usize, out: &mut impl Write) -> io::Result<()> {
    if machine.cycles.iter().all(|cycle| cycle.path.is_empty()) {
        return Ok(());
    }
    if machine.removals.is_empty() {
        return wrapped(
            out,
            "\n",
            0,
            "No single device shortens the resume if it is taken out.",
        );
    }
    writeln!(
        out,
        "\nWhat each device alone would save, with all below it"
    )?;
    let mut table = Table::new(&[
        ("without", "", Side::Left),
        ("driver", "", Side::Left),
        ("below", "", Side::Right),
        ("resume", "ms", Side::Right),
        ("saves", "ms", Side::Right),
    ]);
    for removal in machine.removals.iter().take(top.min(MOST_REMOVALS)) {
        table.row(removal_cells(removal));
    }
    table.write(out)
}

/// Device, driver, how many lie below it, the resume without them, and what that saves.
pub fn removal_cells(removal: &Removal) -> [String; 5] {
    [
        cut(&removal.device, NAME),
        removal
            .driver
            .as_deref()
            .map_or(UNKNOWN.into(), |name| cut(name, 16)),
        match removal.with_below {
            0 => String::new(),
            below => below.to_string(),
        },
        ms(removal.total_us),
        ms(removal.saves_us),
    ]
}

/// A short list is read; `--steps` and the page have more.
const MOST_REMOVALS: usize = 8;

/// A name in so many letters.
pub fn cut(name: &str, letters: usize) -> String {
    match name.chars().count() <= letters {
        true => name.to_owned(),
        false => name.chars().take(letters - 1).chain(['…']).collect(),
    }
}
