//! Writes pages on made-up results, to look at: `cargo run --example made_up_server -- FOLDER [ROWS]`.

#[path = "../tests/sample/mod.rs"]
mod sample;

use std::path::PathBuf;
use std::time::Instant;

use reveille_results::description::Probe;
use reveille_results::show::{self, Input, Views};
use reveille_show::web;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let folder = PathBuf::from(args.next().ok_or("usage: made_up_server FOLDER [ROWS]")?);
    let rows = args.next().map_or(Ok(40_000), |rows| rows.parse())?;
    std::fs::create_dir_all(&folder)?;

    let mut user = sample::server("user", 3_000, 3, 1.0);
    user.description.probe = Probe::User;
    user.columns
        .columns
        .retain(|column| column.name != "silent_time_ns" && !column.name.ends_with("_percent"));
    let pages = [
        (
            "one.html",
            vec![sample::server("rack7-node2", rows, 1, 1.0)],
        ),
        (
            "two.html",
            vec![
                sample::server("before", rows, 1, 1.0),
                sample::server("after the firmware", rows, 2, 0.92),
            ],
        ),
        (
            "three.html",
            vec![
                sample::server("before", rows, 1, 1.0),
                sample::server("after the firmware", rows, 2, 0.92),
                sample::server("again", rows / 10, 3, 0.92),
            ],
        ),
        ("few.html", vec![sample::server("few", 7, 1, 1.0)]),
        ("user.html", vec![user.clone()]),
        (
            "probes.html",
            vec![sample::server("bpf", 3_000, 1, 1.0), user],
        ),
    ];
    for (name, results) in pages {
        let inputs = results
            .into_iter()
            .map(Input::new)
            .collect::<Result<Vec<_>, _>>()?;
        let start = Instant::now();
        let views = Views::of(&inputs)?;
        let html = web::page(&show::sheet(&views, None));
        let (took, path) = (start.elapsed(), folder.join(name));
        println!(
            "{}: {} KiB, drawn in {} ms",
            path.display(),
            html.len() / 1024,
            took.as_millis()
        );
        std::fs::write(path, html)?;
    }
    Ok(())
}
