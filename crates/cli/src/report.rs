//! `reveille report`: results as one page that opens in a browser.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use reveille_results::output::{Existing, Naming, OutputFile};
use reveille_results::show::{self, Error, Input, Views};
use reveille_results::{Filter, Loaded};
use reveille_show::quantity;
use reveille_show::sheet::Sheet;
use reveille_show::web;
use reveille_show::{markdown, terminal};
use serde::Serialize;

use crate::completion;
use crate::exit::{self, Failure};
use crate::kept::{self, Kept, Visit};
use crate::page::{PAGE, page_file, write_page};

/// Make a page with charts and tables from one result, or from several side by side.
///
/// The page is one HTML file that needs no network. All datapoints are shown, as density; those
/// beyond the 99.9th percentile of their state are drawn individually, with all their fields. With
/// several results it shows what differs from the first, and whether that may be chance.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  reveille report RESULT                        writes RESULT/report.html
  reveille report before after -o change.html   two results side by side
  reveille report before after --markdown       what differs, to paste into an issue
  reveille report RESULT --filter 'requested_state == \"C6\" && silent_time_ns > 250us'
  reveille report wult-result -o - | gzip       a result of wult, to a pipe
  reveille report pings                         what `path --out pings`, `cost`, `trial`,
                                                `anticipate bench` or `power` kept
  reveille report resume.json                   what `resume analyze --json` printed")]
pub struct Args {
    /// Results of `measure` or wult: folders or CSV files; or a folder that `path`, `cost`, `trial`,
    /// `anticipate bench` or `power` kept, or that holds a resume.json of `resume analyze`
    #[arg(required = true, value_name = "RESULT", add = completion::kept(kept::is_kept))]
    results: Vec<PathBuf>,

    /// Write to FILE, or to standard output for `-` [default: report.html, with --filter
    /// report-filtered.html, in the result's folder if there is one result, else in the current folder]
    #[arg(short, long, alias = "output", value_name = "FILE")]
    out: Option<PathBuf>,

    /// Use only datapoints that match EXPR
    #[arg(long, value_name = "EXPR")]
    filter: Option<String>,

    /// The page's title [default: the results' names]
    #[arg(long)]
    title: Option<String>,

    /// Print Markdown, to paste into an issue, instead of a page
    #[arg(long)]
    markdown: bool,
}

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let filter = parsed(args.filter.as_deref())?;
    let output = match &args.out {
        Some(output) if args.markdown => OutputFile::find(output, Existing::Stays, Naming::ByUser)?,
        Some(output) => page_file(output, Naming::ByUser)?,
        None => page_file(&default_output(&args), Naming::ByDefault)?,
    };
    for result in &args.results {
        let (file, kind) = match kept::find(result)? {
            Kept::Measured => continue,
            Kept::Captured => return Err(captured(result)),
            Kept::File(file, kind) => (file, kind),
        };
        if args.results.len() > 1 || filter.is_some() {
            let file = file.display();
            return Err(Failure::usage(format!(
                "{file}: only results of `measure` can be combined or filtered"
            )));
        }
        let page = kind.read(&file, Render(&args))?;
        return write(&output, &page);
    }
    let inputs = inputs(&args.results, filter.as_ref())?;
    let views = Views::of(&inputs)?;
    let page = args.render(&show::sheet(&views, args.title.as_deref()));
    write(&output, &page)
}

/// The filter of a command line.
pub fn parsed(filter: Option<&str>) -> anyhow::Result<Option<Filter>> {
    let parse = |text| Filter::parse(text).map_err(|wrong| Failure::filter(&wrong, ""));
    filter.map(parse).transpose()
}

impl Args {
    /// A page where it is by default.
    pub fn new(results: Vec<PathBuf>, filter: Option<String>) -> Self {
        Self {
            results,
            filter,
            out: None,
            title: None,
            markdown: false,
        }
    }

    fn render(&self, sheet: &Sheet<'_>) -> String {
        match self.markdown {
            true => markdown::markdown(sheet),
            false => web::page(sheet),
        }
    }
}

/// Renders a sheet in the form that was asked for.
struct Render<'a>(&'a Args);

impl Visit for Render<'_> {
    type Out = String;
    fn visit(self, _: &impl Serialize, mut sheet: Sheet<'_>) -> String {
        if let Some(title) = &self.0.title {
            sheet.title.clone_from(title);
        }
        self.0.render(&sheet)
    }
}

/// A capture is logs.
fn captured(folder: &Path) -> anyhow::Error {
    let folder = quantity::quoted(&folder.display().to_string());
    Failure::usage(format!(
        "{folder}: holds the logs of a capture; `reveille resume analyze {folder} --out FILE.html` \
         makes a page of them"
    ))
}

/// The name with `--filter` where none is given.
const FILTERED: &str = "report-filtered.html";

/// A filtered page must not replace the full one.
fn default_output(args: &Args) -> PathBuf {
    let name = match args.filter {
        Some(_) => FILTERED,
        None => PAGE,
    };
    match args.results.as_slice() {
        _ if args.markdown => "-".into(),
        [one] if one.is_dir() => one.join(name),
        _ => name.into(),
    }
}

pub const NO_MATCH: &str = "no datapoint matches the filter";
/// The results with those datapoints that match the filter.
///
/// # Errors
/// A result cannot be read, or there is a filter that no datapoint matches.
pub fn inputs(results: &[PathBuf], filter: Option<&Filter>) -> anyhow::Result<Vec<Input>> {
    let (mut inputs, mut empty) = (Vec::new(), Vec::new());
    for path in results {
        let loaded = reveille_results::open(path)?;
        let all = loaded.columns.rows;
        let input = input(loaded, path, filter)?;
        if input.datapoints() == 0 {
            let why = match all {
                0 => "no datapoints",
                _ => NO_MATCH,
            };
            empty.push(format!("{}: {why}", path.display()));
        }
        inputs.push(input);
    }
    if filter.is_some() && empty.len() == inputs.len() {
        anyhow::bail!("{}", empty.join("; "));
    }
    empty.iter().for_each(exit::say);
    Ok(inputs)
}

fn input(loaded: Loaded, path: &Path, filter: Option<&Filter>) -> anyhow::Result<Input> {
    let input = match filter {
        Some(filter) => Input::filtered(loaded, filter),
        None => Input::new(loaded),
    };
    match input {
        Err(Error::Filter(wrong)) => Err(Failure::filter(&wrong, &format!("{}: ", path.display()))),
        other => other.with_context(|| path.display().to_string()),
    }
}

fn write(output: &OutputFile, page: &str) -> anyhow::Result<ExitCode> {
    write_page(output, page)?;
    if !output.is_standard_output() {
        writeln!(terminal::data(), "{}", output.path().display())?;
    }
    Ok(ExitCode::SUCCESS)
}
