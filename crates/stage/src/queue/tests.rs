//! A made-up server with one worker, in made-up time.

use std::collections::{HashMap, VecDeque};

use super::*;

/// Requests a second from each instant on, s.
type Load<'a> = &'a [(f64, f64)];

struct Simulated {
    /// From the arrival to the response, ms; ascending.
    latencies: Vec<f64>,
    /// Requests that came after the server had nothing to do for 1 ms: each wakes it.
    wakes: usize,
    late: usize,
    late_if_direct: usize,
    /// The largest burst.
    largest: usize,
}

impl Simulated {
    fn median(&self) -> f64 {
        self.latencies[self.latencies.len() / 2]
    }
}

/// Poisson arrivals; each takes `work`, s, in turn; a request is held under `mode`.
fn simulate(
    mode: Mode,
    load: Load<'_>,
    seconds: f64,
    deadline: Duration,
    work: &mut dyn FnMut() -> f64,
) -> Simulated {
    let mut random = fastrand::Rng::with_seed(7);
    let mut arrivals = Vec::new();
    let mut at = 0.0;
    while at < seconds {
        let rate = load.iter().rev().find(|(from, _)| *from <= at).unwrap().1;
        at += -random.f64().max(1e-12).ln() / rate;
        arrivals.push(at);
    }
    let start = Instant::now();
    let instant = |seconds: f64| start + Duration::from_secs_f64(seconds);
    let seconds_of = |instant: Instant| instant.saturating_duration_since(start).as_secs_f64();
    let mut machine = Machine::new(mode, &[0.999], start);
    // Arrival and burst of those that are served, in their order; when the one in front is done.
    let mut queue: VecDeque<(f64, u64)> = VecDeque::new();
    let mut done = f64::INFINITY;
    let mut held: HashMap<u64, f64> = HashMap::new();
    let mut due: Option<Instant> = None;
    let mut of = Simulated {
        latencies: Vec::new(),
        wakes: 0,
        late: 0,
        late_if_direct: 0,
        largest: 0,
    };
    let (mut slept_at, mut alone) = (f64::NEG_INFINITY, 0.0_f64);
    let mut arrivals = arrivals.into_iter().peekable();
    let mut now = 0.0;
    loop {
        let arrival = arrivals.peek().copied().unwrap_or(f64::INFINITY);
        let release = due.map_or(f64::INFINITY, |due| seconds_of(due).max(now));
        now = arrival.min(release).min(done);
        if now.is_infinite() {
            break;
        }
        if now == done {
            let (arrived, burst) = queue.pop_front().unwrap();
            let latency = now - arrived;
            of.latencies.push(latency * 1e3);
            of.late += usize::from(latency > deadline.as_secs_f64());
            machine.answered(burst, instant(now), true);
            done = match queue.is_empty() {
                true => {
                    slept_at = now;
                    f64::INFINITY
                }
                false => now + work(),
            };
            continue;
        }
        let mut sent: Vec<(f64, u64)> = Vec::new();
        if now == arrival {
            arrivals.next();
            let took = work();
            alone = alone.max(now) + took;
            of.late_if_direct += usize::from(alone - now > deadline.as_secs_f64());
            match machine.comes(0, instant(now) + deadline, instant(now)) {
                Verdict::Pass(_, burst) => sent.push((now, burst)),
                Verdict::Hold(number) => {
                    held.insert(number, now);
                }
            }
        } else {
            let due = due.unwrap();
            let all = machine.release(due, instant(now));
            of.largest = of.largest.max(all.len());
            sent.extend(
                all.iter()
                    .map(|one| (held.remove(&one.request).unwrap(), one.burst)),
            );
        }
        due = machine.due(instant(now));
        if queue.is_empty() && !sent.is_empty() {
            of.wakes += usize::from(now - slept_at > 1e-3);
            done = now + work();
        }
        queue.extend(sent);
    }
    assert!(held.is_empty() && machine.open() == 0, "requests are lost");
    of.latencies.sort_by(f64::total_cmp);
    of
}

const DEADLINE: Duration = Duration::from_millis(500);

fn two_ms() -> impl FnMut() -> f64 {
    || 0.002
}

#[test]
fn a_staged_server_wakes_less_and_no_deadline_is_missed() {
    let load = [(0.0, 100.0)];
    let direct = simulate(Mode::Direct, &load, 400.0, DEADLINE, &mut two_ms());
    let staged = simulate(Mode::Staged, &load, 400.0, DEADLINE, &mut two_ms());
    assert!(
        staged.wakes * 10 < direct.wakes,
        "{} of {}",
        staged.wakes,
        direct.wakes
    );
    assert_eq!((staged.late, direct.late), (0, 0));
    // The slack is used: most of the deadline.
    assert!(*staged.latencies.last().unwrap() > 350.0);
}

#[test]
fn at_as_many_wake_ups_the_median_is_lower_than_on_a_grid() {
    let load = [(0.0, 100.0)];
    let staged = simulate(Mode::Staged, &load, 300.0, DEADLINE, &mut two_ms());
    let grid = |ms: u64| {
        let step = Duration::from_millis(ms);
        simulate(Mode::Grid(step), &load, 300.0, DEADLINE, &mut two_ms())
    };
    let equal = (350..700)
        .step_by(25)
        .map(grid)
        .find(|grid| grid.wakes <= staged.wakes)
        .unwrap();
    assert!(
        staged.median() < equal.median(),
        "{} wake-ups, {} ms; grid {} wake-ups, {} ms",
        staged.wakes,
        staged.median(),
        equal.wakes,
        equal.median()
    );
}

#[test]
fn a_load_that_triples_at_once_is_followed() {
    let load = [(0.0, 100.0), (100.0, 300.0), (200.0, 100.0), (200.5, 300.0)];
    let staged = simulate(Mode::Staged, &load, 300.0, DEADLINE, &mut two_ms());
    assert_eq!(staged.late, 0);
}

#[test]
fn service_times_with_a_long_tail_keep_to_the_percentile() {
    let mut random = fastrand::Rng::with_seed(3);
    let mut work = || match random.u32(0..500) {
        0 => 0.1,
        _ => 0.002 * -random.f64().max(1e-12).ln(),
    };
    let staged = simulate(Mode::Staged, &[(0.0, 100.0)], 400.0, DEADLINE, &mut work);
    let share = staged.late as f64 / staged.latencies.len() as f64;
    assert!(
        share < 0.001,
        "{} of {}",
        staged.late,
        staged.latencies.len()
    );
}

#[test]
fn near_saturation_requests_pass() {
    let load = [(0.0, 470.0)];
    let staged = simulate(Mode::Staged, &load, 200.0, DEADLINE, &mut two_ms());
    let direct = simulate(Mode::Direct, &load, 200.0, DEADLINE, &mut two_ms());
    assert_eq!(direct.late, 0);
    assert_eq!(staged.late, 0);
    assert!(
        staged.median() < 2.0 * direct.median().max(20.0),
        "{} {}",
        staged.median(),
        direct.median()
    );
}

#[test]
fn a_deadline_below_the_servers_time_is_not_held_for() {
    let staged = simulate(
        Mode::Staged,
        &[(0.0, 20.0)],
        100.0,
        Duration::from_millis(1),
        &mut two_ms(),
    );
    assert_eq!(staged.largest, 0);
    assert_eq!(staged.late, staged.latencies.len());
}

/// A request that is not held: its burst.
fn passing(machine: &mut Machine, now: Instant) -> u64 {
    match machine.comes(0, now + DEADLINE, now) {
        Verdict::Pass(_, burst) => burst,
        Verdict::Hold(_) => panic!("it is held"),
    }
}

#[test]
fn a_request_that_takes_longer_than_its_deadline_keeps_nobody_awake() {
    let now = Instant::now();
    let mut machine = Machine::new(Mode::Staged, &[0.999], now);
    let forever = passing(&mut machine, now);
    for _ in 0..30 {
        let burst = passing(&mut machine, now);
        machine.answered(burst, now + Duration::from_millis(2), true);
    }
    let soon = now + Duration::from_millis(100);
    let verdict = machine.comes(0, soon + DEADLINE, soon);
    assert!(
        matches!(verdict, Verdict::Pass(Passed::Awake, _)),
        "{verdict:?}"
    );
    let Verdict::Pass(_, burst) = verdict else {
        unreachable!()
    };
    machine.answered(burst, soon + Duration::from_millis(2), true);
    // Long after, it is still open.
    let later = now + Duration::from_secs(60);
    assert!(matches!(
        machine.comes(0, later + DEADLINE, later),
        Verdict::Hold(_)
    ));
    assert_eq!(machine.open(), 1);
    machine.answered(forever, later, true);
    assert_eq!(machine.open(), 0);
}

#[test]
fn one_that_has_less_time_has_all_released() {
    let now = Instant::now();
    let mut machine = Machine::new(Mode::Staged, &[0.999], now);
    // Twenty are learnt; more would be held.
    for _ in 0..7 {
        let bursts = [(); 3].map(|()| passing(&mut machine, now));
        for burst in bursts {
            machine.answered(burst, now + Duration::from_millis(2), true);
        }
    }
    let later = |ms: u64| now + Duration::from_millis(ms);
    let at = later(1000);
    let Verdict::Hold(first) = machine.comes(0, at + DEADLINE, at) else {
        panic!()
    };
    let due = machine.due(at).unwrap();
    assert!(due > later(1400) && due < later(1500));
    let Verdict::Hold(second) = machine.comes(0, at + Duration::from_millis(100), at) else {
        panic!()
    };
    let due = machine.due(at).unwrap();
    assert!(due > later(1050) && due < later(1100));
    // The one that has less time goes first.
    let released = machine.release(due, due);
    assert_eq!([released[0].request, released[1].request], [second, first]);
    assert_eq!((machine.held(), machine.open()), (0, 2));
    // While it answers, others go at once.
    assert!(matches!(
        machine.comes(0, due + DEADLINE, due),
        Verdict::Pass(Passed::Awake, _)
    ));
}

#[test]
fn a_client_that_is_gone_holds_nothing() {
    let now = Instant::now();
    let mut machine = Machine::new(Mode::Grid(Duration::from_millis(250)), &[0.999], now);
    let Verdict::Hold(number) = machine.comes(0, now + DEADLINE, now) else {
        panic!()
    };
    assert_eq!(machine.due(now), Some(now + Duration::from_millis(250)));
    // A timer is late.
    let late = now + Duration::from_millis(251);
    assert_eq!(machine.due(late), Some(now + Duration::from_millis(250)));
    machine.gone(0, number);
    assert_eq!((machine.held(), machine.due(now)), (0, None));
}

#[test]
fn failures_teach_nothing() {
    let now = Instant::now();
    let mut machine = Machine::new(Mode::Staged, &[0.999], now);
    for _ in 0..100 {
        let burst = passing(&mut machine, now);
        machine.answered(burst, now, false);
    }
    assert_eq!(machine.guard(0).time_of(1), None);
}

#[test]
fn no_more_are_held_than_may_be_whatever_the_mode() {
    let now = Instant::now();
    let mut machine = Machine::new(Mode::Grid(Duration::from_secs(250)), &[0.999], now);
    for _ in 0..HELD_MAX {
        assert_ne!(machine.due(now), Some(now));
        assert!(matches!(
            machine.comes(0, now + DEADLINE, now),
            Verdict::Hold(_)
        ));
    }
    assert_eq!(machine.due(now), Some(now));
}
