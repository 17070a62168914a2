//! `reveille resume analyze`: logs of suspends and resumes, analysed.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use reveille_results::output::{Naming, OutputFile};
use reveille_resume::analysis::{Question, analyse, inputs};
use reveille_resume::power::Meter;
use reveille_resume::show;
use reveille_resume::what_if::Change;
use reveille_show::{quantity, web};

use crate::exit::Failure;
use crate::kept::{self, Kept};
use crate::output_format::{Printed, To};
use crate::page;
use crate::value;

/// Show where the time of suspends and resumes went, from their logs.
///
/// Reads kernel logs written with /sys/power/pm_print_times on (dmesg, syslog, a journal's text), or
/// ftrace text of power:suspend_resume and power:device_pm_callback_*. For each cycle: its stages,
/// each device's calls, and the critical path, the chain of waits that sets the total time; only
/// shortening a part of it shortens the whole. Changes nothing; needs no root.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  dmesg | reveille resume analyze -                      this machine's last cycles
  reveille resume analyze syslog --cycle 3 --top 20
  reveille resume analyze dmesg.txt --without 'snd*,uvc*' --defer 'usb*' --set ata1=50ms
  reveille resume analyze dmesg.txt --steps 5            the best removals, one by one
  reveille resume analyze a.txt b.txt --name before --name after --out both.html
  reveille resume analyze capture/ --power meter.csv     with the power during the cycles
  reveille resume analyze dmesg.txt --json | jq '.machines[0].resume_us'

Changes accumulate in this order: --without, --defer, --set, --cpus. Patterns have * and ?, and
match any name of a device or its driver. --set takes NAME=TIME for a device's longest call,
NAME@STAGE=TIME for its call in that stage, and stage:STAGE=TIME for a whole stage; STAGE is
cpus_on, resume_noirq, resume_early, resume, complete or thaw.")]
pub struct Args {
    /// Logs, `-` for standard input, or folders of `resume capture`; one for each machine
    #[arg(required = true, value_name = "LOG")]
    logs: Vec<PathBuf>,
    /// Only this cycle of each log
    #[arg(long, value_name = "N", value_parser = value::count(1..=u64::MAX))]
    cycle: Option<u64>,
    #[arg(long, value_name = "N", value_parser = value::count(1..=10_000_u64), help = format!(
        "Rows of a table in the terminal, and devices in a timeline of the page [default: {} rows, {} devices]",
        show::ROWS, show::DEVICES
    ))]
    top: Option<u64>,
    /// What if these devices, and all below them, were removed: 'snd*,uvc*'
    #[arg(long, value_name = "PATTERN", value_parser = Change::without)]
    without: Vec<Change>,
    /// What if these devices, and all below them, resumed after all others: 'usb*'
    #[arg(long, value_name = "PATTERN", value_parser = Change::defer)]
    defer: Vec<Change>,
    /// What if a call or a stage took this time: ata1=50ms, sd*@resume=1s, stage:resume_noirq=100ms
    #[arg(long, value_name = "WHAT=TIME", value_parser = Change::set)]
    set: Vec<Change>,
    /// What if the machine had N CPUs
    #[arg(long, value_name = "N", value_parser = Change::cpus)]
    cpus: Option<Change>,
    /// Find the N best removals, one after the other, on top of the changes above
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = value::count(0..=1000_u64))]
    steps: u64,
    /// A power meter's samples: CSV with times and watts, or a Watts Up? log
    #[arg(long, value_name = "FILE")]
    power: Option<PathBuf>,
    /// Time from the meter's first sample to the start of the first cycle [default: by the wall
    /// clocks, or by the drop in power]
    #[arg(long, value_name = "TIME", requires = "power", value_parser = value::time("1s"))]
    power_offset: Option<Duration>,
    /// The machine's name, once for each LOG [default: the file's name]
    #[arg(long, value_name = "TEXT")]
    name: Vec<String>,
    /// Write a page with timelines, charts and all tables to FILE, `-` for standard output
    #[arg(short, long, value_name = "FILE.html")]
    out: Option<PathBuf>,
    /// The page's title [default: the machines' names]
    #[arg(long, value_name = "TEXT", requires = "out")]
    title: Option<String>,
    #[command(flatten)]
    printed: Printed,
}

pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let page = match &args.out {
        Some(out) => Some(page::page_file(out, Naming::ByUser)?),
        None => None,
    };
    let is_data = args.printed.json || args.printed.markdown;
    if is_data && page.as_ref().is_some_and(OutputFile::is_standard_output) {
        return Err(Failure::usage(
            "--out -: standard output has the JSON or the Markdown; name a file",
        ));
    }
    let question = question(args)?;
    refuse_results(&args.logs)?;
    let analysis = analyse(inputs(&args.logs, &args.name)?, &question)?;
    let mut sheet = show::sheet(&analysis, args.top.map(|top| top as usize));
    if let Some(title) = &args.title {
        sheet.title.clone_from(title);
    }
    if let Some(file) = &page {
        page::write_page(file, &web::page(&sheet))?;
        if file.is_standard_output() {
            return Ok(ExitCode::SUCCESS);
        }
    }
    page::name_page(page.as_ref(), &mut sheet);
    args.printed.print(&analysis, &sheet, To::Output)?;
    Ok(ExitCode::SUCCESS)
}

/// A kept analysis is not a log.
fn refuse_results(logs: &[PathBuf]) -> anyhow::Result<()> {
    let is_result = |log: &&PathBuf| matches!(kept::find(log), Ok(Kept::File(..)));
    let Some(log) = logs.iter().find(is_result) else {
        return Ok(());
    };
    let name = quantity::quoted(&log.display().to_string());
    Err(anyhow::anyhow!(
        "{name}: is a result, not a log; use `reveille show {name}`"
    ))
}

fn question(args: &Args) -> anyhow::Result<Question> {
    let meter = match &args.power {
        Some(file) => Some(Meter::open(file)?),
        None => None,
    };
    let changes = args.without.iter().chain(&args.defer).chain(&args.set);
    Ok(Question {
        cycle: args.cycle.map(|number| number as usize),
        changes: changes.chain(&args.cpus).cloned().collect(),
        steps: args.steps as usize,
        meter,
        meter_offset_us: args.power_offset.map(|time| time.as_micros() as i64),
    })
}
