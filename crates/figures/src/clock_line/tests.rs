//! Simulated clocks, whose truth is known, and the geometry by hand.

use super::*;
use crate::quantile::{MEDIAN, P99, Share};
use crate::random::Random;

/// Where in its bracket the foreign clock is read.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Read {
    Anywhere,
    Start,
    End,
    EitherEnd,
    /// In the middle fifth.
    Middle,
    /// In the first of two reads; the limits know the least time of the second.
    FirstOfTwo,
    /// At the start before the launch, and at the end after it.
    StartThenEnd,
}

/// What happens now and then.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Event {
    /// The foreign clock steps by 1 µs to 1 s, either way.
    Step,
    /// The same by up to 2 µs.
    SmallStep,
    /// CLOCK_MONOTONIC stands still, as in suspend, for 1 ms to 1000 s.
    Suspend,
    /// The rate changes at once by up to 20 ppm.
    RateChange,
}

/// One launch in so many has the event: with pauses of 50 ms the memory of 64 bursts holds one at a time.
const ONE_IN: u64 = 100;

/// Where an event is.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Place {
    Pause,
    BurstBefore,
    BetweenBursts,
    BurstAfter,
}

/// ns.
const DISTANCES: (f64, f64) = (1e5, 5e7);
const LONG_DISTANCES: (f64, f64) = (2e7, 5e7);

const LIMITS: Limits = Limits {
    max_ppb: 100_000,
    wander_ppb_per_s: 1000,
    resolution_ns: 8,
    latch_to_after_ns: 0,
};

/// The least time of one read, ns.
const LEAST_READ: f64 = 250.0;

/// Two clocks. Times are ns since the origins, so that `f64` resolves them to 1/1000 ns.
struct Clocks {
    random: Random,
    foreign_origin: u64,
    monotonic_origin: u64,
    foreign: f64,
    monotonic: f64,
    /// ns of CLOCK_MONOTONIC per ns of the foreign clock, less 1.
    rate: f64,
    /// Change of the rate per ns.
    wander: f64,
}

impl Clocks {
    fn new(seed: u64) -> Self {
        let mut random = Random(seed);
        let rate = 2e-4 * random.uniform() - 1e-4;
        let mut origin = || (random.uniform() * 2e18) as u64 + (1 << 54) + 1;
        Self {
            foreign_origin: origin(),
            monotonic_origin: origin(),
            random,
            foreign: 0.0,
            monotonic: 0.0,
            rate,
            wander: 0.0,
        }
    }

    fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.random.uniform()
    }

    /// Evenly in the logarithm.
    fn scale(&mut self, low: f64, high: f64) -> f64 {
        self.between(low.ln(), high.ln()).exp()
    }

    /// Lets `ns` of the foreign clock pass.
    fn pass(&mut self, ns: f64) {
        self.monotonic += ns * (1.0 + self.rate + self.wander * ns / 2.0);
        self.foreign += ns;
        self.rate += self.wander * ns;
    }

    /// A new speed of the rate, at most 1 ppm/s; near its limits the rate turns back.
    fn turn(&mut self) {
        self.wander = self.between(-1e-15, 1e-15);
        if self.rate.abs() > 0.99e-4 {
            self.wander = -self.wander.abs() * self.rate.signum();
        }
    }

    /// Log-normal about 1.2 µs, at least 0.5 µs; one in 20 has a Pareto tail.
    fn width(&mut self) -> f64 {
        let (u, v) = (self.random.uniform(), self.random.uniform());
        let normal = (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos();
        let tail = if self.random.uniform() < 0.05 {
            self.random.uniform().powf(-1.0 / 1.5).min(1e3)
        } else {
            1.0
        };
        (1200.0 * (0.5 * normal).exp() * tail).max(2.0 * LEAST_READ)
    }

    fn monotonic_ns(&self) -> u64 {
        self.monotonic_origin + self.monotonic.floor() as u64
    }

    fn foreign_ns(&self) -> u64 {
        let resolution = u64::from(LIMITS.resolution_ns);
        let since = self.foreign.floor() as i64;
        self.foreign_origin.wrapping_add_signed(since) / resolution * resolution
    }

    fn sample(&mut self, read: Read, after: bool) -> Sample {
        let width = self.width();
        let share = match read {
            Read::Anywhere => self.random.uniform(),
            Read::Start => 0.0,
            Read::End => 1.0,
            Read::EitherEnd => self.random.uniform().round(),
            Read::Middle => self.between(0.4, 0.6),
            Read::FirstOfTwo => {
                let first = self.between(LEAST_READ, width - LEAST_READ);
                self.between(0.0, first) / width
            }
            Read::StartThenEnd => f64::from(u8::from(after)),
        };
        let before_ns = self.monotonic_ns();
        self.pass(width * share);
        let foreign_ns = self.foreign_ns();
        self.pass(width * (1.0 - share));
        let after_ns = self.monotonic_ns();
        self.pass(30.0);
        Sample {
            before_ns,
            foreign_ns,
            after_ns,
        }
    }

    /// Ten samples, with the event before one of them.
    fn burst(&mut self, read: Read, after: bool, event: Option<Event>) -> Vec<Sample> {
        let position = self.between(0.0, 10.0) as usize;
        let sample = |index| {
            if let Some(event) = event.filter(|_| index == position) {
                self.happen(event);
            }
            self.sample(read, after)
        };
        (0..10).map(sample).collect()
    }

    /// Returns by how much the foreign clock leaves its line, ns.
    fn happen(&mut self, event: Event) -> f64 {
        let sign = (self.random.uniform() - 0.5).signum();
        let jump = match event {
            Event::Step => sign * self.scale(1e3, 1e9),
            Event::SmallStep => sign * self.between(0.0, 2e3),
            Event::Suspend => self.scale(1e6, 1e12),
            Event::RateChange => {
                self.rate -= self.rate.signum() * self.between(0.0, 2e-5);
                0.0
            }
        };
        self.foreign += jump;
        jump
    }
}

#[derive(Debug, Clone, Copy)]
struct Scenario {
    read: Read,
    event: Option<Event>,
    /// From arming to the launch, ns, evenly in the logarithm.
    distances: (f64, f64),
    launches: u64,
}

/// What came of the launches of one scenario.
#[derive(Default)]
struct Outcome {
    launches: u64,
    /// Errors and bounds, ns, where the rate is known: half a second after the last drop.
    errors: Vec<f64>,
    bounds: Vec<f64>,
    /// Launches before that.
    early: u64,
    outside_bound: u64,
    extrapolated: u64,
    extrapolated_outside: u64,
    dropped: u64,
    dropped_without_event: u64,
    /// Steps larger than both brackets and what the rate leaves open.
    visible_steps: u64,
    visible_not_dropped: u64,
}

/// Launches over one pair of clocks.
fn series(seed: u64, scenario: Scenario, launches: u64, outcome: &mut Outcome) {
    let Scenario { read, event, .. } = scenario;
    let mut clocks = Clocks::new(seed);
    let latch_to_after_ns = match read {
        Read::FirstOfTwo => LEAST_READ as u32,
        _ => 0,
    };
    let mut line = ClockLine::new(Limits {
        latch_to_after_ns,
        ..LIMITS
    });
    for after in [false, true] {
        let burst = clocks.burst(read, after, None);
        line.add(&burst).unwrap();
        clocks.pass(5e8);
    }
    let mut known_from = 0.0;
    for launch in 0..launches {
        clocks.turn();
        let event = event.filter(|_| launch % ONE_IN == ONE_IN / 2);
        let place = match clocks.between(0.0, 6.0) as u8 {
            0 => Place::Pause,
            1 => Place::BurstBefore,
            2 => Place::BurstAfter,
            _ => Place::BetweenBursts,
        };
        let event_in = |here| event.filter(|_| place == here);
        if let Some(event) = event_in(Place::Pause) {
            clocks.happen(event);
        }
        let before = clocks.burst(read, false, event_in(Place::BurstBefore));
        let arming = clocks.between(2e3, 5e4);
        clocks.pass(arming);
        let distance = clocks.scale(scenario.distances.0, scenario.distances.1);
        let target = (clocks.foreign + distance).floor();
        let to_target = target - clocks.foreign;
        let to_after = clocks.scale(2e4, 5e5);
        let at = clocks.between(0.0, to_target + to_after);
        let mut jump = 0.0;
        let between = event_in(Place::BetweenBursts);
        if let Some(event) = between.filter(|_| at < to_target) {
            clocks.pass(at);
            jump = clocks.happen(event);
            // If the clock steps across the launch, it comes at once.
            let rest = (target - clocks.foreign).max(0.0);
            clocks.pass(rest);
        } else {
            clocks.pass(to_target);
        }
        let truth = clocks.monotonic;
        if let Some(event) = between.filter(|_| at >= to_target) {
            clocks.pass(at - to_target);
            jump = clocks.happen(event);
        }
        clocks.pass(to_after);
        let after = clocks.burst(read, true, event_in(Place::BurstAfter));

        let target = clocks.foreign_origin.wrapping_add_signed(target as i64);
        let origin = clocks.monotonic_origin;
        let error = |instant: Instant| {
            let error = (instant.at_ns.wrapping_sub(origin) as i64 as f64 - truth).abs();
            // Half a nanosecond for the rounding of the simulation itself.
            (error, error > instant.error_ns as f64 + 0.5)
        };
        let mut visible = false;
        if event.is_some() || launch % 10 == 0 {
            let mut line = line.clone();
            let _ = line.add(&before);
            let later = Reading::narrowest(&after, &line.limits).unwrap();
            let expected = line.extrapolate(later.foreign as u64).unwrap();
            let width = (later.at.high - later.at.low) as f64;
            visible = jump.abs() > 2.0 * expected.error_ns as f64 + width + 2.0;
            outcome.extrapolated += 1;
            let (_, outside) = error(line.extrapolate(target).unwrap());
            outcome.extrapolated_outside += u64::from(outside);
        }
        outcome.launches += 1;
        outcome.visible_steps += u64::from(visible);
        match line.launch(&before, target, &after) {
            Ok(instant) => {
                let (error, outside) = error(instant);
                outcome.outside_bound += u64::from(outside);
                outcome.visible_not_dropped += u64::from(visible);
                if clocks.monotonic >= known_from {
                    outcome.errors.push(error);
                    outcome.bounds.push(instant.error_ns as f64);
                } else {
                    outcome.early += 1;
                }
            }
            Err(_) => {
                outcome.dropped += 1;
                outcome.dropped_without_event += u64::from(event.is_none());
                known_from = clocks.monotonic + 5e8;
            }
        }
        let pause = match scenario.event {
            Some(_) => clocks.between(5.1e7, 6e7),
            None => clocks.scale(1e5, 2e7),
        };
        clocks.pass(pause);
    }
}

/// Runs a scenario, checks what holds in each, and returns by how much the bound's p99 exceeds the error's.
fn run(scenario: Scenario) -> f64 {
    const EACH: u64 = 2000;
    let mut outcome = Outcome::default();
    for seed in 0..scenario.launches / EACH {
        series(seed * 7919 + 1, scenario, EACH, &mut outcome);
    }
    let of = |sample: &mut Vec<f64>| {
        sample.sort_unstable_by(f64::total_cmp);
        [MEDIAN, P99, Share(1, 1)].map(|quantile| quantile.of(sample).unwrap())
    };
    let (errors, bounds) = (of(&mut outcome.errors), of(&mut outcome.bounds));
    println!(
        "{scenario:?}: {} launches, outside {} (extrapolated {} of {}), dropped {} ({} without event), \
         early {}, visible steps {} ({} not dropped); error p50 p99 max {:.0?} ns, \
         bound p50 p99 max {:.0?} ns; median, p99, max of the bound {:.2?} times the error's p99",
        outcome.launches,
        outcome.outside_bound,
        outcome.extrapolated_outside,
        outcome.extrapolated,
        outcome.dropped,
        outcome.dropped_without_event,
        outcome.early,
        outcome.visible_steps,
        outcome.visible_not_dropped,
        errors,
        bounds,
        bounds.map(|bound| bound / errors[1]),
    );
    assert_eq!(outcome.outside_bound, 0);
    assert_eq!(outcome.visible_not_dropped, 0);
    if scenario.event.is_none() {
        assert_eq!(outcome.extrapolated_outside, 0);
        assert_eq!(outcome.dropped, 0);
    }
    bounds[1] / errors[1]
}

/// With the other two simulations a million launches.
#[test]
fn the_bound_holds_in_each_launch_and_is_at_most_three_times_the_99th_percentile_of_the_error() {
    for read in [
        Read::Anywhere,
        Read::Start,
        Read::End,
        Read::EitherEnd,
        Read::FirstOfTwo,
    ] {
        for distances in [DISTANCES, LONG_DISTANCES] {
            let ratio = run(Scenario {
                read,
                event: None,
                distances,
                launches: 60_000,
            });
            assert!(ratio <= 3.0);
        }
    }
}

#[test]
fn a_step_that_the_brackets_show_drops_the_launch_and_the_bound_covers_any_other() {
    for event in [
        Event::Step,
        Event::SmallStep,
        Event::Suspend,
        Event::RateChange,
    ] {
        for read in [Read::Anywhere, Read::EitherEnd] {
            let ratio = run(Scenario {
                read,
                event: Some(event),
                distances: DISTANCES,
                launches: 40_000,
            });
            assert!(ratio <= 3.0);
        }
    }
}

/// The samples do not show where in the bracket the clock is read, so the bound is wide here.
#[test]
fn the_bound_holds_where_the_errors_of_the_samples_cancel() {
    for read in [Read::Middle, Read::StartThenEnd] {
        run(Scenario {
            read,
            event: None,
            distances: DISTANCES,
            launches: 40_000,
        });
    }
}

const EXACT: Limits = Limits {
    max_ppb: 0,
    wander_ppb_per_s: 0,
    resolution_ns: 1,
    latch_to_after_ns: 0,
};

/// A burst of one sample whose bracket is 100 ns.
fn burst(before_ns: u64, foreign_ns: u64) -> [Sample; 1] {
    [Sample {
        before_ns,
        foreign_ns,
        after_ns: before_ns + 100,
    }]
}

#[test]
fn a_launch_is_interpolated_exactly_over_the_whole_range_of_integers() {
    let last = u64::MAX - 10_000;
    for (monotonic, foreign) in [(0, 0), ((1 << 53) + 1, (1 << 60) + 1), (1, last), (last, 1)] {
        let mut line = ClockLine::new(EXACT);
        let before = burst(monotonic + 1000, foreign + 5000);
        let after = burst(monotonic + 3000, foreign + 7000);
        // Rounding widens the bracket by 2 ns below and 1 ns above, the bend by 1 ns each.
        let launch = Instant {
            at_ns: monotonic + 2049,
            error_ns: 53,
        };
        assert_eq!(line.launch(&before, foreign + 6000, &after), Ok(launch));
    }
}

#[test]
fn the_rate_comes_from_earlier_bursts_and_its_uncertainty_grows_with_the_distance_and_the_wander() {
    for (wander_ppb_per_s, error_ns) in [(0, 156), (10, 171)] {
        let mut line = ClockLine::new(Limits {
            max_ppb: 100_000,
            wander_ppb_per_s,
            ..EXACT
        });
        assert_eq!(line.extrapolate(0), None);
        line.add(&burst(0, 0)).unwrap();
        line.add(&burst(1_000_050_000, 1_000_000_000)).unwrap();
        // 50 ppm, give or take 103 ns/s; and 10 ppb/s over the 1.5 s from the middle.
        let instant = Instant {
            at_ns: 2_000_100_049,
            error_ns,
        };
        assert_eq!(line.extrapolate(2_000_000_000), Some(instant));
    }
}

#[test]
fn the_bound_covers_the_bend_of_the_line_between_the_bursts() {
    let mut line = ClockLine::new(Limits {
        wander_ppb_per_s: 1_000_000,
        ..EXACT
    });
    let start = 1_u64 << 40;
    // The rate goes evenly from -1000 to 1000 ppm in 2 s: in the middle the line lies 500 µs below the chord.
    let before = burst(start, 0);
    let after = burst(start + 2_000_000_000, 2_000_000_000);
    let launch = line.launch(&before, 1_000_000_000, &after).unwrap();
    assert!(launch.at_ns.abs_diff(start + 999_500_000) <= launch.error_ns);
}

#[test]
fn the_narrowest_bracket_counts_and_an_impossible_one_does_not() {
    let sample = |before_ns, after_ns| Sample {
        before_ns,
        foreign_ns: 5000,
        after_ns,
    };
    let instant = |burst: &[Sample], latch_to_after_ns| {
        let mut line = ClockLine::new(Limits {
            latch_to_after_ns,
            ..EXACT
        });
        line.add(burst)?;
        let instant = line.extrapolate(5000).unwrap();
        Ok((instant.at_ns, instant.error_ns))
    };
    let burst = [sample(800, 1200), sample(1150, 1250), sample(1300, 1299)];
    assert_eq!(instant(&burst, 0), Ok((1199, 52)));
    // Latched in the first of two reads of 50 ns: a quarter of the way.
    assert_eq!(instant(&burst, 50), Ok((1174, 27)));
    assert_eq!(instant(&burst, 100), Ok((1149, 2)));
    assert_eq!(instant(&burst[1..], 101), Err(Dropped::NoSample));
    assert_eq!(instant(&[], 0), Err(Dropped::NoSample));
}

#[test]
fn a_launch_that_is_not_between_its_bursts_has_no_instant() {
    let mut line = ClockLine::new(EXACT);
    let (before, after) = (burst(1000, 5000), burst(3000, 7000));
    for outside in [4999, 7001] {
        let launch = line.clone().launch(&before, outside, &after);
        assert_eq!(launch, Err(Dropped::Outside));
    }
    for inside in [5000, 7000] {
        assert!(line.clone().launch(&before, inside, &after).is_ok());
    }
    assert_eq!(line.launch(&before, 6000, &[]), Err(Dropped::NoSample));
    assert_eq!(line.launch(&[], 6000, &after), Err(Dropped::NoSample));
}

#[test]
fn a_step_across_the_launch_drops_it_and_one_before_it_does_not() {
    let start = 1_u64 << 40;
    // Rounding widens the brackets to 103 ns.
    for (step, stepped) in [(-104_i64, true), (-103, false), (103, false), (104, true)] {
        let stepped_to = |ns: u64| ns.wrapping_add_signed(step);
        let mut line = ClockLine::new(EXACT);
        line.add(&burst(start, 1000)).unwrap();
        let launch = line.launch(
            &burst(start + 1000, 2000),
            2500,
            &burst(start + 2000, stepped_to(3000)),
        );
        assert_eq!(launch.is_err(), stepped, "{step}");
        assert_eq!(line.steps(), u64::from(stepped));
        match launch {
            // The clock reads 2500 at 1500, or at 1500 - step if that is before the burst after it.
            Ok(launch) => {
                for read_at in [0, 100] {
                    for truth in [1500_i64, 1500 - step] {
                        let truth = start.wrapping_add_signed(truth + read_at);
                        assert!(truth.abs_diff(launch.at_ns) <= launch.error_ns, "{step}");
                    }
                }
            }
            Err(error) => assert_eq!(error, Dropped::Stepped),
        }
        let mut line = ClockLine::new(EXACT);
        line.add(&burst(start, 1000)).unwrap();
        let (before, after) = (stepped_to(2000), stepped_to(3000));
        let launch = line.launch(
            &burst(start + 1000, before),
            stepped_to(2500),
            &burst(start + 2000, after),
        );
        assert_eq!(launch.unwrap().at_ns, start + 1549);
        assert_eq!(line.steps(), u64::from(stepped));
    }
}

#[test]
fn the_rate_after_a_step_is_not_that_across_it() {
    let mut line = ClockLine::new(Limits {
        max_ppb: 100_000,
        ..EXACT
    });
    for index in 0..30 {
        line.add(&burst(index * 100_000_000, index * 100_000_000))
            .unwrap();
    }
    let after = burst(3_000_000_000, 3_000_001_000);
    assert_eq!(line.add(&after), Err(Dropped::Stepped));
    assert_eq!((line.steps(), line.rate_changes()), (1, 0));
    let instant = line.extrapolate(13_000_001_000).unwrap();
    assert!(instant.at_ns.abs_diff(13_000_000_050) <= instant.error_ns);
}

#[test]
fn a_change_of_the_rate_is_counted_and_older_bursts_are_forgotten() {
    let mut line = ClockLine::new(Limits {
        max_ppb: 100_000,
        ..EXACT
    });
    // 100 ms apart; at first at 0, then at 0.5 ppm.
    let at = |index: u64| index * 100_000_000 + index.saturating_sub(30) * 50;
    let changes = |line: &mut ClockLine, indices: std::ops::Range<u64>| {
        for index in indices {
            line.add(&burst(at(index), index * 100_000_000)).unwrap();
        }
        line.rate_changes()
    };
    assert_eq!(changes(&mut line, 0..31), 0);
    let changed = changes(&mut line, 31..60);
    assert!(changed > 0);
    assert_eq!(changes(&mut line, 60..90), changed);
    let instant = line.extrapolate(100 * 100_000_000).unwrap();
    assert!(instant.at_ns.abs_diff(at(100) + 50) <= instant.error_ns);
    assert_eq!(line.steps(), 0);
}

#[test]
fn the_memory_is_bounded_and_spans_three_seconds() {
    let mut line = ClockLine::new(EXACT);
    for index in 0..10_000 {
        line.add(&burst(index * 10_000_000, index * 10_000_000))
            .unwrap();
    }
    assert_eq!(line.memory.len(), 64);
    let span = line.memory[63].foreign - line.memory[0].foreign;
    assert_eq!(span, 63 * 50_000_000);
}

#[test]
fn no_sample_and_no_limit_overflows() {
    let mut random = Random(1);
    let mut any = || {
        let values = [0, 1, 1 << 53, 1 << 63, u64::MAX - 1, u64::MAX];
        values[(random.uniform() * 6.0) as usize]
    };
    for limit in [0, 1, u32::MAX] {
        let mut line = ClockLine::new(Limits {
            max_ppb: limit,
            wander_ppb_per_s: limit,
            resolution_ns: limit.max(1),
            latch_to_after_ns: 0,
        });
        for _ in 0..10_000 {
            let mut burst = || {
                [Sample {
                    before_ns: any(),
                    foreign_ns: any(),
                    after_ns: any(),
                }]
            };
            let (before, after) = (burst(), burst());
            let target = any();
            if let Ok(instant) = line.launch(&before, target, &after) {
                assert!(instant.at_ns.checked_add(instant.error_ns).is_some());
            }
            line.extrapolate(any());
        }
    }
}
