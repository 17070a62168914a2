//! What people mistype: each mistake gets one line (below it only what points into an expression) with what is
//! wrong, where, and what to do, and the exit code of its kind.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::made_up;
use crate::program::{reveille, run};
use nix::sys::stat::Mode;
use nix::unistd::{Uid, mkfifo};
use reveille_snapshot::snapshot;

/// A command line and its exit code. `res` is a result of `measure`, `cost.json` of
/// `cost`, `cut.json` the beginning of one, `x.json` other JSON; `text.txt`, `bin` and `nothing` are no
/// results; `empty` is a folder without files, `nope` does not exist.
const MISTAKES: &[(&str, i32)] = &[
    ("mesure", 2),
    ("measure --cpu 99", 2),
    ("measure --cpu x", 2),
    ("measure --cpu 0-1", 2),
    ("measure --duration 5", 2),
    ("measure --duration 0s", 2),
    ("measure --duration 18446744073709551615s", 2),
    ("top --interval 11years", 2),
    ("trial --ping ::1 --settle 11years", 2),
    ("measure --duration 5parsecs", 2),
    ("measure --datapoints 0", 2),
    ("measure --datapoints many", 2),
    ("measure --datapoints 1.5", 2),
    ("measure --state C99", 2),
    ("measure --state", 2),
    ("measure --each-state --state C1", 2),
    ("measure --source radio", 2),
    ("measure --distance 8ms..100us", 2),
    ("measure --distance 5", 2),
    ("measure --distance 1ns", 2),
    ("measure --protocol swep", 2),
    ("measure --sweep-factor 2", 2),
    ("measure --protocol sweep --sweep-factor 0.5", 2),
    ("measure --out text.txt", 2),
    ("measure --out res", 2),
    ("measure --probe hardware", 2),
    ("measure extra", 2),
    ("measure --seed -1", 2),
    ("states --cpu 77", 2),
    ("states --cpu 3-1", 2),
    ("states --cpu all", 2),
    ("states --root nope", 2),
    ("states --root empty", 2),
    ("states --root text.txt", 2),
    ("report", 2),
    ("report nope", 2),
    ("report empty", 2),
    ("report text.txt", 1),
    ("report bin", 1),
    ("report nothing", 1),
    ("report a.csv", 1),
    ("report x.json", 1),
    ("report cut.json", 1),
    ("report res --filter wake", 2),
    ("report res --filter 'wake_latency_ns >'", 2),
    ("report res -o empty", 2),
    ("report res -o nope/page.html", 2),
    ("report res -o text.txt", 2),
    ("report res cost.json", 2),
    ("show nope", 2),
    ("show empty", 2),
    ("show text.txt", 1),
    ("show cut.json", 1),
    ("show fifo/cost.json", 1),
    ("advise res --budget 50us --form hold --all", 2),
    ("show res --page --json", 2),
    ("show res cost.json", 2),
    ("export res", 2),
    ("export nope --csv", 2),
    ("export text.txt --csv", 1),
    ("export res --csv -o text.txt", 2),
    ("export res --csv -o nope/x.csv", 2),
    ("advise res", 2),
    ("advise res --budget 50", 2),
    ("advise res --budget -5us", 2),
    ("advise nope --budget 50us", 2),
    ("advise cost.json --budget 50us", 1),
    ("advise res --budget 50us --percentile 101", 2),
    ("advise res --budget 50us --confidence 0", 2),
    ("advise res --budget 50us --form grub", 2),
    ("advise res --budget 50us --table", 2),
    ("advise res --budget 50us --root nope", 2),
    ("hold", 2),
    ("hold --latency 5", 2),
    ("hold --latency -1us", 2),
    ("hold --latency 500ns", 2),
    ("hold --latency soon", 2),
    ("hold --latency 5us --cpu 99", 2),
    ("hold --latency 5us ls", 2),
    ("hold --latency 5us --result nope", 2),
    ("limit", 2),
    ("limit --deepest C99", 2),
    ("limit --disable ''", 2),
    ("limit --deepest POLL --disable POLL", 2),
    ("limit --disable POLL -- nosuchprogram", 2),
    ("cost", 2),
    ("cost ls", 2),
    ("cost --pid 0", 2),
    ("cost --pid 999999999", 2),
    ("cost --pid x", 2),
    ("cost --cgroup nosuch", 2),
    ("cost --cgroup /sys/fs/cgroup/nosuch", 2),
    ("cost --all", 2),
    ("cost --stacks --all-tasks", 2),
    ("cost --all-tasks --duration 1", 2),
    ("cost --all-tasks --out text.txt --duration 1s", 2),
    ("cost -- nosuchprogram", 2),
    ("path", 2),
    ("path --ping --nic lo", 2),
    ("path --nic nosuch", 2),
    ("path --nic lo --port 0", 2),
    ("path --nic lo --port http3x", 2),
    ("path --ping --count 0", 2),
    ("path --ping --port 53", 2),
    ("trial", 2),
    ("trial --ping", 2),
    ("trial --rounds 0 -- true", 2),
    ("trial --setting nonsense -- true", 2),
    ("trial --settings nosuch -- true", 2),
    ("trial ls", 2),
    ("trial -- nosuchprogram", 2),
    ("top --interval 1ms", 2),
    ("top --interval 5", 2),
    ("top --sort colour", 2),
    ("top --json --csv", 2),
    ("anticipate --budget 5", 2),
    ("govern --config nope.toml", 2),
    ("govern check x.json", 1),
    ("govern status --socket nope", 3),
    ("govern explain --cpu x", 2),
    ("anticipate bench --dir nope", 2),
    ("anticipate bench --rounds 0", 2),
    ("anticipate bench --file-size 5", 2),
    ("anticipate bench --cpu 99", 2),
    ("model run --utilisation 2", 2),
    ("model run --utilisation -1", 2),
    ("model run --utilisation 120%", 2),
    ("model run --utilisation x", 2),
    ("model run --model nope.toml", 2),
    ("model sweep --out nope/x.html", 2),
    ("model from nope", 2),
    ("model from x.json", 1),
    ("model run --power x.json", 1),
    ("quiet run --cgroup / --json -- true", 2),
    ("model from text.txt", 1),
    ("model from empty", 2),
    ("model run --params nope.toml", 2),
    ("model run --params empty", 2),
    ("model run --params bin", 1),
    ("model sweep --params text.txt", 1),
    ("model run --params zero.toml", 1),
    ("model simulate --trace text.txt", 1),
    ("model simulate --trace nope", 2),
    ("model simulate --trace bin", 1),
    ("model simulate --requests 0", 2),
    ("doctor extra", 2),
    ("resume analyze", 2),
    ("resume analyze nope", 2),
    ("resume analyze empty", 2),
    ("resume analyze text.txt", 1),
    ("resume analyze bin", 1),
    ("resume analyze nothing", 1),
    ("resume analyze cost.json", 1),
    ("resume analyze text.txt --cycle 0", 2),
    ("resume analyze text.txt --set ata1", 2),
    ("resume analyze text.txt --set ata1=5", 2),
    ("resume analyze text.txt --cpus 0", 2),
    ("resume analyze text.txt --power nope", 2),
    ("resume capture --mode deeep", 2),
    ("resume capture --repeat 0", 2),
    ("resume capture --wake-after 5", 2),
    ("restore extra", 2),
    ("manual", 2),
    ("manual text.txt", 2),
    ("--json", 2),
    ("--version=3", 2),
    ("advise empty --budget 50us", 2),
    ("export empty --csv", 2),
    ("advise cost.json --budget 50us", 1),
    ("export cost.json --csv", 1),
    ("report res --filter 'nosuch > 3'", 2),
    ("trial --ping not..a..host", 2),
    ("trial --echo nosuch..host", 2),
];

/// As a shell: words with spaces are between single quotes.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    for (place, part) in line.split('\'').enumerate() {
        match place % 2 {
            1 => words.push(part.to_owned()),
            _ => words.extend(part.split_whitespace().map(str::to_owned)),
        }
    }
    words
}

fn files(folder: &Path) {
    let at = |name: &str| folder.join(name);
    fs::create_dir(at("empty")).unwrap();
    let result = made_up::result_of(folder, &[(1, "C1", 3, 100), (2, "C6", 90, 100)]);
    fs::rename(result, at("res")).unwrap();
    let bin: Vec<u8> = (0..300)
        .map(|place: u32| (place * 77 % 251) as u8)
        .collect();
    let example =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/example/results/cost.json");
    fs::copy(example, at("cost.json")).unwrap();
    fs::create_dir(at("fifo")).unwrap();
    mkfifo(&at("fifo/cost.json"), Mode::S_IRWXU).unwrap();
    for (name, content) in [
        ("text.txt", &b"hello\n"[..]),
        ("bin", &bin),
        ("nothing", b""),
        ("a.csv", b"a,b,c\n"),
        ("x.json", b"{\"a\":1}\n"),
        ("zero.toml", b"[arrivals]\nutilisation = 0.0\n"),
        ("cut.json", b"{\"tool\":\"reveille\",\"forbidding\":\n"),
    ] {
        fs::write(at(name), content).unwrap();
    }
}

/// The message up to what this machine has, and to the words of its resolver.
fn on_any_machine(message: &str) -> &str {
    let own = [
        "this machine has",
        "no such idle state",
        "no /sys/fs/cgroup",
        "unknown host",
    ];
    let ends = own
        .iter()
        .filter_map(|own| Some(message.find(own)? + own.len()));
    &message[..ends.min().unwrap_or(message.len())]
}

/// The exit codes that the help of this line's command lists.
fn listed_codes(line: &str) -> Vec<i32> {
    let mut words = line.split_whitespace();
    let (first, second) = (words.next().unwrap(), words.next());
    let command: Vec<&str> = match (first, second) {
        ("mesure", _) => vec![],
        (flag, _) if flag.starts_with('-') => vec![],
        ("model" | "resume" | "quiet", Some(below)) | ("anticipate", Some(below @ "bench")) => {
            vec![first, below]
        }
        _ => vec![first],
    };
    let help = reveille().args(command).arg("--help").output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    let (_, codes) = help.split_once("Exit codes:\n").expect("a list");
    let codes = codes
        .lines()
        .map_while(|line| line.split_whitespace().next());
    codes.filter_map(|code| code.parse().ok()).collect()
}

#[test]
fn a_hundred_mistakes_get_one_line_and_the_exit_code_of_their_kind() {
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    files(folder.path());
    let (mut wrong, mut said) = (Vec::new(), Vec::new());
    for (line, code) in MISTAKES {
        let mut command = reveille();
        let ended = run(command.args(words(line)).current_dir(folder.path()));
        let lines: Vec<&str> = ended.stderr.lines().collect();
        let without_states = ended.stderr.contains("no idle states to limit");
        if ended.code == 3 && (!Uid::effective().is_root() || without_states) {
            println!("skipped: {line}: {}", ended.stderr);
            continue;
        }
        let first = lines.first().copied().unwrap_or_default();
        let is_one_line = lines.len() == 1 || first.starts_with("reveille: filter: ");
        if ended.code != *code || !is_one_line {
            wrong.push(format!("{line}: {}: {}", ended.code, ended.stderr));
        }
        if !listed_codes(line).contains(code) {
            wrong.push(format!("{line}: {code} is not in its help"));
        }
        said.push((line, on_any_machine(first).to_owned()));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    // Of another user, and without cpuidle, some are skipped.
    if said.len() == MISTAKES.len() {
        snapshot!("mistakes", said);
    }
    assert!(MISTAKES.len() >= 100);
}

#[test]
fn an_argument_that_is_not_utf_8_is_an_unexpected_one_as_any_other() {
    let ended = run(reveille().arg("cost").arg(OsStr::from_bytes(b"\xff")));
    assert_eq!(ended.code, 2, "{}", ended.stderr);
    let words = "unexpected argument '\u{fffd}' found; a command to run follows --";
    assert!(ended.stderr.contains(words), "{}", ended.stderr);
}
