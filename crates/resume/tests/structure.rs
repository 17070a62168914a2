//! Logs with a known answer, as they reach a reader: cut, spliced, doubled, out of order, in the forms of dmesg,
//! of loggers and of phones. A figure is right, or a bound that holds, or unknown.
//!
//! `STRUCTURE_LOGS=10000 cargo test -p reveille-resume --test all structure` tries more of them.

use reveille_resume::analysis::{Analysis, CycleResult, Input, Question, analyse};
use reveille_resume::cycle::{StageKind, Us};
use reveille_resume::log::read;

use crate::generator::kernel::{Threads, Truth, run};
use crate::generator::machine::{Draw, Machine};
use crate::generator::text::{self, Form, Prefix, Text};

/// So many logs by default: a few seconds.
const LOGS: u64 = 1000;
const SECOND: Us = 1_000_000;
/// 2026-11-21T18:00:00 UTC.
const WALL: Us = 1_795_284_000 * SECOND;

/// A line of the kernel: its stamp, and when that was by a clock that goes on in sleep.
#[derive(Debug, Clone)]
struct Line {
    at: Us,
    on: Us,
    words: String,
}

/// How stamps are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum How {
    Dmesg,
    Human,
    Ctime,
    CtimeIso,
    Syslog,
    Iso,
    Journal,
    Monotonic,
    Phone,
    Json,
    /// The journal ran again after the thaw: its stamps are from then on.
    MonotonicLate,
    JournalLate,
}

const HOW: [How; 12] = [
    How::Dmesg,
    How::Human,
    How::Ctime,
    How::CtimeIso,
    How::Syslog,
    How::Iso,
    How::Journal,
    How::Monotonic,
    How::Phone,
    How::Json,
    How::MonotonicLate,
    How::JournalLate,
];

/// What happened to the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    Whole,
    CutHead,
    CutTail,
    /// Lines are missing anywhere.
    Thinned,
    /// From within one cycle to within the next one.
    Spliced,
    Doubled,
    /// An excerpt stands before the whole.
    Excerpt,
    /// Some lines changed places with their neighbours'.
    Swapped,
    Turned,
    /// The machine boots again within a suspend.
    Rebooted,
}

const WHAT: [What; 10] = [
    What::Whole,
    What::CutHead,
    What::CutTail,
    What::Thinned,
    What::Spliced,
    What::Doubled,
    What::Excerpt,
    What::Swapped,
    What::Turned,
    What::Rebooted,
];

struct Case {
    how: How,
    what: What,
    truths: Vec<Truth>,
    /// Of a notifier, between the entry and the freezing.
    pause: Us,
    /// Suspend to idle of Linux 4.19, with wake-ups that do not end it.
    naps: bool,
    /// Its calls have no function: without the lines between stages theirs is a guess.
    nameless: bool,
    text: String,
}

impl Case {
    fn draw(seed: u64) -> Case {
        let rng = &mut fastrand::Rng::with_seed(seed);
        let machine = Machine::draw(seed, &Draw::fully_logged(1..=12));
        let form = *rng.choice(&[Form::Old, Form::Offset, Form::Plain]).unwrap();
        let (how, what) = (*rng.choice(&HOW).unwrap(), *rng.choice(&WHAT).unwrap());
        // Of deltas nothing shows the direction.
        let what = match (how, what) {
            (How::Human, What::Turned | What::Excerpt | What::Rebooted) => What::Whole,
            (How::MonotonicLate, What::Spliced) => What::Whole,
            _ => what,
        };
        let pauses = what != What::Spliced && how != How::MonotonicLate && rng.bool();
        let pause = SECOND * rng.i64(1..30) * i64::from(pauses);
        // Without the line of the last wake-up its devices are part of the sleep.
        let is_cut = matches!(what, What::Thinned | What::CutHead | What::Spliced);
        let naps = form == Form::Old && !is_cut && rng.bool();
        let mut threads = Threads::default();
        let (mut now, mut slept) = (SECOND * rng.i64(50..5000), 0);
        let (mut truths, mut lines) = (Vec::new(), Vec::new());
        for _ in 0..rng.usize(1..4) {
            let mut truth = run(&machine, now, &mut threads);
            let mut own = written(form, &machine, &truth);
            if naps {
                truth.asleep_us = 0;
                own = napping(own, &truth, rng.i64(0..4));
            }
            let wakes = truth.stage(StageKind::Platform).end;
            for line in &mut own {
                let before = ["suspend entry", "Syncing", "Filesystems sync"];
                if before.iter().any(|words| line.words.contains(words)) {
                    line.at -= pause;
                }
                line.on = line.at + slept + if line.at >= wakes { truth.asleep_us } else { 0 };
            }
            slept += truth.asleep_us;
            now = truth.end() + SECOND * rng.i64(40..400);
            truths.push(truth);
            lines.append(&mut own);
        }
        let lines = changed(lines, what, &truths, rng);
        let text = repeated(formatted(&lines, how, &truths, rng), what, rng);
        Case {
            how,
            what,
            truths,
            pause,
            naps,
            nameless: form == Form::Old,
            text,
        }
    }

    /// The step of its stamps.
    fn step(&self) -> Us {
        match self.how {
            How::Ctime | How::Journal | How::JournalLate => SECOND,
            _ => 1,
        }
    }

    /// From the log's clock to the kernel's; the clock of a wall counts sleeps, which the reader takes out of a
    /// cycle, and not those before it.
    fn place(&self, cycle: &CycleResult) -> Option<&Truth> {
        let mut slept = 0;
        let is_wall = !matches!(
            self.how,
            How::Dmesg
                | How::Ctime
                | How::CtimeIso
                | How::Syslog
                | How::Monotonic
                | How::MonotonicLate
                | How::Phone
                | How::Json
        );
        let is_dated = matches!(self.how, How::Ctime | How::CtimeIso);
        for truth in &self.truths {
            let start = truth.stages[0].start - self.pause + if is_wall { slept } else { 0 };
            let end = truth.end() + if is_wall { slept + truth.asleep_us } else { 0 };
            let at = match self.how {
                // From the date in the first line on.
                How::Human => return self.truths.first().filter(|_| self.truths.len() == 1),
                _ if is_wall || is_dated => cycle.start_us - WALL,
                _ => cycle.start_us,
            };
            if (start - 2 * SECOND..=end + 2 * SECOND).contains(&at) {
                return Some(truth);
            }
            slept += truth.asleep_us;
        }
        None
    }
}

/// The lines of a dmesg of one cycle.
fn written(form: Form, machine: &Machine, truth: &Truth) -> Vec<Line> {
    let options = Text {
        form,
        prefix: Prefix::Dmesg,
        others: 12,
    };
    let mut out = Vec::new();
    text::write(&mut out, options, machine, std::slice::from_ref(truth)).unwrap();
    let text = String::from_utf8(out).unwrap();
    let line = |line: &str| {
        let (stamp, words) = line[1..].split_once("] ").unwrap();
        let (seconds, us) = stamp.trim().split_once('.').unwrap();
        let at = seconds.parse::<Us>().unwrap() * SECOND + us.parse::<Us>().unwrap();
        Line {
            at,
            on: at,
            words: words.to_owned(),
        }
    };
    text.lines().map(line).collect()
}

/// Adds `naps` wake-ups to suspend to idle: for each, devices go through noirq resume and noirq suspend.
fn napping(mut lines: Vec<Line>, truth: &Truth, naps: Us) -> Vec<Line> {
    let gone = ["CPU", "ACPI: ", "Timekeeping"];
    lines.retain(|line| !gone.iter().any(|words| line.words.contains(words)));
    let (down, up) = slept(truth);
    let place = |lines: &[Line], words: &str| {
        let at = lines.iter().position(|line| line.words.contains(words));
        at.unwrap() + 1
    };
    let line = |at: Us, words: &str| Line {
        at,
        on: at,
        words: format!("PM: {words}"),
    };
    let at = place(&lines, "late suspend of devices");
    lines.insert(at, line(lines[at - 1].at, "suspend-to-idle"));
    let at = place(&lines, "noirq suspend of devices");
    let step = (up - down) / (2 * naps + 1);
    let again = (0..2 * naps).map(|nap| {
        let half = if nap % 2 == 0 { "resume" } else { "suspend" };
        let told = format!("noirq {half} of devices complete after 0.001 msecs");
        line(down + step * (nap + 1), &told)
    });
    lines.splice(at..at, again.collect::<Vec<_>>());
    let last = lines
        .iter()
        .rposition(|line| line.words.contains("noirq resume of devices"));
    let last = last.unwrap();
    lines.insert(
        last + 1,
        line(lines[last].at, "resume from suspend-to-idle"),
    );
    for line in &mut lines {
        line.words = line.words.replace("(deep)", "(s2idle)");
    }
    lines.sort_by_key(|line| line.at);
    lines
}

/// From the end of the noirq suspend to the beginning of the resume.
fn slept(truth: &Truth) -> (Us, Us) {
    let down = truth.stage(StageKind::SuspendNoirq).end;
    (down, truth.stage(StageKind::ResumeNoirq).start)
}

fn changed(
    mut lines: Vec<Line>,
    what: What,
    truths: &[Truth],
    rng: &mut fastrand::Rng,
) -> Vec<Line> {
    let count = lines.len();
    match what {
        What::Whole | What::Doubled | What::Excerpt | What::Turned => {}
        What::CutHead => drop(lines.drain(..rng.usize(1..count))),
        What::Rebooted => {
            let truth = rng.choice(truths).unwrap();
            // What a frozen journal read later is lost.
            let freeze = truth.stages[0].end;
            let within = |line: &Line| line.at < freeze && line.at > freeze - 31 * SECOND;
            let there: Vec<usize> = (0..count).filter(|&at| within(&lines[at])).collect();
            lines.truncate(1 + *rng.choice(&there).unwrap());
            let on = lines[lines.len() - 1].on + SECOND * rng.i64(5..600);
            for (at, words) in [
                (0, "Linux version 6.1.0 (a@b) #1 SMP"),
                (SECOND, "input: button"),
            ] {
                let words = words.to_owned();
                lines.push(Line {
                    at,
                    on: on + at,
                    words,
                });
            }
        }
        What::CutTail => lines.truncate(rng.usize(1..count)),
        What::Thinned => {
            let share = *rng.choice(&[0.02, 0.1, 0.5]).unwrap();
            lines.retain(|_| rng.f64() >= share);
        }
        What::Spliced => {
            // Where two cycles meet within one half nothing shows it.
            let half = |line: &Line| {
                let truth = truths.iter().find(|truth| line.at <= truth.end());
                truth.is_some_and(|truth| line.at >= truth.stage(StageKind::Platform).end)
            };
            let (from, to) = (rng.usize(1..count), rng.usize(1..count));
            let of_one = truths.iter().any(|truth| {
                let span = truth.stages[0].start..=truth.end();
                span.contains(&lines[from - 1].at) && span.contains(&lines[to].at)
            });
            if from < to && (of_one || half(&lines[from - 1]) != half(&lines[to])) {
                lines.drain(from..to);
            }
        }
        What::Swapped => {
            // Lines of two CPUs, some microseconds apart.
            for _ in 0..10 {
                let at = rng.usize(1..count);
                let apart = lines[at].at - lines[at - 1].at;
                let sleeps = truths
                    .iter()
                    .any(|truth| truth.stage(StageKind::Platform).end == lines[at].at);
                let is_end = |line: &Line| {
                    line.words.contains("PM: suspend") || line.words.contains("PM: resume from")
                };
                if apart < 50 && !sleeps && !is_end(&lines[at]) && !is_end(&lines[at - 1]) {
                    lines.swap(at - 1, at);
                }
            }
        }
    }
    lines
}

/// The text twice, or with an excerpt before it; or from its last line to the first one.
fn repeated(text: String, what: What, rng: &mut fastrand::Rng) -> String {
    let lines: Vec<&str> = text.lines().collect();
    match what {
        What::Doubled => text.repeat(2),
        What::Excerpt => {
            let from = rng.usize(0..lines.len());
            let part = lines[from..rng.usize(from..lines.len())].join("\n");
            format!("{part}\n\n{text}")
        }
        What::Turned => lines.iter().rev().map(|line| format!("{line}\n")).collect(),
        _ => text,
    }
}

fn formatted(lines: &[Line], how: How, truths: &[Truth], rng: &mut fastrand::Rng) -> String {
    let mut before: Option<Us> = None;
    // The lines that a frozen logger reads later, and when.
    let frozen = |at: Us| {
        let mut all = truths.iter();
        let truth = all.find(|truth| (truth.stages[0].end..=truth.end()).contains(&at))?;
        Some(truth.end())
    };
    let mut late = (None, 0);
    let mut text = Vec::new();
    for line in lines {
        let (mut at, mut on) = (line.at, line.on);
        if let Some(end) =
            frozen(at).filter(|_| matches!(how, How::MonotonicLate | How::JournalLate))
        {
            if late.0 != Some(end) {
                late = (Some(end), 0);
            }
            late.1 += rng.i64(1..20);
            let slept: Us = truths
                .iter()
                .filter(|truth| truth.end() <= end)
                .map(|truth| truth.asleep_us)
                .sum();
            (at, on) = (end + 5_000 + late.1, end + 5_000 + late.1 + slept);
        }
        let stamp = format!("{:5}.{:06}", at / SECOND, at % SECOND);
        let is_dated = matches!(how, How::Ctime | How::CtimeIso);
        let wall = WALL + if is_dated { at } else { on };
        let second = wall / SECOND % 86_400;
        let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
        let day = 21 + wall / SECOND / 86_400 - WALL / SECOND / 86_400;
        let clock = format!("{hour:02}:{minute:02}:{second:02}");
        let words = &line.words;
        let us = wall % SECOND;
        text.push(match how {
            How::Dmesg => format!("[{stamp}] {words}"),
            How::Human => match before.replace(at) {
                None => format!("[Nov{day} {hour:02}:{minute:02}] {words}"),
                Some(before) => {
                    let apart = at - before;
                    let sign = if apart < 0 { "-" } else { "+" };
                    let delta = format!("{sign}{}.{:06}", apart.abs() / SECOND, apart.abs() % SECOND);
                    format!("[{delta:>11}] {words}")
                }
            },
            How::Ctime => format!("[Sat Nov {day} {clock} 2026] {words}"),
            How::CtimeIso => format!("2026-11-{day}T{clock},{us:06}+00:00 {words}"),
            How::Syslog => format!("Nov {day} {clock} host kernel: [{stamp}] {words}"),
            How::Iso => format!("2026-11-{day}T{clock}.{us:06}+00:00 host kernel: {words}"),
            How::Journal | How::JournalLate => format!("Nov {day} {clock} host kernel: {words}"),
            How::Monotonic | How::MonotonicLate => format!("[{stamp}] host kernel: {words}"),
            How::Phone => format!("<6>[{stamp}] (2)[512:system_server]{words}"),
            How::Json => format!(
                "{{\"_TRANSPORT\":\"kernel\",\"_SOURCE_BOOTTIME_TIMESTAMP\":\"{at}\",\"MESSAGE\":{}}}",
                serde_json::to_string(words).unwrap()
            ),
        });
    }
    text.join("\n") + "\n"
}

/// The analysis, and whether it has calls in a stage that is guessed, with a note.
fn analysed(text: &str) -> Option<(Analysis, bool)> {
    let log = read(text.as_bytes()).unwrap();
    let is_guess = log.left_out.guessed_stages > 0;
    let input = Input {
        cycles: log.cycles,
        ..Input::default()
    };
    let analysis = analyse(vec![input], &Question::default()).ok()?;
    Some((analysis, is_guess))
}

/// The figures of this cycle that are wrong, with the reason.
fn wrong(case: &Case, cycle: &CycleResult, truth: &Truth) -> Vec<(String, String)> {
    let mut all = Vec::new();
    let mut add = |figure: &str, found: Us, truth: Us| {
        all.push((figure.to_owned(), format!("{figure} {found}, not {truth}")));
    };
    // Two stamps of a step are off by less than it each, and some of the kernel's figures have milliseconds.
    let apart = 1_000 + if case.step() > 1 { 2 * case.step() } else { 0 };
    let last = truth
        .cpus
        .iter()
        .filter(|cpu| !cpu.on)
        .map(|cpu| cpu.end)
        .max();
    let mut down = last.unwrap_or(truth.stage(StageKind::SuspendNoirq).end);
    let mut up = truth.stage(StageKind::Platform).end;
    let mut truly_asleep = truth.asleep_us;
    if case.naps {
        (down, up) = slept(truth);
        truly_asleep = up - down;
    }
    let (start, end) = (truth.stages[0].start - case.pause, truth.end());
    // Where lines are missing a half lasts from its first line that is there to its last one.
    let is_whole = !matches!(
        case.what,
        What::CutHead
            | What::CutTail
            | What::Thinned
            | What::Spliced
            | What::Excerpt
            | What::Rebooted
    );
    let is_off = |us: Us, true_us: Us| {
        let low = if is_whole { true_us } else { 0 };
        !(low - apart..=true_us + apart).contains(&us)
    };
    for (figure, found, true_us) in [
        ("suspend", cycle.suspend_us, down - start),
        ("resume", cycle.resume_us, end - up),
    ] {
        if let Some(us) = found.filter(|&us| is_off(us, true_us)) {
            add(figure, us, true_us);
        }
    }
    for (figure, found, true_us) in [
        ("suspend at least", cycle.suspend_at_least_us, down - start),
        ("resume at least", cycle.resume_at_least_us, end - up),
    ] {
        if let Some(us) = found.filter(|&us| us > true_us + apart) {
            add(figure, us, true_us);
        }
    }
    // By a syslog's wall clock it has whole seconds; from stamps of a logger it is an upper bound.
    let coarse = apart + if case.how == How::Syslog { SECOND } else { 0 };
    let most = if cycle.stamped {
        truly_asleep + coarse
    } else {
        Us::MAX
    };
    // A splice may have lost the whole between two sleeps.
    let slept: Us = case.truths.iter().map(|truth| truth.asleep_us).sum();
    let most = match case.what {
        What::Spliced => most.max(slept + coarse),
        _ => most,
    };
    let asleep = cycle
        .asleep_us
        .filter(|us| !(truly_asleep - coarse..=most).contains(us));
    if let Some(us) = asleep {
        add("asleep", us, truly_asleep);
    }
    for stage in &cycle.stages {
        let Some(us) = stage.duration_us else {
            continue;
        };
        let true_us = match stage.stage {
            StageKind::Sync => 0,
            // Without a line of a CPU, or of firmware, it is from the last line to the first one.
            StageKind::Platform | StageKind::Idle => continue,
            kind => {
                let own = truth.stage(kind);
                own.end - own.start
            }
        };
        let is_told = stage.says_us.is_some() && stage.stage != StageKind::Sync;
        if us > true_us + apart || is_whole && is_told && us < true_us - 2 * apart {
            add(&format!("{:?}", stage.stage), us, true_us);
        }
    }
    all
}

#[test]
fn of_any_log_each_figure_is_right_or_a_bound_that_holds() {
    let logs = std::env::var("STRUCTURE_LOGS")
        .ok()
        .and_then(|logs| logs.parse().ok())
        .unwrap_or(LOGS);
    let mut bad = Vec::new();
    let (mut figures, mut cycles) = (0, 0);
    for seed in 0..logs {
        let case = Case::draw(seed);
        let Some((analysis, is_guess)) = analysed(&case.text) else {
            continue;
        };
        let is_guess = is_guess || case.nameless && case.what == What::Thinned;
        let found = &analysis.machines[0].cycles;
        if std::env::var("STRUCTURE_SHOWN").is_ok_and(|shown| shown == seed.to_string()) {
            println!("{}\n{:#?}\n{found:#?}", case.text, case.truths);
        }
        let most =
            case.truths.len() + usize::from(matches!(case.what, What::Spliced | What::Excerpt));
        // Whole seconds of two copies may be those of two cycles, and those of one second have no direction.
        if found.len() > most && case.step() == 1 {
            bad.push(format!(
                "{seed} {:?} {:?}: {} cycles of {}",
                case.how,
                case.what,
                found.len(),
                case.truths.len()
            ));
        }
        let boots = |cycle: &CycleResult| cycle.stop.as_ref().is_some_and(|stop| stop.boots);
        if (case.what == What::Rebooted) != found.last().is_some_and(boots) {
            bad.push(format!("{seed} {:?} {:?}: its end", case.how, case.what));
        }
        for cycle in found {
            cycles += 1;
            figures +=
                usize::from(cycle.suspend_us.is_some()) + usize::from(cycle.resume_us.is_some());
            let Some(truth) = case.place(cycle) else {
                continue;
            };
            // Of a splice each figure may be another cycle's.
            let others = case.truths.iter().filter(|_| case.what == What::Spliced);
            let others: Vec<_> = others.map(|truth| wrong(&case, cycle, truth)).collect();
            for (figure, why) in wrong(&case, cycle, truth) {
                let is_right =
                    |all: &Vec<(String, String)>| all.iter().all(|(one, _)| *one != figure);
                if others.iter().any(is_right) || is_guess && !figure.starts_with(['s', 'r', 'a']) {
                    continue;
                }
                bad.push(format!(
                    "{seed} {:?} {:?}: cycle {}: {why}",
                    case.how, case.what, cycle.number
                ));
            }
        }
    }
    assert!(
        bad.is_empty(),
        "{} of {logs}:\n{}",
        bad.len(),
        bad.join("\n")
    );
    // Most of them have both.
    assert!(
        cycles > logs as usize && figures > logs as usize / 2,
        "{figures} figures of {cycles} cycles"
    );
}
