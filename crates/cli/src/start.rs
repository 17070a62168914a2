//! `reveille` without a command: this machine in ten lines, and which command answers which question.

use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;

use reveille_kernel::{Idle, Root, bounds, driver_and_governor, load, pm_qos};
use reveille_results::{Newest, newest};
use reveille_show::quantity::{self, quoted};
use reveille_show::sheet::Sheet;
use reveille_show::terminal::{self, STRONG};
use reveille_show::{text, wrap};
use reveille_watch::states::{GroupStates, StateUse, States, show};
use serde::Serialize;

use crate::exit;
use crate::flags::RESULTS;
use crate::kept::{self, Kept, Visit};

/// The questions that the program answers, and the commands; README has them in full.
const QUESTIONS: [(&str, &str); 14] = [
    ("How long do wake-ups take? Is the driver right?", "measure"),
    ("What sleeps, what wakes it, what keeps it awake?", "top"),
    ("Which idle states are there, allowed, and used?", "states"),
    (
        "What does my workload lose while CPUs wake?",
        "cost -- COMMAND",
    ),
    ("Where does the time of packets go?", "path --ping"),
    (
        "Which idle states does my latency budget allow?",
        "advise RESULT",
    ),
    (
        "How do I bound latency, and undo that?",
        "hold, limit, restore",
    ),
    ("Which setting is best for my workload?", "trial -- COMMAND"),
    ("Can CPUs be awake just when I/O completes?", "anticipate"),
    ("Can latency be held just while there is traffic?", "govern"),
    (
        "Where does a suspend and resume spend its time?",
        "resume analyze LOG",
    ),
    (
        "What takes power, and what would sleep save?",
        "power, model, stage",
    ),
    (
        "How do I show, compare, export results?",
        "show, report, export",
    ),
    ("What can be measured here, and what is missing?", "doctor"),
];

/// A terminal of 24 lines has all: these, an empty line, the questions, the prompt.
const FACT_LINES: usize = 24 - 1 - QUESTIONS.len() - 1;

/// From this load on, per CPU, other tasks disturb what is measured.
const BUSY: f64 = 0.5;

/// Prints the overview and changes nothing. It succeeds on a terminal only: a script that calls the
/// program without a command has made a mistake, and notices.
pub fn run() -> anyhow::Result<ExitCode> {
    let sheet = overview(
        &Root::default(),
        newest(Path::new(RESULTS)).as_ref(),
        nix::unistd::geteuid().is_root(),
    );
    let out = &mut terminal::stdout();
    exit::reader_may_leave(write(&sheet, out))?;
    if io::stdout().is_terminal() {
        return Ok(ExitCode::SUCCESS);
    }
    exit::say("no command is given; `reveille --help` lists them");
    Ok(ExitCode::from(exit::USAGE))
}

fn write(sheet: &Sheet<'_>, out: &mut impl Write) -> io::Result<()> {
    text::write(sheet, text::Detail::Short, out)?;
    writeln!(out)?;
    let width = QUESTIONS.iter().map(|(question, _)| question.len()).max();
    for (question, command) in QUESTIONS {
        let question = format!("{question:0$}", width.unwrap_or(0));
        writeln!(out, "{question}  {STRONG}reveille {command}{STRONG:#}")?;
    }
    out.flush()
}

/// A fact, and the lines that it may take.
type Fact = (&'static str, String, usize);

fn overview(root: &Root, measured: Option<&Newest>, is_root: bool) -> Sheet<'static> {
    let mut facts = machine(root);
    if let Some(measured) = measured {
        facts.push(("Measured", command(measured), 2));
        if let Some(answer) = answer(measured) {
            facts.push(("Answer", answer, 2));
        }
    }
    facts.push(("Next", next(measured, is_root), 2));
    fit(&mut facts);
    let mut sheet = Sheet::default();
    for (word, words, _) in facts {
        sheet.fact(word, words);
    }
    sheet
}

fn machine(root: &Root) -> Vec<Fact> {
    let idle = match Idle::read(root) {
        Ok(idle) => idle,
        Err(error) => return vec![("CPU", format!("unknown: {error}"), 2)],
    };
    let request = match root.is_live() {
        true => pm_qos::current_bound_us(),
        false => Ok(None),
    };
    // The search takes some 10 µs per process.
    let holders = match request {
        Ok(None) => Vec::new(),
        _ => pm_qos::holders(&root.path("proc")).map_or(Vec::new(), |(holders, _)| holders),
    };
    let request = request.ok().flatten();
    let limits = bounds::of(&idle, root, request, &holders);
    let mut limits: Vec<String> = limits.into_iter().map(|bound| bound.text).collect();
    let online = idle.cpus.iter().filter(|cpu| cpu.online).count();
    if let Some(load) = load::of_last_minute(root).filter(|load| *load >= BUSY * online as f64) {
        let cpus = quantity::counted(online as u64, "CPU");
        limits.insert(0, format!("busy: a load of {load} on {cpus}"));
    }
    if limits.is_empty() {
        limits.push("none known".to_owned());
    }
    let cpus: Vec<u32> = idle.cpus.iter().map(|cpu| cpu.number).collect();
    let states = States::of(root, idle, &cpus);
    let kernel = states.machine.kernel_words();
    let idle = driver_and_governor(states.driver.as_deref(), states.governor.as_deref());
    vec![
        ("CPU", show::cpu_line(&states), 2),
        ("Kernel", format!("{kernel}; {idle}"), 2),
        ("States", states_used(&states), 2),
        ("Limits", limits.join("; "), 2),
    ]
}

/// `POLL: exit 0 µs, 0.02% of the time; C1: 2 µs, 0.0067%`, for each group of CPUs that has states.
fn states_used(states: &States) -> String {
    if let Some(without) = &states.without_driver {
        return format!("{} Likely why: {}", without.does, without.reason);
    }
    let groups = states.groups.iter();
    let groups: Vec<&GroupStates> = groups.filter(|group| !group.states.is_empty()).collect();
    let mut is_first = true;
    let words = groups.iter().map(|group| {
        let each = group.states.iter().map(|state| {
            let (exit, of) = match std::mem::take(&mut is_first) {
                true => ("exit ", " of the time"),
                false => ("", ""),
            };
            used(state, exit, of)
        });
        let each = each.collect::<Vec<_>>().join("; ");
        match groups.len() {
            1 => each,
            _ => format!("CPUs {}: {each}", group.cpu_list),
        }
    });
    match groups.is_empty() {
        true => "no CPU has idle states".to_owned(),
        false => words.collect::<Vec<_>>().join(". "),
    }
}

fn used(state: &StateUse, exit: &str, of: &str) -> String {
    let latency = state.state.exit_latency_us;
    let latency = latency.map(|us| format!("{exit}{us} µs"));
    let share = state.time_share_percent;
    let share = share.map(|percent| match percent {
        small if small > 0.0 && small < 0.1 => format!("<0.1%{of}"),
        percent => format!("{}{of}", quantity::share(percent / 100.0)),
    });
    let known: Vec<String> = latency.into_iter().chain(share).collect();
    match known.is_empty() {
        true => state.state.name.clone(),
        false => format!("{}: {}", state.state.name, known.join(", ")),
    }
}

/// `` `reveille measure`, 2026-11-23 10:00 UTC ``; what comes next names the folder.
fn command(measured: &Newest) -> String {
    // The program's path, and `sudo`, are none of the command.
    let words = measured.command_line.get(1..).unwrap_or_default();
    let words = words.iter().map(|word| quoted(word));
    let command = ["reveille".to_owned()].into_iter().chain(words);
    let command = format!("`{}`", command.collect::<Vec<_>>().join(" "));
    // 2026-11-23T10:00:00Z
    let started = measured.started.get(..16);
    let started = started.map(|started| format!("{} UTC", started.replace('T', " ")));
    let known = measured.command_line.get(1).map(|_| command);
    let parts: Vec<String> = known.into_iter().chain(started).collect();
    match parts.is_empty() {
        true => measured.folder.display().to_string(),
        false => parts.join(", "),
    }
}

/// Its conclusion; that of another command than `measure` is in the file that the command kept.
fn answer(measured: &Newest) -> Option<String> {
    if measured.answer.is_some() {
        return measured.answer.clone();
    }
    // Without its first fields the file is too long to be read for a line.
    if measured.started.is_empty() {
        return None;
    }
    match kept::find(&measured.folder).ok()? {
        Kept::File(file, kind) => {
            let answer = kind.read(&file, Answer).ok()?;
            (!answer.is_empty()).then_some(answer)
        }
        Kept::Measured | Kept::Captured => None,
    }
}

struct Answer;

impl Visit for Answer {
    type Out = String;
    fn visit(self, _: &impl Serialize, sheet: Sheet<'_>) -> String {
        sheet.answer
    }
}

/// What to do next, by what there is.
fn next(measured: Option<&Newest>, is_root: bool) -> String {
    match (measured, is_root) {
        (None, true) => "`reveille measure` measures this machine for 30 seconds".to_owned(),
        (None, false) => "`sudo reveille measure` measures this machine for 30 seconds; root also \
                          sees who bounds latency"
            .to_owned(),
        (Some(measured), _) => {
            let folder = quoted(&measured.folder.display().to_string());
            match measured.answer {
                Some(_) => {
                    format!("`reveille advise {folder} --budget 50us`")
                }
                None => format!("`reveille report {folder}` makes a page"),
            }
        }
    }
}

/// Cuts the facts to their lines, and the longest ones further until all fit.
fn fit(facts: &mut [Fact]) {
    let indent = facts.iter().map(|(word, ..)| word.len() + 2).max();
    let indent = indent.unwrap_or(0);
    let lines = |words: &str| lines(words, indent).len();
    for (_, words, most) in &mut *facts {
        // A line is not broken within a word.
        let within = words.split_whitespace();
        let within = within.map(|word| shortened(word, wrap::COLUMNS - indent));
        *words = within.collect::<Vec<_>>().join(" ");
        *most = lines(words).min(*most);
    }
    let mut total: usize = facts.iter().map(|(.., most)| most).sum();
    // What to do next stays whole.
    let others = facts.len().saturating_sub(1);
    while total > FACT_LINES {
        // Of equal ones the first: what was measured tells more than the machine's names.
        let longest = facts[..others].iter_mut().rev();
        match longest.max_by_key(|(.., most)| *most) {
            Some((.., most)) if *most > 1 => *most -= 1,
            _ => break,
        }
        total -= 1;
    }
    for (_, words, most) in facts {
        cut(words, indent, *most);
    }
}

fn shortened(word: &str, most: usize) -> String {
    match word.chars().count() > most {
        true => word.chars().take(most - 1).chain(['…']).collect(),
        false => word.to_owned(),
    }
}

/// The lines that these words take behind an indent.
fn lines(words: &str, indent: usize) -> Vec<String> {
    let mut out = Vec::new();
    // Writing to a Vec cannot fail.
    let _ = wrap::onward(&mut out, wrap::COLUMNS, indent, indent, words);
    let text = String::from_utf8_lossy(&out).into_owned();
    text.lines().map(|line| line.trim().to_owned()).collect()
}

/// To so many lines, with `…` for what is left out.
fn cut(words: &mut String, indent: usize, most: usize) {
    let all = lines(words, indent);
    if all.len() <= most {
        return;
    }
    let mut kept = all[..most].join(" ");
    while lines(&format!("{kept} …"), indent).len() > most
        && let Some((before, _)) = kept.rsplit_once(' ')
    {
        kept = before.to_owned();
    }
    *words = format!("{kept} …");
}

#[cfg(test)]
#[path = "../tests/recorded/mod.rs"]
mod recorded;

#[cfg(test)]
mod tests {
    use super::recorded::recorded;
    use super::*;

    fn shown(root: &Root, measured: Option<&Newest>) -> String {
        let mut out = Vec::new();
        write(&overview(root, measured, false), &mut out).unwrap();
        let text = terminal::plain(out);
        assert!(text.lines().count() < 24, "{text}");
        assert!(
            text.lines().all(|line| line.chars().count() <= 80),
            "{text}"
        );
        text
    }

    fn put(folder: &Path, file: &str, text: &str) {
        let path = folder.join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    #[test]
    fn a_recorded_machine_is_shown_with_the_use_of_its_states() {
        let Some(folder) = recorded("sklep0") else {
            return;
        };
        let text = shown(&Root::at(folder.path()), None);
        let begins = "\
CPU     Intel(R) Xeon(R) Platinum 8170M CPU @ 2.10GHz; 104 CPUs, 52 cores, 2
        packages
Kernel  6.18.8-200.fc43.x86_64; driver intel_idle, governor menu
States  POLL: exit 0 µs, <0.1% of the time; C1: 2 µs, <0.1%; C1E: 10 µs, <0.1%;
        C6: 133 µs, 99.954%
Limits  none known
Next    `sudo reveille measure` measures this machine for 30 seconds; root also
        sees who bounds latency

How long do wake-ups take?";
        assert!(text.starts_with(begins), "{text}");
        for (question, command) in QUESTIONS {
            assert!(text.contains(question) && text.contains(&format!("  reveille {command}\n")));
        }
    }

    #[test]
    fn limits_and_a_busy_machine_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let cpus = "sys/devices/system/cpu";
        for (file, text) in [
            (format!("{cpus}/present"), "0-1"),
            (format!("{cpus}/online"), "0-1"),
            (format!("{cpus}/cpuidle/current_driver"), "none"),
            (format!("{cpus}/cpu1/power/pm_qos_resume_latency_us"), "50"),
            ("proc/cmdline".to_owned(), "idle=poll"),
            ("proc/loadavg".to_owned(), "1.00 0 0 1/9 7"),
        ] {
            put(folder.path(), &file, text);
        }
        let root = Root::at(folder.path());
        let text = shown(&root, None);
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let states = "States Idle CPUs poll and never sleep. Likely why: idle=poll on the";
        assert!(text.contains(states), "{text}");
        let limits = "Limits busy: a load of 1 on 2 CPUs; 50 µs by pm_qos_resume_latency_us of \
                      CPU 1: rules out no state; idle=poll on the command line: idle CPUs poll: no …";
        assert!(text.contains(limits), "{text}");
        put(folder.path(), "proc/cmdline", "");
        let busy = "busy: a load of 1 on 2 CPUs";
        let is_busy = || shown(&root, None).replace("\n        ", " ").contains(busy);
        assert!(is_busy());
        put(folder.path(), "proc/loadavg", "0.99 0 0 1/9 7");
        assert!(!is_busy());
    }

    #[test]
    fn what_was_measured_last_is_shown_and_decides_what_comes_next() {
        let folder = tempfile::tempdir().unwrap();
        let mut last = Newest {
            folder: "reveille-results/a b".into(),
            started: "2026-11-23T10:00:59Z".into(),
            command_line: ["/usr/bin/reveille", "measure", "--name", "a b"]
                .map(str::to_owned)
                .into(),
            answer: Some("C6 wakes in 90 µs. ".repeat(20)),
        };
        let text = shown(&Root::at(folder.path()), Some(&last));
        // No machine is there.
        assert!(text.starts_with("CPU       unknown: "), "{text}");
        let measured = "Measured  `reveille measure --name 'a b'`, 2026-11-23 10:00 UTC\n";
        assert!(text.contains(measured), "{text}");
        assert!(text.contains("Answer    C6 wakes in 90 µs. C6"), "{text}");
        let next = "Next      `reveille advise 'reveille-results/a b' --budget 50us`\n";
        assert!(text.contains(next), "{text}");
        last.answer = None;
        last.command_line.clear();
        last.started.clear();
        let text = shown(&Root::at(folder.path()), Some(&last));
        assert!(text.contains("Measured  reveille-results/a b\n"), "{text}");
        assert!(
            text.contains("Next      `reveille report 'reveille-results/a b'`"),
            "{text}"
        );
        assert!(!text.contains("Answer"), "{text}");
    }

    #[test]
    fn the_answer_of_another_command_is_in_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/example/results");
        for (file, answer) in [
            ("cost.json", "Waits for CPUs in "),
            ("path.json", "With the CPU asleep in "),
            ("trial.json", "`no sleep` is best: median "),
            ("bench.json", "At 1 ms between reads: "),
        ] {
            let result = folder.path().join(file.replace(".json", ""));
            std::fs::create_dir(&result).unwrap();
            std::fs::copy(examples.join(file), result.join(file)).unwrap();
            let last = newest(folder.path()).unwrap();
            let text = shown(&Root::at("/nonexistent"), Some(&last));
            assert!(text.contains(&format!("\nAnswer    {answer}")), "{text}");
            assert!(text.contains("\nNext      `reveille report "), "{text}");
            std::fs::remove_dir_all(&result).unwrap();
        }
    }

    #[test]
    fn the_commands_are_there() {
        let program = <crate::Cli as clap::CommandFactory>::command();
        for (_, command) in QUESTIONS {
            for one in command.split(", ") {
                let name = one.split(' ').next().unwrap_or_default();
                assert!(program.find_subcommand(name).is_some(), "{name}");
            }
        }
    }

    #[test]
    fn who_is_not_root_is_told_to_become_it() {
        assert!(next(None, false).starts_with("`sudo reveille measure`"));
        assert!(next(None, true).starts_with("`reveille measure`"));
    }

    #[test]
    fn long_facts_are_cut_until_all_fit_and_the_last_stays_whole() {
        let long = |words: &str| words.repeat(40);
        let mut facts: Vec<Fact> = ["A", "B", "C", "D", "E"]
            .map(|word| (word, long("word "), 3))
            .into();
        facts.push(("Next", long("x "), 2));
        fit(&mut facts);
        let taken: Vec<usize> = facts
            .iter()
            .map(|(_, words, _)| lines(words, 6).len())
            .collect();
        assert_eq!(taken.iter().sum::<usize>(), FACT_LINES, "{taken:?}");
        assert_eq!(taken, [1, 1, 1, 1, 2, 2]);
        assert!(facts[..5].iter().all(|(_, words, _)| words.ends_with(" …")));
        let mut facts = vec![("Next", format!("in {}", "x".repeat(81)), 2)];
        fit(&mut facts);
        assert_eq!(facts[0].1, format!("in {}…", "x".repeat(73)));
    }
}
