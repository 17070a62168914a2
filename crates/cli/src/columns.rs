//! The reference of columns, from the one definition of each.

use std::fmt::Write as _;

use reveille_advise::show as advise;
use reveille_anticipate::bench;
use reveille_govern::show as govern;
use reveille_meter::show as meter;
use reveille_model::show as model;
use reveille_power::{self as power, cpus};
use reveille_quiet as quiet;
use reveille_results::show as measure;
use reveille_resume::{analysis, show};
use reveille_show::sheet::Heading;
use reveille_trial::result as trial;
use reveille_watch::states::show as states;
use reveille_watch::{cost, path};

/// The columns of each list in a command's JSON.
type Tables = Vec<(&'static str, Vec<Heading>)>;

/// Every command that prints tables, and the file that it keeps or prints.
fn commands() -> Vec<(&'static str, &'static str, Tables)> {
    vec![
        ("advise", "advise --json", advise::reference()),
        (
            "advise --table",
            "advise --table --json",
            advise::table_reference(),
        ),
        ("hold", "hold --json", advise::hold_reference()),
        ("limit", "limit --json", advise::limit_reference()),
        ("measure", "result.json", measure::reference()),
        ("states", "states --json", states::reference()),
        ("cost", cost::FILE, cost::show::reference()),
        ("path", path::FILE, path::show::reference()),
        ("power meters", "power meters --json", meter::reference()),
        ("power cpus", cpus::FILE, cpus::show::reference()),
        (
            "power states",
            power::states::FILE,
            power::states::show::reference(),
        ),
        #[cfg(feature = "bpf")]
        (
            "anticipate",
            "anticipate --json",
            reveille_anticipate::live::show::reference(),
        ),
        (
            "anticipate bench",
            bench::result::FILE,
            bench::show::reference(),
        ),
        (
            "govern check",
            "govern check --json",
            govern::check_reference(),
        ),
        (
            "govern status",
            "govern status --json",
            govern::status_reference(),
        ),
        (
            "quiet find",
            quiet::find::FILE,
            quiet::find::show::reference(),
        ),
        ("stage", "stage --json", reveille_stage::show::reference()),
        (
            "stage bench",
            reveille_stage::bench::result::FILE,
            reveille_stage::bench::show::reference(),
        ),
        ("trial", trial::FILE, reveille_trial::show::reference()),
        ("resume analyze", analysis::FILE, show::reference()),
        ("model run", "model run --json", model::run_reference()),
        (
            "model sweep",
            "model sweep --json",
            model::sweep_reference(),
        ),
        (
            "model simulate",
            "model simulate --json",
            model::simulate_reference(),
        ),
    ]
}

/// The page, in Markdown.
pub fn page() -> String {
    let mut page = String::from(
        "# Columns\n\nWhat the columns of tables mean. A terminal shows those in *italics* with `--all` \
         only; pages and `--markdown` show all. The key is the field in JSON, in the unit given here; a \
         field that is unknown is `null`, and its cell is a dash. `docs/generate` writes this page from \
         the program.\n",
    );
    for (command, file, tables) in commands() {
        // Writing to a String cannot fail.
        let _ = write!(page, "\n## {command}\n");
        for (list, headings) in tables {
            let _ = write!(
                page,
                "\n`{list}` of `{file}`:\n\n| column | key | unit | origin | meaning |\n\
                 | --- | --- | --- | --- | --- |\n"
            );
            for heading in headings {
                let name = match heading.detail {
                    true => format!("*{}*", heading.name),
                    false => heading.name.to_string(),
                };
                let _ = writeln!(
                    page,
                    "| {name} | `{}` | {} | {} | {} |",
                    heading.key,
                    heading.unit,
                    heading.origin.map_or("", |origin| origin.word()),
                    heading.about
                );
            }
        }
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_column_has_its_own_meaning_and_key() {
        for (command, _, tables) in commands() {
            for (list, headings) in tables {
                let mut keys: Vec<_> = headings.iter().map(|heading| heading.key).collect();
                keys.sort_unstable();
                keys.dedup();
                assert_eq!(keys.len(), headings.len(), "{command}, {list}");
                for heading in headings {
                    let (key, about) = (heading.key, heading.about);
                    assert!(
                        !about.is_empty() && !about.ends_with('.'),
                        "{command}: {key}"
                    );
                    assert!(page().contains(&format!("`{key}`")) && page().contains(about));
                }
            }
        }
    }
}
