//! Pages that open in a browser: where they go, and how they are written.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use reveille_results::ResultFolder;
use reveille_results::output::{Existing, Naming, OutputFile};
use reveille_results::show::{self, Input, Views};
use reveille_show::page::is_page;
use reveille_show::sheet::Sheet;
use reveille_show::{terminal, web};

use crate::exit::Failure;

/// The page's name where none is given.
pub const PAGE: &str = "report.html";

/// The page of the result that has just been measured, in its folder.
pub fn beside(result: &ResultFolder) -> anyhow::Result<PathBuf> {
    let input = Input::new(result.read_back(None)?);
    let inputs = [input.with_context(|| result.path().display().to_string())?];
    let views = Views::of(&inputs)?;
    let html = web::page(&show::sheet(&views, None));
    let folder = result.folder();
    Ok(folder.write(PAGE, Existing::Stays, html.as_bytes())?)
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

/// Adds a fact with the path of the page.
pub fn name_page(page: Option<&OutputFile>, sheet: &mut Sheet<'_>) {
    if let Some(page) = page {
        sheet.fact("Page", page.path().display().to_string());
    }
}

/// Writes a page where [`page_file`] has found it to go.
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
