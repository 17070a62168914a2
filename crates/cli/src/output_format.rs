//! How a command prints what it found: the same flags for every command.

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use reveille_results::Result;
use reveille_show::sheet::Sheet;
use reveille_show::text::{self, Detail};
use reveille_show::{markdown, quantity, terminal};
use serde::Serialize;

use crate::exit;

/// In which form a result is printed.
#[derive(clap::Args)]
pub struct Printed {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Print Markdown, to paste into an issue
    #[arg(long, conflicts_with = "json")]
    pub markdown: bool,
    /// Print all rows and columns of the tables
    #[arg(long, alias = "full", conflicts_with_all = ["json", "markdown"])]
    pub all: bool,
}

/// Where a sheet for people goes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum To {
    /// Standard output.
    Output,
    /// Standard error: standard output is another program's.
    Error,
}

impl Printed {
    /// The flag whose output is data alone.
    pub fn data(&self) -> Option<&'static str> {
        let markdown = self.markdown.then_some("--markdown");
        self.json.then_some("--json").or(markdown)
    }

    /// Prints the result. JSON and Markdown go to standard output in every case.
    ///
    /// # Errors
    /// Of the output.
    pub fn print(&self, result: &impl Serialize, sheet: &Sheet<'_>, to: To) -> io::Result<()> {
        if self.json {
            let out = &mut BufWriter::new(terminal::data());
            serde_json::to_writer_pretty(&mut *out, result)?;
            out.write_all(b"\n")?;
            return out.flush();
        }
        if self.markdown {
            let out = &mut terminal::data();
            out.write_all(markdown::markdown(sheet).as_bytes())?;
            return out.flush();
        }
        let detail = match self.all {
            true => Detail::All,
            false => Detail::Short,
        };
        match to {
            To::Output => {
                let out = &mut terminal::stdout();
                text::write(sheet, detail, out)?;
                out.flush()
            }
            To::Error => text::write(sheet, detail, &mut terminal::stderr()),
        }
    }

    /// Prints the result with the folder of the file that it was kept in, if any, and the command that makes
    /// a page of it. It is printed even if it could not be kept, and may go unread.
    ///
    /// # Errors
    /// Those of keeping it, and of the output.
    pub fn print_kept(
        &self,
        result: &impl Serialize,
        mut sheet: Sheet<'_>,
        kept: Result<Option<PathBuf>>,
        to: To,
    ) -> anyhow::Result<()> {
        let file = kept.as_ref().ok().and_then(Option::as_deref);
        if let Some(folder) = file.and_then(Path::parent) {
            let path = folder.display().to_string();
            let command = format!("reveille report {}", quantity::quoted(&path));
            sheet.fact("Kept in", format!("{path}; `{command}` makes a page"));
        }
        let printed = self.print(result, &sheet, to);
        kept?;
        Ok(exit::reader_may_leave(printed)?)
    }
}
