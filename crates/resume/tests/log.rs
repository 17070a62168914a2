//! The log reader compared with the generator, and on real logs.

use crate::generator::kernel::{Threads, Truth, run};
use crate::generator::machine::{Draw, Machine};
use crate::generator::text::{self, Form, PREFIXES, Prefix, Text, logged};
use proptest::prelude::*;
use reveille_resume::cycle::{Cycle, StageKind, Us};
use reveille_resume::log::{LeftOut, read};

/// 21 November of a leap year, the generator's day for wall clocks, at midnight: its offset from
/// the kernel's clock. Day 951 782 400 s + 266 days is 21 November 2000.
const MIDNIGHT_US: Us = 974_764_800_000_000;

fn machine_and_cycles(seed: u64, devices: usize, cycles: usize) -> (Machine, Vec<Truth>) {
    let machine = Machine::draw(seed, &Draw::fully_logged(1..=devices));
    let mut threads = Threads::default();
    let mut now = 1_000_000;
    let truths = (0..cycles).map(|_| {
        let truth = run(&machine, now, &mut threads);
        now = truth.end() + 5_000_000;
        truth
    });
    let truths = truths.collect();
    (machine, truths)
}

fn written(text: Text, machine: &Machine, cycles: &[Truth]) -> Vec<u8> {
    let mut out = Vec::new();
    text::write(&mut out, text, machine, cycles).unwrap();
    out
}

/// The expected reading of the log, on a clock that is `shift` ahead.
fn expected(text: Text, machine: &Machine, truth: &Truth, number: usize, shift: Us) -> Cycle {
    let mut cycle = logged(text, machine, truth, number);
    // `suspend_enter[3]`: memory.
    cycle.sleep = Some("deep".to_owned());
    // These kernels' logs do not have the start of preparing.
    let has_prepare = text.form != Form::Old;
    let stages = &mut cycle.stages;
    stages.retain(|stage| has_prepare || stage.kind != StageKind::Prepare);
    for stage in &mut cycle.stages {
        stage.start += shift;
        stage.end += shift;
    }
    let words = &mut cycle.words;
    for word in [&mut words.first, &mut words.thawing, &mut words.last] {
        *word = word.map(|at| at + shift);
    }
    for cpu in &mut cycle.cpus {
        cpu.start += shift;
        cpu.end += shift;
    }
    for call in &mut cycle.calls {
        call.start = call.start.map(|start| start + shift);
        call.end = call.end.map(|end| end + shift);
    }
    cycle
}

/// Calls with equal starts are in no order; and these kernels give the freezing time in whole
/// milliseconds.
fn in_one_order(mut cycle: Cycle, form: Form) -> Cycle {
    let key = |call: &reveille_resume::cycle::Call| (call.start, call.end, call.device.clone());
    cycle.calls.sort_by_key(key);
    cycle.at = None;
    (cycle.words.before_sleep, cycle.words.after_sleep) = (None, None);
    cycle.gaps.clear();
    if form == Form::Old
        && let Some(freeze) = cycle.stages.first_mut()
    {
        freeze.end = freeze.start;
    }
    cycle
}

#[test]
fn every_stage_cpu_and_call_is_right_to_the_microsecond_in_every_format_and_prefix() {
    for seed in 0..5 {
        let devices = if seed == 0 { 200 } else { 60 };
        let (machine, truths) = machine_and_cycles(seed, devices, 3);
        for form in [Form::Old, Form::Offset, Form::Plain, Form::Trace] {
            for prefix in PREFIXES {
                if prefix == Prefix::Short || (form == Form::Trace && prefix != Prefix::Dmesg) {
                    continue;
                }
                let text = Text {
                    form,
                    prefix,
                    others: 40,
                };
                let log = read(&written(text, &machine, &truths)[..]).unwrap();
                let shift = match prefix {
                    Prefix::ShortPrecise => MIDNIGHT_US,
                    _ => 0,
                };
                assert_eq!(log.left_out, LeftOut::default(), "{seed} {text:?}");
                assert_eq!(log.resolution_us, Some(1));
                assert_eq!(log.cycles.len(), truths.len(), "{seed} {text:?}");
                for (number, (cycle, truth)) in log.cycles.into_iter().zip(&truths).enumerate() {
                    let has_wall = matches!(prefix, Prefix::Syslog | Prefix::ShortPrecise);
                    assert_eq!(cycle.at.is_some(), has_wall);
                    let expected = expected(text, &machine, truth, number + 1, shift);
                    same(
                        in_one_order(cycle, form),
                        in_one_order(expected, form),
                        &format!("seed {seed}, {text:?}, cycle {number}"),
                    );
                }
            }
        }
    }
}

/// Part by part, because a difference of two whole cycles is unreadable.
fn same(mut found: Cycle, expected: Cycle, what: &str) {
    // Other lines name devices.
    found.known_as = expected.known_as.clone();
    assert_eq!(found.stages, expected.stages, "{what}");
    assert_eq!(found.cpus, expected.cpus, "{what}");
    assert_eq!(found.calls.len(), expected.calls.len(), "{what}");
    for (found, expected) in found.calls.iter().zip(&expected.calls) {
        assert_eq!(found, expected, "{what}");
    }
    assert_eq!(found, expected, "{what}");
}

#[test]
fn stamps_of_whole_seconds_leave_the_kernels_figures() {
    let (machine, truths) = machine_and_cycles(3, 60, 2);
    let text = Text {
        form: Form::Offset,
        prefix: Prefix::Short,
        others: 10,
    };
    let log = read(&written(text, &machine, &truths)[..]).unwrap();
    assert_eq!(log.resolution_us, Some(1_000_000));
    assert_eq!(log.cycles.len(), 2);
    for (cycle, truth) in log.cycles.iter().zip(&truths) {
        let mut found: Vec<_> = cycle.calls.iter().map(|call| call.says_us).collect();
        let logged = logged(text, &machine, truth, 1);
        let mut expected: Vec<_> = logged.calls.iter().map(|call| call.says_us).collect();
        found.sort();
        expected.sort();
        assert_eq!(found, expected);
        let stated = |cycle: &Cycle| -> Vec<_> {
            let stages = cycle.stages.iter().filter(|stage| stage.says_us.is_some());
            stages.map(|stage| (stage.kind, stage.says_us)).collect()
        };
        assert_eq!(stated(cycle), stated(&logged));
    }
}

#[test]
fn dmesg_and_trace_of_the_same_cycles_give_each_once_with_the_facts_of_both() {
    for seed in 20..26 {
        let (machine, truths) = machine_and_cycles(seed, 60, 2);
        let text = |form| Text {
            form,
            prefix: Prefix::Dmesg,
            others: 10,
        };
        let mut both = written(text(Form::Plain), &machine, &truths);
        both.extend(written(text(Form::Trace), &machine, &truths));
        let log = read(&both[..]).unwrap();
        assert_eq!(log.cycles.len(), 2, "seed {seed}");
        for (cycle, truth) in log.cycles.iter().zip(&truths) {
            assert_eq!(cycle.calls.len(), truth.calls.len(), "the trace's calls");
            assert_eq!(cycle.asleep_us, Some(truth.asleep_us), "dmesg's word");
            let printed = logged(text(Form::Plain), &machine, truth, 1);
            let with_function = cycle.calls.iter().filter(|call| call.function.is_some());
            assert_eq!(with_function.count(), printed.calls.len());
        }
    }
}

/// With half of the lines of calls removed at random, the rest is right: no invented call, none
/// with another stage, and what is missing is counted.
#[test]
fn incomplete_pairs_yield_nothing_invented() {
    for seed in 30..36 {
        let (machine, truths) = machine_and_cycles(seed, 60, 2);
        let text = Text {
            form: Form::Plain,
            prefix: Prefix::Dmesg,
            others: 10,
        };
        let rng = &mut fastrand::Rng::with_seed(seed);
        let whole = String::from_utf8(written(text, &machine, &truths)).unwrap();
        let is_call = |line: &str| line.contains(": PM: ");
        let kept: String = whole
            .lines()
            .filter(|line| !is_call(line) || rng.bool())
            .flat_map(|line| [line, "\n"])
            .collect();
        let lines = |words: &str| {
            kept.lines()
                .filter(|l| is_call(l) && l.contains(words))
                .count()
        };
        let log = read(kept.as_bytes()).unwrap();
        let calls = || log.cycles.iter().flat_map(|cycle| &cycle.calls);
        let (starts, ends) = (lines(": PM: calling"), lines(" returned "));
        let both = calls().filter(|call| call.worker.is_some() && call.end.is_some());
        let both = both.count();
        assert_eq!(calls().count(), starts + ends - both, "seed {seed}");
        assert_eq!(log.left_out.calls_without_end, (starts - both) as u64);
        assert_eq!(log.left_out.returns_without_call, (ends - both) as u64);
        for (cycle, truth) in log.cycles.iter().zip(&truths) {
            let logged = logged(text, &machine, truth, cycle.number);
            for call in &cycle.calls {
                let real = logged
                    .calls
                    .iter()
                    .find(|real| real.device == call.device && real.function == call.function);
                let real = real.unwrap_or_else(|| panic!("{call:?}"));
                assert_eq!(call.stage, real.stage);
                assert_eq!(call.start, real.start, "says_us is exact in this form");
                assert!(call.end.is_none() || call.end == real.end);
            }
        }
    }
}

fn small_log(form: Form) -> (Vec<u8>, Vec<Cycle>) {
    let (machine, truths) = machine_and_cycles(7, 12, 3);
    let text = Text {
        form,
        prefix: Prefix::Dmesg,
        others: 3,
    };
    let bytes = written(text, &machine, &truths);
    let cycles = read(&bytes[..]).unwrap().cycles;
    (bytes, cycles)
}

/// Cut at any byte, the cycles before the cut are complete, and nothing after it is invented.
#[test]
fn a_log_cut_anywhere_gives_the_complete_cycles_before_the_cut() {
    for form in [Form::Old, Form::Plain, Form::Trace] {
        let (bytes, cycles) = small_log(form);
        let ends: Vec<usize> = match form {
            Form::Trace => positions(&bytes, b"thaw_processes[0] end"),
            _ => positions(&bytes, b"PM: suspend exit"),
        };
        assert_eq!(ends.len(), 3);
        // Every byte of some lines and of those around each end, and occasional others.
        let around = |&end: &usize| end.saturating_sub(60)..(end + 60).min(bytes.len());
        let cuts = ends.iter().flat_map(around).chain(1000..1150);
        for cut in cuts.chain((0..bytes.len()).step_by(211)) {
            let found = read(&bytes[..cut]).unwrap().cycles;
            let whole = ends.iter().filter(|&&end| end <= cut).count();
            assert!(found.len() <= whole + 1, "{form:?} cut at {cut}");
            // A line that only names a device may be behind the cut.
            let mut known = found[..whole].to_vec();
            known
                .iter_mut()
                .for_each(|one| one.known_as = cycles[0].known_as.clone());
            assert_eq!(known, cycles[..whole], "{form:?} cut at {cut}");
            // The remaining part of the cut one belongs to it.
            if let Some(rest) = found.get(whole) {
                let logged = &cycles[whole];
                assert!(rest.calls.len() <= logged.calls.len());
                assert!(rest.stages.len() <= logged.stages.len());
            }
        }
        // And at the beginning.
        for cut in (0..bytes.len()).step_by(307) {
            let found = read(&bytes[cut..]).unwrap().cycles;
            let whole = ends.iter().filter(|&&end| end > cut).count() - 1;
            let (whole, before) = match found.len().checked_sub(whole) {
                Some(before) if before <= 1 || cut == 0 => (whole, before),
                other => panic!("{form:?} from {cut}: {other:?} more than {whole}"),
            };
            for (found, logged) in found[before..].iter().zip(&cycles[3 - whole..]) {
                assert_eq!(
                    (&found.stages, &found.calls),
                    (&logged.stages, &logged.calls)
                );
            }
        }
    }
}

fn positions(text: &[u8], words: &[u8]) -> Vec<usize> {
    let found = text.windows(words.len()).enumerate();
    let found = found.filter(|(_, window)| *window == words);
    found.map(|(at, _)| at + words.len()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    /// Any bytes between pieces of lines: never a panic, and no more cycles than lines.
    #[test]
    fn any_bytes_are_read(
        pieces in proptest::collection::vec((any::<prop::sample::Index>(), 0..80usize, proptest::collection::vec(any::<u8>(), 0..6)), 0..60),
        form in prop_oneof![Just(Form::Old), Just(Form::Plain), Just(Form::Trace)],
    ) {
        let (bytes, _) = small_log(form);
        let mut text = Vec::new();
        for (at, length, noise) in &pieces {
            let at = at.index(bytes.len());
            text.extend_from_slice(&bytes[at..(at + length).min(bytes.len())]);
            text.extend_from_slice(noise);
        }
        // A few bytes of which most are no letters are no text.
        let Ok(log) = read(&text[..]) else {
            return Ok(());
        };
        prop_assert!(log.cycles.len() as u64 <= log.lines);
        prop_assert_eq!(log.bytes, text.len() as u64);
        for cycle in &log.cycles {
            prop_assert!(cycle.stages.iter().all(|stage| stage.start <= stage.end));
        }
    }

    /// Other lines between a log's own change nothing.
    #[test]
    fn interleaved_other_lines_change_nothing(
        others in proptest::collection::vec((any::<prop::sample::Index>(), "[ -~]{0,60}"), 0..30),
    ) {
        let (bytes, cycles) = small_log(Form::Plain);
        let text = String::from_utf8(bytes).unwrap();
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        for (at, words) in &others {
            let at = at.index(lines.len() + 1);
            lines.insert(at, format!("Nov 21 18:00:00 host daemon[7]: {words}"));
        }
        prop_assert_eq!(read(lines.join("\n").as_bytes()).unwrap().cycles, cycles);
    }
}

/// The stages in which a device has a callback.
fn stages_of(cycle: &Cycle, device: &str) -> Vec<StageKind> {
    let calls = cycle.calls.iter().filter(|call| &*call.device == device);
    let mut stages: Vec<_> = calls.map(|call| call.stage).collect();
    stages.sort();
    stages
}

/// Captures of the lab's guest: a suspend to memory with NVMe, AHCI, virtio, sound and USB.
#[test]
fn real_logs_of_two_kernels_are_read_completely() {
    use StageKind as K;
    for (version, dmesg, trace) in [
        (
            "6.1",
            &include_bytes!("logs/6.1-dmesg.txt")[..],
            &include_bytes!("logs/6.1-trace.txt")[..],
        ),
        (
            "6.12",
            &include_bytes!("logs/6.12-dmesg.txt")[..],
            &include_bytes!("logs/6.12-trace.txt")[..],
        ),
    ] {
        let printed = read(dmesg).unwrap();
        let traced = read(trace).unwrap();
        assert_eq!(printed.left_out, LeftOut::default(), "{version}");
        assert_eq!(traced.left_out, LeftOut::default(), "{version}");
        assert_eq!((printed.cycles.len(), traced.cycles.len()), (1, 1));
        let (printed, traced) = (&printed.cycles[0], &traced.cycles[0]);
        for cycle in [printed, traced] {
            // Of thawing these kernels log the beginning only.
            let has_thaw = cycle.stages.iter().any(|stage| stage.kind == K::Thaw);
            let count = if has_thaw { 14 } else { 13 };
            assert_eq!(cycle.stages.len(), count, "{version}: {:?}", cycle.stages);
            assert!(
                cycle
                    .stages
                    .windows(2)
                    .all(|pair| pair[0].end <= pair[1].start)
            );
            assert!(!cycle.cut && cycle.failures.is_empty());
            assert_eq!(cycle.sleep.as_deref(), Some("deep"));
            assert!(cycle.calls.iter().all(|call| call.result == Some(0)));
            assert!(cycle.calls.iter().all(|call| call.end >= call.start));
        }
        // Every line of a call, and no other.
        let text = String::from_utf8_lossy(dmesg);
        let calling = text
            .lines()
            .filter(|line| line.contains(" PM: calling "))
            .count();
        assert_eq!(printed.calls.len(), calling);
        let starts = String::from_utf8_lossy(trace);
        let starts = starts
            .lines()
            .filter(|line| line.contains("callback_start"))
            .count();
        assert_eq!(traced.calls.len(), starts);
        // Both saw the same, except for printing, which is not in their durations.
        for (a, b) in printed.stages.iter().zip(&traced.stages) {
            assert_eq!(a.kind, b.kind);
            if let Some(stated) = a.says_us {
                let apart = (stated - (b.end - b.start)).abs();
                assert!(apart < 2000, "{version}, {:?}: {apart} us apart", a.kind);
            }
        }
        let with_callbacks = |cycle: &Cycle, device: &str| {
            let mut stages = stages_of(cycle, device);
            stages.retain(|stage| !matches!(stage, K::Prepare | K::Complete));
            stages
        };
        let pci = [
            K::Suspend,
            K::SuspendLate,
            K::SuspendNoirq,
            K::ResumeNoirq,
            K::ResumeEarly,
            K::Resume,
        ];
        for (device, stages) in [
            ("0000:00:01.0", &pci[..]),
            ("usb1", &[K::Suspend, K::Resume]),
            ("0:0:0:0", &[K::Suspend, K::Resume]),
        ] {
            assert_eq!(
                with_callbacks(printed, device),
                stages,
                "{version} {device}"
            );
            assert_eq!(with_callbacks(traced, device), stages, "{version} {device}");
        }
        // Together: the trace's calls, with the facts that only dmesg has.
        let both = read([dmesg, trace].concat().as_slice()).unwrap();
        assert_eq!(both.cycles.len(), 1);
        assert_eq!(both.cycles[0].calls.len(), starts);
        assert_eq!(both.cycles[0].asleep_us, printed.asleep_us);
        let with_function = both.cycles[0]
            .calls
            .iter()
            .filter(|call| call.function.is_some());
        assert_eq!(with_function.count(), calling);
    }
}
