//! `reveille report`: results as one page that opens in a browser.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use reveille_results::output::{Existing, Naming, OutputFile};
use reveille_results::show::{self, Error, Input, Options, Views};
use reveille_results::{Filter, Loaded, ResultFolder};
use reveille_show::page::is_page;
use reveille_show::sheet::Sheet;
use reveille_show::web;
use serde::de::IgnoredAny;

use crate::completion;
use crate::exit::{self, Failure};
use reveille_show::terminal;

/// Make a page with charts and tables from one result, or from several side by side.
///
/// The page is one HTML file that needs no network. All datapoints are shown, as density; those
/// beyond the 99.9th percentile of their state are drawn singly, with all their fields. With
/// several results it shows what differs from the first, and whether that may be chance.
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
    #[arg(required = true, value_name = "RESULT", add = completion::kept(is_kept))]
    results: Vec<PathBuf>,

    /// Write to FILE, or to standard output for `-` [default: report.html, in the result's folder
    /// if there is one result, else in the present folder]
    #[arg(short, long, alias = "output", value_name = "FILE")]
    out: Option<PathBuf>,

    /// Take only datapoints for which EXPR is true; statistics are then theirs
    #[arg(long, value_name = "EXPR")]
    filter: Option<String>,

    /// The page's title [default: the results' names]
    #[arg(long)]
    title: Option<String>,
}

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let filter = match &args.filter {
        Some(text) => Some(Filter::parse(text).map_err(|wrong| Failure::filter(&wrong, ""))?),
        None => None,
    };
    let output = match &args.out {
        Some(output) => page_file(output, Naming::ByUser)?,
        None => page_file(&default_output(&args.results), Naming::ByDefault)?,
    };
    if let Some((file, page)) = kept(&args.results) {
        if args.results.len() > 1 || filter.is_some() {
            let file = file.display();
            return Err(Failure::usage(format!(
                "{file}: makes a page of its own, without other results and without --filter"
            )));
        }
        let text = fs::read(&file).map_err(reveille_kernel::Error::at(&file))?;
        let html = page(&text, args.title.as_deref())
            .map_err(|why| anyhow::anyhow!("{}: {why}", file.display()))?;
        write(&output, &html)?;
        return Ok(ExitCode::SUCCESS);
    }
    let inputs = args
        .results
        .iter()
        .map(|path| input(reveille_results::open(path)?, path, filter.as_ref()))
        .collect::<anyhow::Result<Vec<_>>>()?;
    let html = page_of(
        &inputs,
        &Options {
            title: args.title,
            filter: args.filter,
        },
    )?;
    write(&output, &html)?;
    Ok(ExitCode::SUCCESS)
}

/// Makes the page of another command's file, with that title; the error is one line.
type MakePage = fn(&[u8], Option<&str>) -> Result<String, String>;

/// A file that another command keeps in its folder, or prints with `--json`.
struct Kept {
    name: &'static str,
    /// A key that no other of these files has.
    key: &'static str,
    page: MakePage,
}

fn cost(text: &[u8], title: Option<&str>) -> Result<String, String> {
    let cost = reveille_watch::cost::read(text)?;
    Ok(titled(reveille_watch::cost::show::sheet(&cost), title))
}

fn resume(text: &[u8], title: Option<&str>) -> Result<String, String> {
    let analysis = reveille_resume::analysis::read(text)?;
    Ok(titled(reveille_resume::show::sheet(&analysis, None), title))
}

fn path(text: &[u8], title: Option<&str>) -> Result<String, String> {
    let path = reveille_watch::path::read(text)?;
    Ok(titled(reveille_watch::path::show::sheet(&path), title))
}

fn bench(text: &[u8], title: Option<&str>) -> Result<String, String> {
    let bench = reveille_anticipate::bench::result::parse(text)?;
    Ok(titled(
        reveille_anticipate::bench::show::sheet(&bench),
        title,
    ))
}

fn trial(text: &[u8], title: Option<&str>) -> Result<String, String> {
    let trial = reveille_trial::result::parse(text)?;
    Ok(titled(reveille_trial::show::sheet(&trial), title))
}

fn titled(mut sheet: Sheet<'_>, title: Option<&str>) -> String {
    if let Some(title) = title {
        sheet.title = title.to_owned();
    }
    web::page(&sheet)
}

const KEPT: [Kept; 5] = [
    Kept {
        name: reveille_watch::cost::FILE,
        key: "forbidding",
        page: cost,
    },
    Kept {
        name: reveille_watch::path::FILE,
        key: "delays",
        page: path,
    },
    Kept {
        name: reveille_trial::result::FILE,
        key: "verdict",
        page: trial,
    },
    Kept {
        name: reveille_anticipate::bench::result::FILE,
        key: "policies",
        page: bench,
    },
    Kept {
        name: reveille_resume::analysis::FILE,
        key: "machines",
        page: resume,
    },
];

/// The first of these that is such a file, by whatever name, or a folder with one.
fn kept(results: &[PathBuf]) -> Option<(PathBuf, MakePage)> {
    results.iter().find_map(|result| {
        let found = match result.is_dir() {
            true => KEPT.iter().find(|kept| result.join(kept.name).is_file()),
            false => kept_by_name(result).or_else(|| kept_by_keys(result)),
        }?;
        let file = match result.is_dir() {
            true => result.join(found.name),
            false => result.clone(),
        };
        Some((file, found.page))
    })
}

/// Whether a folder has such a file.
fn is_kept(folder: &Path) -> bool {
    KEPT.iter().any(|kept| folder.join(kept.name).is_file())
}

fn kept_by_name(file: &Path) -> Option<&'static Kept> {
    let name = file.file_name().filter(|_| file.is_file())?;
    KEPT.iter().find(|kept| name == kept.name)
}

/// One that was given another name, or that `--json` printed.
fn kept_by_keys(path: &Path) -> Option<&'static Kept> {
    if !path.is_file() {
        return None;
    }
    let mut file = BufReader::new(fs::File::open(path).ok()?);
    // A table of datapoints may be long, and is none.
    if file.fill_buf().ok()?.trim_ascii_start().first() != Some(&b'{') {
        return None;
    }
    let keys: BTreeMap<String, IgnoredAny> = serde_json::from_reader(file).ok()?;
    let is_ours = |kept: &&Kept| keys.contains_key("tool") && keys.contains_key(kept.key);
    KEPT.iter().find(is_ours)
}

/// The page's name where none is given.
pub const PAGE: &str = "report.html";

fn page_of(inputs: &[Input], options: &Options) -> anyhow::Result<String> {
    let views = Views::of(inputs)?;
    Ok(web::page(&show::sheet(&views, options)))
}

/// The page of the result that has just been measured, in its folder.
pub fn beside(result: &ResultFolder) -> anyhow::Result<PathBuf> {
    let input = input(result.read_back(None)?, result.path(), None)?;
    let html = page_of(&[input], &Options::default())?;
    let folder = result.folder();
    Ok(folder.write(PAGE, Existing::Stays, html.as_bytes())?)
}

fn default_output(results: &[PathBuf]) -> PathBuf {
    match results {
        [one] if one.is_dir() => one.join(PAGE),
        _ => PathBuf::from(PAGE),
    }
}

fn input(loaded: Loaded, path: &Path, filter: Option<&Filter>) -> anyhow::Result<Input> {
    let datapoints = loaded.columns.rows;
    let input = match filter {
        Some(filter) => Input::filtered(loaded, filter),
        None => Input::new(loaded),
    };
    let input = match input {
        Err(Error::Filter(wrong)) => {
            return Err(Failure::filter(&wrong, &format!("{}: ", path.display())));
        }
        other => other.with_context(|| path.display().to_string())?,
    };
    if input.datapoints() == 0 {
        let why = match datapoints {
            0 => "holds no datapoint".to_owned(),
            all => format!("none of its {all} datapoints passes the filter"),
        };
        exit::say(format_args!(
            "{}: {why}; the page shows none",
            path.display()
        ));
    }
    Ok(input)
}

/// Where a page goes. An older page is replaced; anything else is somebody's file.
pub fn page_file(path: &Path, naming: Naming) -> anyhow::Result<OutputFile> {
    let output = OutputFile::find(path, Existing::IsReplaced, naming)?;
    let Some(file) = output.replaced()? else {
        return Ok(output);
    };
    let mut start = Vec::new();
    file.take(4096)
        .read_to_end(&mut start)
        .with_context(|| path.display().to_string())?;
    if start.is_empty() || is_page(&String::from_utf8_lossy(&start)) {
        return Ok(output);
    }
    Err(Failure::usage(format!(
        "{}: exists and is not a page of reveille; choose another file with --out",
        path.display()
    )))
}

fn write(output: &OutputFile, html: &str) -> anyhow::Result<()> {
    write_page(output, html)?;
    if !output.is_standard_output() {
        writeln!(terminal::data(), "{}", output.path().display())?;
    }
    Ok(())
}

/// Adds the fact where a page is that was written beside what is printed.
pub fn name_page(page: Option<&OutputFile>, sheet: &mut Sheet<'_>) {
    if let Some(page) = page {
        sheet.fact("Page", page.path().display().to_string());
    }
}

pub fn write_page(output: &OutputFile, html: &str) -> anyhow::Result<()> {
    if output.is_standard_output() {
        let mut out = terminal::data();
        out.write_all(html.as_bytes())?;
        return Ok(out.flush()?);
    }
    output.write(|file| {
        let written = file.write_all(html.as_bytes());
        written.with_context(|| output.path().display().to_string())
    })
}
