//! `reveille model from`: what the transition times of an analysed machine are worth.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::ValueEnum;
use reveille_model::machine::{self, Machine, Worth};
use reveille_model::show;
use reveille_model::sweep::Sweep;
use reveille_results::text;
use reveille_resume::analysis::{FORMAT, VERSION};

use super::page;
use super::progress::Shown;
use super::source::{self, Source};
use crate::exit::{self, Failure};
use crate::output_format::{Printed, To};
use crate::page::name_page;

/// What the suspend and resume of an analysed machine are worth to a server that sleeps between
/// requests.
///
/// Reads what `reveille resume analyze --json` writes. Each machine becomes a policy that naps with its
/// transition times; where a what-if was asked for, so does the machine with these changes. Where a
/// power meter's figures are in it and one machine is chosen, they take the place of the parameters'
/// idle, nap and transition power, and active power keeps its ratio to idle power. Policies of the
/// parameters that do not nap stay beside it.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  reveille resume analyze dmesg.txt --json > resume.json
  reveille model from resume.json --utilisation 0.2
  reveille model from resume.json --servers 1000 --price 0.2     what a farm of them would save
  reveille model from resume.json --power power-cpus.json        idle and active power as measured
  reveille model from resume.json --by max --out model.html

Without --params: requests of 38 ms, a server that draws 100 W active, 60 W idle
and while it suspends and resumes, and 3 W asleep, as in a paper.")]
pub struct Args {
    /// The JSON of `reveille resume analyze`; `-` is standard input
    #[arg(value_name = "RESUME-JSON")]
    file: PathBuf,
    #[command(flatten)]
    source: source::SourceArgs,
    /// Only the machine of that name
    #[arg(long, value_name = "NAME")]
    machine: Option<String>,
    /// Which of several cycles counts
    #[arg(long, value_name = "WHICH", default_value = "median")]
    by: By,
    /// Write a page with charts to FILE
    #[arg(short, long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// The page's title
    #[arg(long, value_name = "TEXT", requires = "out")]
    title: Option<String>,
    #[command(flatten)]
    printed: Printed,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum By {
    /// The fastest
    Min,
    /// The one in the middle
    Median,
    /// The slowest
    Max,
}

impl By {
    fn of(self) -> machine::By {
        match self {
            Self::Min => machine::By::Min,
            Self::Median => machine::By::Median,
            Self::Max => machine::By::Max,
        }
    }
}

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let is_alone = page::alone(args.out.as_deref(), args.printed.data())?;
    let machines = machines(&args)?;
    let Source {
        mut parameters,
        mut notes,
    } = source::read(&args.source)?;
    let added = machine::put_into(&mut parameters, &machines, args.by.of());
    notes.extend(added.map_err(|error| wrong(&args, &error))?);
    notes.extend(show::whose(&parameters));
    parameters.check().map_err(source::refused)?;
    let swept = Sweep::of(&parameters).map_err(source::refused)?;
    let shown = Shown::new()?;
    let mut progress = |named: &_, of, done: Option<&_>| shown.tell(named, of, done);
    let worth = Worth::of(&swept, &notes, &mut progress).map_err(source::refused)?;
    shown.clear();
    let sheet = show::sweep(&swept, worth.run.years.as_deref(), &notes);
    let page = page::write(args.out.as_deref(), sheet, args.title.as_deref())?;
    if is_alone {
        return Ok(shown.code());
    }
    let mut sheet = show::worth(&worth);
    name_page(page.as_ref(), &mut sheet);
    exit::reader_may_leave(args.printed.print(&worth, &sheet, To::Output))?;
    Ok(shown.code())
}

/// A thousand cycles of a thousand devices have less.
const MOST_MIB: u64 = 4096;

fn machines(args: &Args) -> anyhow::Result<Vec<Machine>> {
    let text = match args.file == Path::new("-") {
        true => text::read(io::stdin().lock(), MOST_MIB),
        false => File::open(&args.file).and_then(|file| text::read(file, MOST_MIB)),
    };
    let text = text.map_err(reveille_kernel::Error::at(&args.file))?;
    machine::read(&text, FORMAT, VERSION, args.machine.as_deref())
        .map_err(|error| wrong(args, &error))
}

fn wrong(args: &Args, error: &reveille_model::Error) -> anyhow::Error {
    match error {
        reveille_model::Error::Content(_) => source::in_content(&args.file, error),
        _ => Failure::usage(format!("{}: {error}", args.file.display())),
    }
}
