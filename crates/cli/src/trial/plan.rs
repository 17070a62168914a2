//! `--dry-run`: which settings would be compared.

use std::io::{self, Write};

use reveille_kernel::Idle;
use reveille_trial::setting::Setting;
use serde::Serialize;

use super::Args;
use reveille_show::table::{Side, Table};
use reveille_show::terminal;

#[derive(Serialize)]
struct Planned<'a> {
    rounds: u32,
    settings: Vec<PlannedSetting<'a>>,
    notes: &'a [String],
}

#[derive(Serialize)]
struct PlannedSetting<'a> {
    name: &'a str,
    how: String,
}

pub fn print(
    args: &Args,
    idle: &Idle,
    settings: &[Setting],
    notes: &[String],
) -> anyhow::Result<()> {
    let mut planned = Vec::new();
    for setting in settings {
        planned.push(PlannedSetting {
            name: &setting.name,
            how: setting.how(idle)?,
        });
    }
    if args.kept.printed.json {
        let planned = Planned {
            rounds: args.rounds,
            settings: planned,
            notes,
        };
        writeln!(
            terminal::data(),
            "{}",
            serde_json::to_string_pretty(&planned)?
        )?;
        return Ok(());
    }
    Ok(text(&planned, notes)?)
}

fn text(planned: &[PlannedSetting<'_>], notes: &[String]) -> io::Result<()> {
    let mut out = terminal::stdout();
    let mut table = Table::new(&[
        ("setting", "", Side::Left),
        ("what is changed", "", Side::Left),
    ]);
    for setting in planned {
        table.row([setting.name.to_owned(), setting.how.clone()]);
    }
    table.write(&mut out)?;
    if !notes.is_empty() {
        writeln!(out)?;
    }
    for note in notes {
        writeln!(out, "{note}")?;
    }
    Ok(())
}
