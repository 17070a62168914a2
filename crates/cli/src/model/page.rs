//! Where the page of a model goes.

use std::path::Path;

use reveille_results::output::{Naming, OutputFile};
use reveille_show::sheet::Sheet;
use reveille_show::web;

use crate::exit::Failure;
use crate::page::{page_file, write_page};

/// Whether the page goes to standard output, where then nothing else may.
///
/// # Errors
/// Where `other`, a flag, is to write there too.
pub fn alone(out: Option<&Path>, other: Option<&str>) -> anyhow::Result<bool> {
    match (out == Some(Path::new("-")), other) {
        (true, Some(other)) => Err(Failure::usage(format!(
            "--out - and {other} both write to standard output; name a file with --out"
        ))),
        (alone, _) => Ok(alone),
    }
}

/// Writes a sheet as a page, if one was asked for.
pub fn write(
    out: Option<&Path>,
    mut sheet: Sheet<'_>,
    title: Option<&str>,
) -> anyhow::Result<Option<OutputFile>> {
    let Some(out) = out else {
        return Ok(None);
    };
    if let Some(title) = title {
        sheet.title = title.to_owned();
    }
    let output = page_file(out, Naming::ByUser)?;
    write_page(&output, &web::page(&sheet))?;
    Ok(Some(output))
}
