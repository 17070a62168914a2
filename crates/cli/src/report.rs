//! `reveille report`: results as one page that opens in a browser.

use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use reveille_dataset::Filter;
use reveille_report::{Error, Input, Options, page};

use crate::exit::{self, Failure};

/// Make a page with charts and tables from one result, or from several side by side.
///
/// The page is one HTML file that needs no network. All datapoints are shown, as density; those
/// beyond the 99.9th percentile of their state are drawn singly and tell all their fields. With
/// several results it says what differs from the first, and whether that may be chance.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  reveille report RESULT                        writes RESULT/report.html
  reveille report before after -o change.html   two results side by side
  reveille report RESULT --filter 'requested_state == \"C6\" && silent_time_ns > 250us'
  reveille report wult-result -o - | gzip       a result of wult, to a pipe
  reveille report pings                         what `path --out pings`, `cost`, `trial` or
                                                `anticipate bench` kept
  reveille report resume.json                   what `resume analyze --json` printed")]
pub struct Args {
    /// Results: their folders, folders of wult's, or CSV files of either; or a folder that `path`,
    /// `cost`, `trial` or `anticipate bench` kept, or that holds a resume.json of `resume analyze`
    #[arg(required = true, value_name = "RESULT")]
    results: Vec<PathBuf>,

    /// Write to FILE, or to standard output for `-` [default: report.html, in the result's folder
    /// if there is one result, else in the present folder]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Take only datapoints for which EXPR is true; statistics are then theirs
    #[arg(long, value_name = "EXPR")]
    filter: Option<String>,

    /// The page's title [default: the results' names]
    #[arg(long)]
    title: Option<String>,
}

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let filter = match &args.filter {
        Some(text) => Some(Filter::parse(text).map_err(|wrong| Failure::usage(wrong.to_string()))?),
        None => None,
    };
    let output = args.output.unwrap_or_else(|| default_output(&args.results));
    refuse_foreign(&output, "--output")?;
    if let Some((file, page)) = kept(&args.results) {
        if args.results.len() > 1 || filter.is_some() {
            let file = file.display();
            return Err(Failure::usage(format!(
                "{file}: makes a page of its own, without other results and without --filter"
            )));
        }
        let text = fs::read(&file).with_context(|| file.display().to_string())?;
        let html = page(&text, args.title.as_deref())
            .map_err(|why| anyhow::anyhow!("{}: {why}", file.display()))?;
        write(&output, &html)?;
        return Ok(ExitCode::SUCCESS);
    }
    let inputs = args
        .results
        .iter()
        .map(|path| read(path, filter.as_ref()))
        .collect::<anyhow::Result<Vec<_>>>()?;
    let html = page(
        &inputs,
        &Options {
            title: args.title,
            filter: args.filter,
        },
    )?;
    write(&output, &html)?;
    Ok(ExitCode::SUCCESS)
}

/// Makes a page of what another command keeps, with that title; an error says in a line why not.
type MakePage = fn(&[u8], Option<&str>) -> Result<String, String>;

/// Files that other commands keep in their folder.
const KEPT: [(&str, MakePage); 5] = [
    (reveille_watch::cost::FILE, reveille_report::cost::page),
    (reveille_watch::path::FILE, reveille_report::path::page),
    (reveille_trial::result::FILE, reveille_report::trial::page),
    (
        reveille_anticipate::bench::result::FILE,
        reveille_report::anticipate::page,
    ),
    (
        reveille_resume::analysis::FILE,
        reveille_report::resume::from_json,
    ),
];

/// The first of these that is such a file, or a folder with one.
fn kept(results: &[PathBuf]) -> Option<(PathBuf, MakePage)> {
    let of = |(result, &(name, page)): (&PathBuf, &(&str, MakePage))| {
        let file = match result.is_dir() {
            true => result.join(name),
            false => result.clone(),
        };
        (file.is_file() && file.file_name()? == name).then_some((file, page))
    };
    let pairs = results
        .iter()
        .flat_map(|result| KEPT.iter().map(move |kept| (result, kept)));
    pairs.into_iter().find_map(of)
}

/// The page's name where none is given.
const PAGE: &str = "report.html";

/// The page of one result, in its folder.
pub fn beside(result: &Path) -> anyhow::Result<PathBuf> {
    let output = result.join(PAGE);
    let html = page(&[read(result, None)?], &Options::default())?;
    replace(&output, &html).with_context(|| output.display().to_string())?;
    Ok(output)
}

fn default_output(results: &[PathBuf]) -> PathBuf {
    match results {
        [one] if one.is_dir() => one.join(PAGE),
        _ => PathBuf::from(PAGE),
    }
}

fn read(path: &Path, filter: Option<&Filter>) -> anyhow::Result<Input> {
    let loaded = reveille_dataset::open(path)?;
    let datapoints = loaded.columns.rows;
    let input = match filter {
        Some(filter) => Input::filtered(loaded, filter),
        None => Input::new(loaded),
    };
    let input = match input {
        Err(Error::Filter(wrong)) => {
            return Err(Failure::usage(format!("{}: {wrong}", path.display())));
        }
        other => other.with_context(|| path.display().to_string())?,
    };
    if input.datapoints() == 0 {
        let why = match datapoints {
            0 => "holds no datapoint".to_owned(),
            all => format!("none of its {all} datapoints passes the filter"),
        };
        exit::say(format_args!(
            "{}: {why}; the page will say so",
            path.display()
        ));
    }
    Ok(input)
}

/// An older page is written over; anything else is somebody's file.
pub fn refuse_foreign(output: &Path, option: &str) -> anyhow::Result<()> {
    if output == Path::new("-") {
        return Ok(());
    }
    if output.is_dir() {
        return Err(Failure::usage(format!(
            "{}: is a folder; name a file in it with {option}",
            output.display()
        )));
    }
    let Ok(file) = fs::File::open(output) else {
        return Ok(());
    };
    // A pipe or a device has nothing to lose, and reading from it might never end.
    if !file.metadata().is_ok_and(|metadata| metadata.is_file()) {
        return Ok(());
    }
    let mut start = Vec::new();
    file.take(4096)
        .read_to_end(&mut start)
        .with_context(|| output.display().to_string())?;
    if start.is_empty() || reveille_report::is_page(&String::from_utf8_lossy(&start)) {
        return Ok(());
    }
    Err(Failure::usage(format!(
        "{}: exists and is no page of reveille; choose another file with {option}",
        output.display()
    )))
}

fn write(output: &Path, html: &str) -> anyhow::Result<()> {
    write_page(output, html)?;
    if output != Path::new("-") {
        writeln!(io::stdout(), "{}", output.display())?;
    }
    Ok(())
}

/// To the file, or to standard output for `-`.
pub fn write_page(output: &Path, html: &str) -> anyhow::Result<()> {
    if output == Path::new("-") {
        let mut out = io::stdout().lock();
        out.write_all(html.as_bytes())?;
        return Ok(out.flush()?);
    }
    replace(output, html).with_context(|| output.display().to_string())
}

/// Whoever opens the file sees the old page or the new one, never half of one.
fn replace(output: &Path, html: &str) -> io::Result<()> {
    if fs::metadata(output).is_ok_and(|metadata| !metadata.is_file()) {
        return fs::write(output, html);
    }
    let mut name = output.file_name().unwrap_or_default().to_owned();
    name.push(".partial");
    let partial = output.with_file_name(name);
    let written = fs::write(&partial, html).and_then(|()| fs::rename(&partial, output));
    if written.is_err() {
        // The error is the news; that the rest could not be removed either is not.
        let _ = fs::remove_file(&partial);
    }
    written
}
