//! The critical path, the slowest devices, and what could be gained.

use std::cmp::Reverse;
use std::io::{self, Write};

use reveille_resume::analysis::{
    CycleResult, LinkKind, LinkResult, Machine, Removal, Spread, counted, extent, half_name,
    no_devices, no_length, why_words,
};
use reveille_resume::cycle::{Gap, Us};
use reveille_resume::graph::Half;

use super::text::{UNKNOWN, duration, known, ms, stage_column};
use reveille_show::table::{Side, Table};
use reveille_show::wrap::wrapped;

/// Letters of a name that a line has room for.
pub const NAME: usize = 24;

/// Of one half; nothing for a suspend or a resume that never was.
pub fn path(cycle: &CycleResult, half: Half, top: usize, out: &mut impl Write) -> io::Result<()> {
    let path = cycle.path_of(half);
    let total: Us = path.iter().map(|link| link.duration_us).sum();
    let name = half_name(half);
    if total <= 0 {
        if cycle.unreturned(half).next().is_some()
            && let Some(why) = no_devices(cycle, half)
        {
            return wrapped(out, "\n", 0, &why);
        }
        return match half {
            Half::Suspend => Ok(()),
            Half::Resume => {
                let why = no_length(cycle, half).unwrap_or_default();
                wrapped(out, "\n", 0, &format!("{why}: no critical path."))?;
                gaps(cycle, top, out)
            }
        };
    }
    let (extent, total_words) = (extent(cycle, half), duration(total));
    match no_devices(cycle, half) {
        None => writeln!(out, "\nCritical path of the {name}{extent}, {total_words}")?,
        Some(why) => {
            writeln!(out, "\nWhere the {name} spends its {total_words}{extent}")?;
            // The resume's table has said so already.
            if half == Half::Resume || cycle.has(half) != cycle.has(Half::Resume) {
                wrapped(out, "", 2, &why)?;
            }
        }
    }
    let mut table = Table::new(&[
        ("at", "ms", Side::Right),
        ("takes", "ms", Side::Right),
        ("share", "%", Side::Right),
        ("what", "", Side::Left),
        ("stage", "", Side::Left),
        ("why then", "", Side::Left),
    ]);
    let begin = path[0].start_us;
    let (mut few, mut few_us) = (0, 0);
    let least = least(path, top);
    for link in path {
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
    silences(path, total, out)?;
    let untold = path.iter().filter(|link| link.what == LinkKind::NotTold);
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

/// Of a half: such a part of it.
const LONG: Us = 20;

/// Where stages are not known, the longest silences are.
fn gaps(cycle: &CycleResult, top: usize, out: &mut impl Write) -> io::Result<()> {
    let mut gaps: Vec<&Gap> = cycle.gaps.iter().collect();
    gaps.sort_by_key(|gap| Reverse(gap.end - gap.start));
    for gap in gaps.into_iter().take(top.min(MOST_GAPS)) {
        let words = format!(
            "{} without a message after: {}",
            duration(gap.end - gap.start),
            gap.message
        );
        wrapped(out, "", 2, &words)?;
    }
    Ok(())
}

/// Lines of a list.
const MOST_GAPS: usize = 5;

/// The kernel's messages before the long silences, in full: a column has little room.
fn silences(path: &[LinkResult], total: Us, out: &mut impl Write) -> io::Result<()> {
    let begin = path[0].start_us;
    let long = path.iter().filter(|link| link.duration_us >= total / LONG);
    for link in long {
        let Some(message) = &link.message else {
            continue;
        };
        let words = format!(
            "From {} ms on, {} without a message after: {message}",
            ms(link.start_us - begin),
            duration(link.duration_us)
        );
        wrapped(out, "", 2, &words)?;
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

/// A device's row, of either half.
struct Row<'a> {
    device: &'a str,
    driver: Option<&'a str>,
    takes: Spread,
    slack: Option<Spread>,
    on_path: usize,
}

fn rows(machine: &Machine, half: Half) -> Vec<Row<'_>> {
    let of_resume = machine.devices.iter().map(|one| Row {
        device: &one.device,
        driver: one.driver.as_deref(),
        takes: one.resume_us,
        slack: one.slack_us,
        on_path: one.on_path,
    });
    let of_suspend = machine.suspend_devices.iter().map(|one| Row {
        device: &one.device,
        driver: one.driver.as_deref(),
        takes: one.suspend_us,
        slack: one.slack_us,
        on_path: one.on_path,
    });
    match half {
        Half::Resume => of_resume.collect(),
        Half::Suspend => of_suspend.collect(),
    }
}

/// The slowest devices of a half; not the path, which says so by the slack.
pub fn devices(machine: &Machine, half: Half, top: usize, out: &mut impl Write) -> io::Result<()> {
    let rows = rows(machine, half);
    if rows.is_empty() {
        return Ok(());
    }
    let several = machine.cycles.len() > 1;
    let shown = rows.len().min(top);
    writeln!(
        out,
        "\nSlowest in the {}, {shown} of {}{}",
        half_name(half),
        counted(rows.len(), "device"),
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
    for one in rows.iter().take(top) {
        let mut row = vec![
            cut(one.device, NAME),
            one.driver.map_or(UNKNOWN.into(), |name| cut(name, 16)),
            ms(one.takes.median),
        ];
        if several {
            row.extend([ms(one.takes.min), ms(one.takes.max)]);
        }
        row.push(known(one.slack, |slack| ms(slack.median)));
        row.push(match (several, one.on_path) {
            (_, 0) => String::new(),
            (false, _) => "yes".to_owned(),
            (true, count) => format!("{count} of {}", one.takes.count),
        });
        table.push(row);
    }
    table.write(out)
}

/// Single devices whose absence shortens a half.
pub fn removals(machine: &Machine, half: Half, top: usize, out: &mut impl Write) -> io::Result<()> {
    let cycle = machine.shown();
    // Where single devices are not known the path has said so.
    if cycle.path_of(half).is_empty() || no_devices(cycle, half).is_some() {
        return Ok(());
    }
    if let Some(why) = no_length(cycle, half) {
        let words = format!("{why}: what a removal would save is unknown.");
        return wrapped(out, "\n", 0, &words);
    }
    let name = half_name(half);
    let removals = match half {
        Half::Resume => &machine.removals,
        Half::Suspend => &machine.suspend_removals,
    };
    if removals.is_empty() {
        let words = format!("No single device shortens the {name} if it is taken out.");
        return wrapped(out, "\n", 0, &words);
    }
    writeln!(
        out,
        "\nWhat each device alone would save in the {name}, with all below it"
    )?;
    let mut table = Table::new(&[
        ("without", "", Side::Left),
        ("driver", "", Side::Left),
        ("below", "", Side::Right),
        (name, "ms", Side::Right),
        ("saves", "ms", Side::Right),
    ]);
    for removal in removals.iter().take(top.min(MOST_REMOVALS)) {
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
