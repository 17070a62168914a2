//! Requests and their answers at a pace that lets CPUs sleep in between.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::rhythm::{Rhythm, Running, pause};
use super::{Description, Gathered, Workload};
use crate::{Error, Result};
use reveille_kernel::affinity::Binding;
use reveille_kernel::asleep::Counts;

/// How often is asked.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pace {
    /// In each round.
    pub requests: u32,
    /// When they are sent.
    pub rhythm: Rhythm,
    /// How long an answer is waited for.
    pub timeout: Duration,
}

/// The round trip by the asking thread's clock, and the time from the kernel's receive stamp, if there is
/// one, to the thread; ns. An error is the reason why no reply came.
pub type Answer = std::result::Result<(f64, Option<f64>), String>;

/// Someone who can be asked.
pub trait Exchange {
    /// Sends a request and waits for its answer, until `timeout`.
    fn ask(&mut self, timeout: Duration) -> Answer;

    /// Its own thread that answers, where that is bound to a CPU.
    fn bound(&self) -> Option<Binding> {
        None
    }
}

/// Asking as a workload.
pub struct Requests<E> {
    exchange: E,
    /// The asking thread, where it is bound to a CPU.
    asks_on: Option<Binding>,
    /// Of the CPU whose sleep in the pauses between bursts is counted.
    counts: Option<Counts>,
    pace: Pace,
    description: Description,
    random: fastrand::Rng,
}

/// After so many lost requests in a row the rest of the round is given up: each costs a timeout.
const LOST_IN_A_ROW: u32 = 5;
/// How often is asked before anything is changed.
const TRIES: u32 = 3;

impl<E: Exchange> Requests<E> {
    /// `asks_on` is the calling thread, where it was bound to a CPU; `counts` those of the CPU whose sleep in
    /// the pauses between bursts is counted; `seed` is that of the pauses between requests.
    pub fn new(
        exchange: E,
        asks_on: Option<Binding>,
        counts: Option<Counts>,
        pace: Pace,
        description: Description,
        seed: u64,
    ) -> Self {
        Self {
            exchange,
            asks_on,
            counts,
            pace,
            description,
            random: fastrand::Rng::with_seed(seed),
        }
    }
}

impl<E: Exchange> Workload for Requests<E> {
    fn description(&self) -> &Description {
        &self.description
    }

    fn try_once(&mut self) -> Result<()> {
        let mut last = String::new();
        for _ in 0..TRIES {
            match self.exchange.ask(self.pace.timeout) {
                Ok(_) => return Ok(()),
                Err(why) => last = why,
            }
        }
        let what = &self.description.what;
        Err(Error::Failed(format!(
            "{what}: none of {TRIES} requests was answered: {last}"
        )))
    }

    fn settle(&mut self, settle: Duration, stop: &AtomicBool) {
        let end = Instant::now() + settle;
        let interval = self.pace.rhythm.settling();
        while Instant::now() + interval / 2 < end && !stop.load(Ordering::Relaxed) {
            pause(interval, &mut self.random);
            let _ = self.exchange.ask(self.pace.timeout);
        }
    }

    fn round(&mut self, stop: &AtomicBool) -> Result<Gathered> {
        let mut gathered = Gathered::default();
        let mut bursts = match self.pace.rhythm {
            Rhythm::Bursts(bursts) => Some(Running::new(bursts, self.counts.as_ref())),
            Rhythm::Even(_) => None,
        };
        let mut lost_in_a_row = 0;
        for request in 0..self.pace.requests {
            if stop.load(Ordering::Relaxed) {
                break;
            }
            match &mut bursts {
                Some(bursts) => bursts.wait(request, &mut self.random),
                None => pause(self.pace.rhythm.settling(), &mut self.random),
            }
            let answer = self.exchange.ask(self.pace.timeout);
            let first = bursts.as_mut().and_then(Running::first);
            match answer {
                // A signal may have cut the request short: that is no loss.
                Err(_) if stop.load(Ordering::Relaxed) => break,
                Err(why) => {
                    gathered.fail(|| why);
                    lost_in_a_row += 1;
                }
                Ok((round_trip_ns, reading_ns)) => {
                    if let Some(first) = first {
                        first.push(round_trip_ns);
                    } else {
                        gathered.figures.push(round_trip_ns);
                        gathered.reading_ns.extend(reading_ns);
                    }
                    lost_in_a_row = 0;
                }
            }
            if lost_in_a_row == LOST_IN_A_ROW {
                // Those that were not sent any more had no answer either.
                gathered.failed += u64::from(self.pace.requests - request - 1);
                break;
            }
        }
        gathered.bursts = bursts.map(Running::end);
        // Figures of other CPUs than the result names are none of this round.
        let bound = [self.asks_on, self.exchange.bound()];
        bound.iter().flatten().try_for_each(Binding::holds)?;
        Ok(gathered)
    }

    fn expected(&self) -> Option<Duration> {
        Some(self.pace.rhythm.expected(self.pace.requests))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Replies, or not, by a list; in 1 µs.
    struct Listed(Vec<bool>);

    impl Exchange for Listed {
        fn ask(&mut self, _timeout: Duration) -> Answer {
            match self.0.pop() {
                Some(true) => Ok((1000.0, None)),
                _ => Err("no reply".into()),
            }
        }
    }

    fn asking(answers: Vec<bool>, requests: u32) -> Requests<Listed> {
        with_rhythm(answers, requests, Rhythm::Even(Duration::ZERO))
    }

    fn with_rhythm(mut answers: Vec<bool>, requests: u32, rhythm: Rhythm) -> Requests<Listed> {
        answers.reverse();
        let pace = Pace {
            requests,
            rhythm,
            timeout: Duration::from_secs(1),
        };
        let description = Description {
            kind: "echo".into(),
            what: "a test".into(),
            figure: "round trip".into(),
            unit: super::super::NANOSECONDS.into(),
            higher_is_better: false,
            pace: None,
            notes: vec![],
        };
        Requests::new(Listed(answers), None, None, pace, description, 1)
    }

    #[test]
    fn a_round_whose_binding_was_lost_is_an_error() {
        std::thread::spawn(|| {
            let cpus = nix::sched::sched_getaffinity(nix::unistd::Pid::from_raw(0)).unwrap();
            let allowed = reveille_kernel::affinity::allowed();
            if allowed.len() < 2 {
                return println!("skipped: needs two CPUs");
            }
            let mut requests = asking(vec![true; 2], 1);
            requests.asks_on = Some(Binding::here(allowed[1]).unwrap());
            let stop = AtomicBool::new(false);
            assert_eq!(requests.round(&stop).unwrap().figures, [1000.0]);
            // As the kernel does when the CPU goes offline.
            nix::sched::sched_setaffinity(nix::unistd::Pid::from_raw(0), &cpus).unwrap();
            let error = requests.round(&stop).unwrap_err().to_string();
            assert!(
                error.contains(&format!("CPU {} went offline", allowed[1])),
                "{error}"
            );
        })
        .join()
        .unwrap();
    }

    #[test]
    fn lost_requests_are_counted_and_have_no_figure() {
        let mut requests = asking(vec![true, false, true, true], 4);
        let gathered = requests.round(&AtomicBool::new(false)).unwrap();
        assert_eq!(gathered.figures, [1000.0; 3]);
        assert_eq!(
            (gathered.failed, gathered.why.as_deref()),
            (1, Some("no reply"))
        );
    }

    #[test]
    fn a_round_whose_requests_are_all_lost_is_ended_early_and_all_are_counted() {
        let mut requests = asking(vec![], 1000);
        let gathered = requests.round(&AtomicBool::new(false)).unwrap();
        assert_eq!((gathered.figures.len(), gathered.failed), (0, 1000));
    }

    /// In two bursts of three requests.
    fn in_bursts(answers: Vec<bool>) -> Gathered {
        let bursts = "1000/s,3ms,20ms".parse().unwrap();
        let mut requests = with_rhythm(answers, 6, Rhythm::Bursts(bursts));
        requests.round(&AtomicBool::new(false)).unwrap()
    }

    #[test]
    fn a_bursts_first_request_is_apart_and_its_pause_is_waited_for() {
        let began = Instant::now();
        let gathered = in_bursts(vec![true; 6]);
        // At least half of each pause, and two periods in each burst.
        assert!(began.elapsed() >= Duration::from_millis(2 * 10 + 2 * 2));
        assert_eq!(gathered.figures, [1000.0; 4]);
        let bursts = gathered.bursts.unwrap();
        assert_eq!(
            (bursts.first, bursts.asleep_percent),
            (vec![1000.0; 2], None)
        );
    }

    #[test]
    fn a_lost_first_request_leaves_its_burst_without_a_first() {
        let gathered = in_bursts(vec![false, true, true, true, false, true]);
        assert_eq!((gathered.figures.len(), gathered.failed), (3, 2));
        assert_eq!(gathered.bursts.unwrap().first, [1000.0]);
    }

    /// Answers after a time.
    struct Slow(Duration);

    impl Exchange for Slow {
        fn ask(&mut self, _timeout: Duration) -> Answer {
            std::thread::sleep(self.0);
            Ok((1000.0, None))
        }
    }

    #[test]
    fn after_a_late_answer_the_next_request_is_sent_at_once_and_counted() {
        let quick = asking(vec![], 0);
        let bursts = "100/s,50ms,1ms".parse().unwrap();
        let pace = Pace {
            requests: 5,
            rhythm: Rhythm::Bursts(bursts),
            ..quick.pace
        };
        let slow = Slow(Duration::from_millis(25));
        let mut slow = Requests::new(slow, None, None, pace, quick.description, 1);
        let began = Instant::now();
        let gathered = slow.round(&AtomicBool::new(false)).unwrap();
        assert!(began.elapsed() >= Duration::from_millis(5 * 25));
        assert_eq!(
            (gathered.figures.len(), gathered.bursts.unwrap().late),
            (4, 4)
        );
    }

    #[test]
    fn one_answer_in_three_tries_is_enough_to_start() {
        assert!(asking(vec![false, false, true], 1).try_once().is_ok());
        let error = asking(vec![false; 3], 1).try_once().unwrap_err();
        assert!(error.to_string().contains("no reply"), "{error}");
    }

    #[test]
    fn an_interrupted_round_keeps_its_replies() {
        let stop = AtomicBool::new(true);
        let gathered = asking(vec![true; 9], 9).round(&stop).unwrap();
        assert_eq!(gathered, Gathered::default());
    }
}
