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

/// A command line, its exit code, and words of its message. `res` is a result of `measure`, `cost.json` of
/// `cost`, `cut.json` the beginning of one, `x.json` other JSON; `text.txt`, `bin` and `nothing` are no
/// results; `empty` is a folder without files, `nope` does not exist.
const MISTAKES: &[(&str, i32, &str)] = &[
    (
        "mesure",
        2,
        "unrecognized subcommand 'mesure'; tip: some similar subcommands exist: 'restore', 'resume', 'measure'",
    ),
    ("measure --cpu 99", 2, "CPU 99: no such CPU"),
    (
        "measure --cpu x",
        2,
        "invalid value 'x' for '--cpu <N>': not a CPU number, such as 3",
    ),
    (
        "measure --cpu 0-1",
        2,
        "invalid value '0-1' for '--cpu <N>': not a CPU number, such as 3",
    ),
    (
        "measure --duration 5",
        2,
        "invalid value '5' for '--duration <TIME>': no unit; write 5s",
    ),
    (
        "measure --duration 0s",
        2,
        "invalid value '0s' for '--duration <TIME>': must be above zero",
    ),
    (
        "measure --duration 18446744073709551615s",
        2,
        "invalid value '18446744073709551615s' for '--duration <TIME>': too long; maximum 10years",
    ),
    (
        "top --interval 11years",
        2,
        "invalid value '11years' for '--interval <TIME>': too long; maximum 10years",
    ),
    (
        "trial --ping ::1 --settle 11years",
        2,
        "invalid value '11years' for '--settle <TIME>': too long; maximum 10years",
    ),
    (
        "measure --duration 5parsecs",
        2,
        "invalid value '5parsecs' for '--duration <TIME>': \"parsecs\" is not a unit of time; write ns, us, ms, s, min",
    ),
    (
        "measure --datapoints 0",
        2,
        "invalid value '0' for '--datapoints <N>': must be 1 or more",
    ),
    (
        "measure --datapoints many",
        2,
        "invalid value 'many' for '--datapoints <N>': not a count such as 500, 10k or 1M",
    ),
    (
        "measure --datapoints 1.5",
        2,
        "invalid value '1.5' for '--datapoints <N>': not a count such as 500, 10k or 1M",
    ),
    (
        "measure --state C99",
        2,
        "state \"C99\": no such idle state",
    ),
    (
        "measure --state",
        2,
        "a value is required for '--state <NAME>' but none was supplied",
    ),
    (
        "measure --each-state --state C1",
        2,
        "the argument '--each-state' cannot be used with '--state <NAME>'",
    ),
    (
        "measure --source radio",
        2,
        "invalid value 'radio' for '--source <SOURCE>'; [possible values: timer, remote, hpet, nic:IF, reply:IF,PEER]",
    ),
    (
        "measure --distance 8ms..100us",
        2,
        "invalid value '8ms..100us' for '--distance <MIN..MAX>': invalid launch distance: the minimum, 8 ms, is above",
    ),
    (
        "measure --distance 5",
        2,
        "invalid value '5' for '--distance <MIN..MAX>': no unit; write 5us",
    ),
    (
        "measure --distance 1ns",
        2,
        "invalid launch distance 0.001 µs: valid are 5 µs to 1 s",
    ),
    (
        "measure --protocol swep",
        2,
        "invalid value 'swep' for '--protocol <PROTOCOL>'; [possible values: random, sweep]; tip: a similar value",
    ),
    (
        "measure --sweep-factor 2",
        2,
        "--sweep-datapoints and --sweep-factor are for --protocol sweep; add that",
    ),
    (
        "measure --protocol sweep --sweep-factor 0.5",
        2,
        "invalid sweep: a factor of 0.5 between 300 µs and 8000 µs makes no sweep; it must be above 1 and make at most",
    ),
    (
        "measure --out text.txt",
        2,
        "text.txt: is not a folder; choose another place",
    ),
    (
        "measure --out res",
        2,
        "res: holds a result already; choose another folder with --out",
    ),
    (
        "measure --probe hardware",
        2,
        "invalid value 'hardware' for '--probe <PROBE>'; [possible values: bpf, user]",
    ),
    ("measure extra", 2, "unexpected argument 'extra' found"),
    (
        "measure --seed -1",
        2,
        "invalid value '-1' for '--seed <N>': not a whole number",
    ),
    ("states --cpu 77", 2, "CPU 77: no such CPU"),
    (
        "states --cpu 3-1",
        2,
        "invalid value '3-1' for '--cpu <LIST>': not a list of CPUs, such as 0-3,8",
    ),
    (
        "states --cpu all",
        2,
        "invalid value 'all' for '--cpu <LIST>': not a list of CPUs, such as 0-3,8",
    ),
    (
        "states --root nope",
        2,
        "--root nope: not a folder; give a folder that holds sys/ and proc/",
    ),
    (
        "states --root empty",
        2,
        "--root empty: has no sys/ in it; give a folder that holds sys/ and proc/",
    ),
    (
        "states --root text.txt",
        2,
        "--root text.txt: not a folder; give a folder that holds sys/ and proc/",
    ),
    (
        "report",
        2,
        "the following required arguments were not provided: <RESULT>...",
    ),
    ("report nope", 2, "nope: No such file or directory"),
    (
        "report empty",
        2,
        "empty: no result; give a folder written by reveille or wult",
    ),
    (
        "report text.txt",
        1,
        "text.txt: line 1: expected a column WakeLatency (wult) or wake_latency_ns (reveille)",
    ),
    (
        "report bin",
        1,
        "bin: line 1: is not text; expected the names of columns",
    ),
    (
        "report nothing",
        1,
        "nothing: is empty; expected a line with the names of columns",
    ),
    (
        "report a.csv",
        1,
        "a.csv: line 1: expected a column WakeLatency (wult) or wake_latency_ns (reveille)",
    ),
    (
        "report x.json",
        1,
        "x.json: unknown JSON; give a file of `cost`, `path`, `trial`, `anticipate bench`, `power` or `resume analyze",
    ),
    (
        "report cut.json",
        1,
        "cut.json: is damaged JSON: EOF while parsing a value at line 2 column 0",
    ),
    (
        "report res --filter wake",
        2,
        "filter: there is no column wake; did you mean wake_latency_ns?",
    ),
    (
        "report res --filter 'wake_latency_ns >'",
        2,
        "filter: expected a column, a number, a text or (",
    ),
    (
        "report res -o empty",
        2,
        "empty: is a folder; choose another name",
    ),
    (
        "report res -o nope/page.html",
        2,
        "nope: No such file or directory",
    ),
    (
        "report res -o text.txt",
        2,
        "text.txt: exists and is not a page of reveille; choose another file with --out",
    ),
    (
        "report res cost.json",
        2,
        "cost.json: only results of `measure` can be combined or filtered",
    ),
    ("show nope", 2, "nope: No such file or directory"),
    (
        "show empty",
        2,
        "empty: no result; give a folder written by reveille or wult",
    ),
    (
        "show text.txt",
        1,
        "text.txt: line 1: expected a column WakeLatency (wult) or wake_latency_ns (reveille)",
    ),
    (
        "show cut.json",
        1,
        "cut.json: is damaged JSON: EOF while parsing a value at line 2 column 0",
    ),
    (
        "show fifo/cost.json",
        1,
        "fifo/cost.json: is neither a folder nor a regular file",
    ),
    (
        "advise res --budget 50us --form hold --all",
        2,
        "--form: a form is printed alone; --all, --json and --markdown are for the advice",
    ),
    (
        "show res --page --json",
        2,
        "the argument '--page' cannot be used with '--json'",
    ),
    (
        "show res cost.json",
        2,
        "cost.json: only results of `measure` can be combined or filtered",
    ),
    (
        "export res",
        2,
        "the following required arguments were not provided: --csv",
    ),
    ("export nope --csv", 2, "nope: No such file or directory"),
    (
        "export text.txt --csv",
        1,
        "text.txt: line 1: expected a column WakeLatency (wult) or wake_latency_ns (reveille)",
    ),
    (
        "export res --csv -o text.txt",
        2,
        "text.txt: is there already; choose another place",
    ),
    (
        "export res --csv -o nope/x.csv",
        2,
        "nope: No such file or directory",
    ),
    (
        "advise res",
        2,
        "the following required arguments were not provided: <--budget <TIME>|--table>",
    ),
    (
        "advise res --budget 50",
        2,
        "invalid value '50' for '--budget <TIME>': no unit; write 50us",
    ),
    (
        "advise res --budget -5us",
        2,
        "invalid value '-5us' for '--budget <TIME>': a latency cannot be negative; 0 is the tightest bound (no sleep",
    ),
    (
        "advise nope --budget 50us",
        2,
        "nope: No such file or directory",
    ),
    (
        "advise cost.json --budget 50us",
        1,
        "cost.json: is JSON, not CSV; `reveille show` prints other results",
    ),
    (
        "advise res --budget 50us --percentile 101",
        2,
        "invalid value '101' for '--percentile <PERCENT>': not a percentile above 50 and below 100, such as 99.9 (for",
    ),
    (
        "advise res --budget 50us --confidence 0",
        2,
        "invalid value '0' for '--confidence <PERCENT>': not a confidence above 50 and below 100 (per cent), such as 95",
    ),
    (
        "advise res --budget 50us --form grub",
        2,
        "invalid value 'grub' for '--form <FORM>'; [possible values: hold, limit, kernel, tuned, systemd, udev, all]",
    ),
    (
        "advise res --budget 50us --table",
        2,
        "the argument '--budget <TIME>' cannot be used with '--table'",
    ),
    (
        "advise res --budget 50us --root nope",
        2,
        "--root nope: not a folder; give a folder that holds sys/ and proc/",
    ),
    (
        "hold",
        2,
        "the following required arguments were not provided: --latency <TIME>",
    ),
    (
        "hold --latency 5",
        2,
        "invalid value '5' for '--latency <TIME>': no unit; write 5us",
    ),
    (
        "hold --latency -1us",
        2,
        "invalid value '-1us' for '--latency <TIME>': a latency cannot be negative; 0 is the tightest bound (no sleep",
    ),
    (
        "hold --latency 500ns",
        2,
        "invalid value '500ns' for '--latency <TIME>': a fraction of a microsecond; the kernel takes whole ones",
    ),
    (
        "hold --latency soon",
        2,
        "invalid value 'soon' for '--latency <TIME>': not a time such as 100us",
    ),
    ("hold --latency 5us --cpu 99", 2, "CPU 99: no such CPU"),
    (
        "hold --latency 5us ls",
        2,
        "unexpected argument 'ls' found; a command to run follows --: `reveille hold ... -- ls`",
    ),
    (
        "hold --latency 5us --result nope",
        2,
        "nope: No such file or directory",
    ),
    (
        "limit",
        2,
        "the following required arguments were not provided: <--deepest <NAME>|--disable <NAMES>>",
    ),
    (
        "limit --deepest C99",
        2,
        "state \"C99\": no such idle state",
    ),
    ("limit --disable ''", 2, "state \"\": no such idle state"),
    (
        "limit --deepest POLL --disable POLL",
        2,
        "the argument '--deepest <NAME>' cannot be used with '--disable <NAMES>'",
    ),
    (
        "limit --disable POLL -- nosuchprogram",
        2,
        "nosuchprogram: no such command in PATH",
    ),
    (
        "cost",
        2,
        "the following required arguments were not provided: <--pid <P>|--cgroup <G>|--all-tasks|COMMAND>",
    ),
    (
        "cost ls",
        2,
        "unexpected argument 'ls' found; a command to run follows --: `reveille cost ... -- ls`",
    ),
    ("cost --pid 0", 2, "--pid: no process 0; `ps -e` lists them"),
    (
        "cost --pid 999999999",
        2,
        "--pid: no process 999999999; `ps -e` lists them",
    ),
    (
        "cost --pid x",
        2,
        "invalid value 'x' for '--pid <P>': not a process ID; `ps -e` lists them",
    ),
    ("cost --cgroup nosuch", 2, "nosuch"),
    (
        "cost --cgroup /sys/fs/cgroup/nosuch",
        2,
        "--cgroup: no /sys/fs/cgroup/nosuch",
    ),
    (
        "cost --all",
        2,
        "the following required arguments were not provided: <--pid <P>|--cgroup <G>|--all-tasks|COMMAND>",
    ),
    (
        "cost --stacks --all-tasks",
        2,
        "the following required arguments were not provided: --out <DIR>",
    ),
    (
        "cost --all-tasks --duration 1",
        2,
        "invalid value '1' for '--duration <TIME>': no unit; write 1s",
    ),
    (
        "cost --all-tasks --out text.txt --duration 1s",
        2,
        "text.txt: is not a folder; choose another place",
    ),
    (
        "cost -- nosuchprogram",
        2,
        "nosuchprogram: no such command in PATH",
    ),
    (
        "path",
        2,
        "the following required arguments were not provided: <--ping|--nic <IF>>",
    ),
    (
        "path --ping --nic lo",
        2,
        "the argument '--ping' cannot be used with '--nic <IF>'",
    ),
    ("path --nic nosuch", 2, "--nic: no interface \"nosuch\""),
    (
        "path --nic lo --port 0",
        2,
        "invalid value '0' for '--port <PORT>': must be from 1 to 65535",
    ),
    (
        "path --nic lo --port http3x",
        2,
        "invalid value 'http3x' for '--port <PORT>': no such service in /etc/services; give the port number",
    ),
    (
        "path --ping --count 0",
        2,
        "invalid value '0' for '--count <N>': must be from 1 to 1000000",
    ),
    (
        "path --ping --port 53",
        2,
        "the argument '--ping' cannot be used with '--port <PORT>'",
    ),
    (
        "trial",
        2,
        "no workload: give --ping HOST, --echo HOST:PORT, or a command after `--`",
    ),
    (
        "trial --ping",
        2,
        "a value is required for '--ping <HOST>' but none was supplied",
    ),
    (
        "trial --rounds 0 -- true",
        2,
        "invalid value '0' for '--rounds <N>': must be from 1 to 200",
    ),
    (
        "trial --setting nonsense -- true",
        2,
        "invalid value 'nonsense' for '--setting <LINE>': nonsense: not a setting; write a line such as 'hold",
    ),
    (
        "trial --settings nosuch -- true",
        2,
        "--settings nosuch: unknown setting",
    ),
    (
        "trial ls",
        2,
        "unexpected argument 'ls' found; a command to run follows --: `reveille trial ... -- ls`",
    ),
    (
        "trial -- nosuchprogram",
        2,
        "nosuchprogram: no such command in PATH",
    ),
    (
        "top --interval 1ms",
        2,
        "invalid value '1ms' for '--interval <TIME>': too short; minimum 100ms",
    ),
    (
        "top --interval 5",
        2,
        "invalid value '5' for '--interval <TIME>': no unit; write 5s",
    ),
    ("top --sort colour", 2, "unexpected argument '--sort' found"),
    (
        "top --json --csv",
        2,
        "the argument '--json' cannot be used with '--csv'",
    ),
    (
        "anticipate --budget 5",
        2,
        "invalid value '5' for '--budget <SHARE>': no unit; write 5%",
    ),
    (
        "govern --config nope.toml",
        2,
        "nope.toml: No such file or directory",
    ),
    ("govern check x.json", 1, "x.json: line 1"),
    ("govern status --socket nope", 3, "nope: no service answers"),
    (
        "govern explain --cpu x",
        2,
        "invalid value 'x' for '--cpu <LIST>': not a list of CPUs, such as 0-3,8",
    ),
    ("anticipate bench --dir nope", 2, "nope: no such folder"),
    (
        "anticipate bench --rounds 0",
        2,
        "invalid value '0' for '--rounds <N>': must be from 1 to 200",
    ),
    (
        "anticipate bench --file-size 5",
        2,
        "--file-size 5 bytes: is less than one read of 4 KiB (--size)",
    ),
    (
        "anticipate bench --cpu 99",
        2,
        "CPU 99: no such CPU, it is offline, or this process may not use it",
    ),
    (
        "model run --utilisation 2",
        2,
        "the load is 2.000: more work arrives than can be done, and the queue grows without limit; it is stable below",
    ),
    (
        "model run --utilisation -1",
        2,
        "arrivals: utilisation: -1.0; give a number above 0",
    ),
    (
        "model run --utilisation 120%",
        2,
        "invalid value '120%' for '--utilisation <LOAD>': not a share from 0% to 100%",
    ),
    (
        "model run --utilisation x",
        2,
        "invalid value 'x' for '--utilisation <LOAD>': not a number, such as 0.3",
    ),
    (
        "model run --model nope.toml",
        2,
        "unexpected argument '--model' found",
    ),
    (
        "model sweep --out nope/x.html",
        2,
        "nope: No such file or directory",
    ),
    ("model from nope", 2, "nope: No such file or directory"),
    (
        "model from x.json",
        1,
        "x.json: is not an analysis; give what `reveille resume analyze --json` writes (missing field `format` at line",
    ),
    (
        "model from text.txt",
        1,
        "text.txt: is not an analysis; give what `reveille resume analyze --json` writes (expected value at line 1",
    ),
    ("model from empty", 2, "empty: Is a directory"),
    (
        "model run --params nope.toml",
        2,
        "nope.toml: No such file or directory",
    ),
    ("model run --params empty", 2, "empty: Is a directory"),
    ("model run --params bin", 1, "bin: it is not text"),
    ("model sweep --params text.txt", 1, "text.txt: line 1: "),
    (
        "model run --params zero.toml",
        1,
        "zero.toml: arrivals: utilisation: 0.0; give a number above 0",
    ),
    (
        "model simulate --trace text.txt",
        1,
        "text.txt: trace: there is no request in it",
    ),
    (
        "model simulate --trace nope",
        2,
        "nope: No such file or directory",
    ),
    ("model simulate --trace bin", 1, "bin: it is not text"),
    (
        "model simulate --requests 0",
        2,
        "invalid value '0' for '--requests <N>': must be 1 or more",
    ),
    ("doctor extra", 2, "unexpected argument 'extra' found"),
    (
        "resume analyze",
        2,
        "the following required arguments were not provided: <LOG>...",
    ),
    (
        "resume analyze nope",
        2,
        "nope: no such file; name a log, a folder of `resume capture`, or - for standard input",
    ),
    (
        "resume analyze empty",
        2,
        "empty: neither dmesg.txt nor trace.txt is in this folder; name a folder of `resume capture`, or a log",
    ),
    (
        "resume analyze text.txt",
        1,
        "text.txt: no suspend is in its 1 line; expected lines such as `PM: suspend entry (deep)` (dmesg, syslog,",
    ),
    (
        "resume analyze bin",
        1,
        "bin: it is not text; expected a kernel's log (dmesg, syslog, ftrace)",
    ),
    (
        "resume analyze nothing",
        1,
        "nothing: it is empty; expected a dmesg, a syslog or an ftrace text",
    ),
    (
        "resume analyze cost.json",
        1,
        "cost.json: is a result, not a log; use `reveille show cost.json`",
    ),
    (
        "resume analyze text.txt --cycle 0",
        2,
        "invalid value '0' for '--cycle <N>': must be 1 or more",
    ),
    (
        "resume analyze text.txt --set ata1",
        2,
        "invalid value 'ata1' for '--set <WHAT=TIME>': \"ata1\": no '='; give a device and its time, as in 'ata1=50ms'",
    ),
    (
        "resume analyze text.txt --set ata1=5",
        2,
        "invalid value 'ata1=5' for '--set <WHAT=TIME>': \"5\": no unit; write 5ms",
    ),
    (
        "resume analyze text.txt --cpus 0",
        2,
        "invalid value '0' for '--cpus <N>': \"0\" is not a number of CPUs; give 1 or more",
    ),
    (
        "resume analyze text.txt --power nope",
        2,
        "nope: No such file or directory",
    ),
    (
        "resume capture --mode deeep",
        2,
        "invalid value 'deeep' for '--mode <MODE>': a mode is mem, freeze or standby",
    ),
    (
        "resume capture --repeat 0",
        2,
        "invalid value '0' for '--repeat <N>': must be from 1 to 10000",
    ),
    (
        "resume capture --wake-after 5",
        2,
        "invalid value '5' for '--wake-after <TIME>': no unit; write 5s",
    ),
    ("restore extra", 2, "unexpected argument 'extra' found"),
    (
        "manual",
        2,
        "the following required arguments were not provided: <FOLDER>",
    ),
    (
        "manual text.txt",
        2,
        "text.txt: is not a folder; choose another place",
    ),
    ("--json", 2, "unexpected argument '--json' found"),
    (
        "--version=3",
        2,
        "unexpected value '3' for '--version' found; no more were expected",
    ),
    (
        "advise empty --budget 50us",
        2,
        "empty: no result of `measure`",
    ),
    ("export empty --csv", 2, "empty: no result of `measure`"),
    (
        "advise cost.json --budget 50us",
        1,
        "cost.json: is JSON, not CSV",
    ),
    ("export cost.json --csv", 1, "cost.json: is JSON, not CSV"),
    (
        "report res --filter 'nosuch > 3'",
        2,
        "filter: there is no column nosuch; expected one of time_ns",
    ),
    ("trial --ping not..a..host", 2, "not..a..host: unknown host"),
    ("trial --echo nosuch..host", 2, "nosuch..host: unknown host"),
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

/// The exit codes that the help of this line's command lists.
fn listed_codes(line: &str) -> Vec<i32> {
    let mut words = line.split_whitespace();
    let (first, second) = (words.next().unwrap(), words.next());
    let command: Vec<&str> = match (first, second) {
        ("mesure", _) => vec![],
        (flag, _) if flag.starts_with('-') => vec![],
        ("model" | "resume", Some(below)) | ("anticipate", Some(below @ "bench")) => {
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
    let mut wrong = Vec::new();
    for (line, code, message) in MISTAKES {
        let mut command = reveille();
        let ended = run(command.args(words(line)).current_dir(folder.path()));
        let lines: Vec<&str> = ended.stderr.lines().collect();
        if ended.code == 3 && !Uid::effective().is_root() {
            println!("skipped: {line}: {}", ended.stderr);
            continue;
        }
        let is_one_line = lines.len() == 1 || message.starts_with("filter: ");
        let first = lines.first().copied().unwrap_or_default();
        if ended.code != *code || !is_one_line || !first.contains(message) {
            wrong.push(format!("{line}: {}: {}", ended.code, ended.stderr));
        }
        if !listed_codes(line).contains(code) {
            wrong.push(format!("{line}: {code} is not in its help"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(MISTAKES.len() >= 100);
}

#[test]
fn an_argument_that_is_not_utf_8_is_an_unexpected_one_as_any_other() {
    let ended = run(reveille().arg("cost").arg(OsStr::from_bytes(b"\xff")));
    assert_eq!(ended.code, 2, "{}", ended.stderr);
    let words = "unexpected argument '\u{fffd}' found; a command to run follows --";
    assert!(ended.stderr.contains(words), "{}", ended.stderr);
}
