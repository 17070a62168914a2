//! Every kind of page in a browser: on a screen, on a phone, in the dark and on paper.

mod browser;
#[path = "../../../results/tests/sample/mod.rs"]
mod sample;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::made_up;
use crate::suspended;
use browser::Browser;
use reveille_results::Loaded;
use reveille_results::show::{self, Input, Views};
use reveille_show::web;
use serde_json::{Value, json};

const COST: &str = include_str!("cost.json");
const PATH: &str = include_str!("path.json");
const TRIAL: &str = include_str!("trial.json");
const BENCH: &str = include_str!("bench.json");
const LOOK: &str = include_str!("look.js");
const KEYS: &str = include_str!("keys.js");
/// An A4 page without its margins of 14 mm, in px of 1/96 inch.
const PAPER: (u32, u32) = (687, 1016);
const SIZES: [(u32, u32); 2] = [(1300, 1600), (420, 1600)];

/// The pages of a folder.
struct Pages<'a>(&'a Path);

impl Pages<'_> {
    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn reveille(&self, arguments: &[&str]) -> Vec<u8> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_reveille"));
        let ended = command
            .args(arguments)
            .current_dir(self.0)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&ended.stderr);
        assert!(ended.status.success(), "{arguments:?}: {said}");
        ended.stdout
    }

    /// The page of a file that a command keeps.
    fn kept(&self, name: &str, text: impl AsRef<[u8]>) {
        let json = format!("{name}.json");
        fs::write(self.file(&json), text).unwrap();
        self.reveille(&["report", &json, "-o", &format!("{name}.html")]);
    }

    fn results(&self, name: &str, results: impl IntoIterator<Item = Loaded>) {
        let inputs: Result<Vec<_>, _> = results.into_iter().map(Input::new).collect();
        let inputs = inputs.unwrap();
        let views = Views::of(&inputs).unwrap();
        let page = web::page(&show::sheet(&views, None));
        fs::write(self.file(&format!("{name}.html")), page).unwrap();
    }

    fn all(&self) {
        self.results("result", [sample::server("rack7-node2", 10_000, 1, 1.0)]);
        let machines = [
            ("before", 1.0),
            ("after the firmware", 0.92),
            ("a third machine", 1.3),
        ];
        let machines = machines.map(|(name, slow)| sample::server(name, 10_000, 2, slow));
        self.results("results", machines);
        let single = self.file("single");
        made_up::result_of(&single, &[(3, "C6", 140, 1), (1, "C1", 3, 12)]);
        self.reveille(&["report", "single/made-up", "-o", "few.html"]);
        self.kept("cost", COST);
        self.kept("path", PATH);
        self.kept("trial", TRIAL);
        self.kept("bench", BENCH);
        self.kept("bench-of-one-gap", one_gap().to_string());
        fs::write(self.file("laptop.txt"), suspended::dmesg(3)).unwrap();
        let real = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../resume/tests/logs/6.12-dmesg.txt"
        );
        let machine = self.reveille(&["resume", "analyze", "--json", "laptop.txt"]);
        self.kept("resume", machine);
        let machines = self.reveille(&["resume", "analyze", "--json", "laptop.txt", real]);
        self.kept("resume-of-two", machines);
        self.reveille(&["model", "sweep", "--out", "sweep.html"]);
        let parameters = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/example/model.toml");
        self.reveille(&[
            "model",
            "sweep",
            "--params",
            parameters,
            "--out",
            "sweep-of-file.html",
        ]);
        self.reveille(&["model", "from", "resume.json", "--out", "from.html"]);
    }
}

/// The benchmark with its third idle time only.
fn one_gap() -> Value {
    let mut bench: Value = serde_json::from_str(BENCH).unwrap();
    bench["points"] = json!([bench["points"][2]]);
    for list in ["rows", "gains", "turns"] {
        let rows = bench[list].as_array_mut().unwrap();
        rows.retain(|row| row["point"] == 2);
        rows.iter_mut().for_each(|row| row["point"] = json!(0));
    }
    bench
}

/// What is wrong with a page, with where it is seen.
fn wrong(browser: &mut Browser, file: &Path) -> Result<Vec<String>, String> {
    let mut wrong = Vec::new();
    let mut add = |said: Value, seen: String| {
        let said = said.as_array().into_iter().flatten();
        wrong.extend(said.map(|one| format!("{seen}: {}", one.as_str().unwrap_or_default())));
    };
    for size in SIZES {
        for (dark, scheme) in [(false, "light"), (true, "dark")] {
            browser.open(file, size, "screen", dark)?;
            add(
                browser.evaluate(&format!("({LOOK})(false)"))?,
                format!("{} px, {scheme}", size.0),
            );
        }
    }
    add(browser.evaluate(&format!("({KEYS})()"))?, "keyboard".into());
    browser.open(file, PAPER, "print", false)?;
    add(
        browser.evaluate(&format!("({LOOK})(true)"))?,
        "paper".into(),
    );
    let pdf = browser.ask("Page.printToPDF", json!({"preferCSSPageSize": true}))?;
    if !pdf["data"]
        .as_str()
        .is_some_and(|data| data.starts_with("JVBERi0"))
    {
        wrong.push("printing makes no PDF".into());
    }
    Ok(wrong)
}

#[test]
fn pages_fit_their_window_and_paper_and_their_labels_are_legible() {
    let folder = tempfile::tempdir().unwrap();
    // A folder to leave them in, for looking at.
    let kept = std::env::var_os("PAGES").map(PathBuf::from);
    let folder = kept.as_deref().unwrap_or(folder.path());
    Pages(folder).all();
    let profile = tempfile::tempdir().unwrap();
    let mut browser = match Browser::start(profile.path()) {
        Ok(browser) => browser,
        Err(why) => {
            println!(
                "skipped: pages_fit_their_window_and_paper_and_their_labels_are_legible: {why}"
            );
            return;
        }
    };
    let mut all = Vec::new();
    let files = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> = files
        .filter(|file| file.extension().is_some_and(|end| end == "html"))
        .collect();
    files.sort();
    assert_eq!(files.len(), 13);
    for file in files {
        let name = file.file_stem().unwrap().to_string_lossy().into_owned();
        // A browser that fails once would keep every other page waiting.
        let wrong = wrong(&mut browser, &file).unwrap_or_else(|why| panic!("{name}: {why}"));
        all.extend(wrong.into_iter().map(|one| format!("{name}, {one}")));
    }
    assert!(all.is_empty(), "{}", all.join("\n"));
}
