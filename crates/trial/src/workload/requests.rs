//! Requests and their answers at a pace that lets CPUs sleep in between.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::{Description, Gathered, Workload};
use crate::{Error, Result};
use reveille_kernel::affinity::Binding;

/// How often is asked.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pace {
    /// In each round.
    pub requests: u32,
    /// From an answer to the next request, on average: each pause is drawn evenly from half to one
    /// and a half of it, so that requests do not keep step with the machine's own timers.
    pub interval: Duration,
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
    pace: Pace,
    description: Description,
    random: fastrand::Rng,
}

/// After so many lost requests in a row the rest of the round is given up: each costs a timeout.
const LOST_IN_A_ROW: u32 = 5;
/// How often is asked before anything is changed.
const TRIES: u32 = 3;

impl<E: Exchange> Requests<E> {
    /// `asks_on` is the calling thread, where it was bound to a CPU; `seed` is that of the pauses
    /// between requests.
    pub fn new(
        exchange: E,
        asks_on: Option<Binding>,
        pace: Pace,
        description: Description,
        seed: u64,
    ) -> Self {
        Self {
            exchange,
            asks_on,
            pace,
            description,
            random: fastrand::Rng::with_seed(seed),
        }
    }

    fn pause(&mut self) {
        thread::sleep(self.pace.interval.mul_f64(0.5 + self.random.f64()));
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
        while Instant::now() + self.pace.interval / 2 < end && !stop.load(Ordering::Relaxed) {
            self.pause();
            let _ = self.exchange.ask(self.pace.timeout);
        }
    }

    fn round(&mut self, stop: &AtomicBool) -> Result<Gathered> {
        let mut gathered = Gathered::default();
        let mut lost_in_a_row = 0;
        for request in 0..self.pace.requests {
            if stop.load(Ordering::Relaxed) {
                break;
            }
            self.pause();
            match self.exchange.ask(self.pace.timeout) {
                // A signal may have cut the request short: that is no loss.
                Err(_) if stop.load(Ordering::Relaxed) => break,
                Err(why) => {
                    gathered.fail(|| why);
                    lost_in_a_row += 1;
                }
                Ok((round_trip_ns, reading_ns)) => {
                    gathered.figures.push(round_trip_ns);
                    gathered.reading_ns.extend(reading_ns);
                    lost_in_a_row = 0;
                }
            }
            if lost_in_a_row == LOST_IN_A_ROW {
                // Those that were not sent any more had no answer either.
                gathered.failed += u64::from(self.pace.requests - request - 1);
                break;
            }
        }
        // Figures of other CPUs than the result names are none of this round.
        let bound = [self.asks_on, self.exchange.bound()];
        bound.iter().flatten().try_for_each(Binding::holds)?;
        Ok(gathered)
    }

    fn expected(&self) -> Option<Duration> {
        Some(self.pace.interval * self.pace.requests)
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

    fn asking(mut answers: Vec<bool>, requests: u32) -> Requests<Listed> {
        answers.reverse();
        let pace = Pace {
            requests,
            interval: Duration::ZERO,
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
        Requests::new(Listed(answers), None, pace, description, 1)
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
