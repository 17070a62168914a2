//! A process that connects every 20 ms, as an application does, and reports the outcome.

use std::path::Path;
use std::time::{Duration, Instant};

use reveille_expect::{Refusal, Served, Waker, monotonic_ns};
use serde::{Deserialize, Serialize};

const EVERY: Duration = Duration::from_millis(20);
/// One in this many also requests a window.
const ASKS: usize = 5;

#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Account {
    /// ms, sorted.
    pub welcomed_ms: Vec<f64>,
    /// Why there was no engine.
    pub failed: Vec<String>,
    /// Windows that were requested, and those that were refused because others have all places.
    pub asked: u64,
    pub crowded_out: u64,
}

pub fn run(path: &Path, duration: Duration) {
    let mut account = Account::default();
    let until = Instant::now() + duration;
    for turn in 0.. {
        let began = Instant::now();
        if began >= until {
            break;
        }
        let mut waker = Waker::connect_to(path);
        match waker.served() {
            Served::ByEngine => {
                let took = began.elapsed().as_secs_f64();
                account.welcomed_ms.push(took * 1e3);
                if turn % ASKS == 0 {
                    let _ = waker.expect_on(0, monotonic_ns() + 5_000_000, 100_000);
                    waker.wait_for_answers(Duration::from_secs(1));
                    let counts = waker.counts();
                    account.asked += 1;
                    account.crowded_out += counts.refused(Refusal::Slots);
                }
            }
            Served::ByThread(why) | Served::ByNobody(why) => account.failed.push(why),
        }
        drop(waker);
        std::thread::sleep(EVERY.saturating_sub(began.elapsed()));
    }
    account.welcomed_ms.sort_by(f64::total_cmp);
    println!(
        "{}",
        serde_json::to_string(&account).expect("numbers and words")
    );
}

impl Account {
    /// That quantile of all connections, with failed ones as the slowest, ms.
    pub fn quantile_ms(&self, part: f64) -> f64 {
        let all = self.welcomed_ms.len() + self.failed.len();
        let place = (part * all as f64).ceil() as usize;
        let at = |place: usize| self.welcomed_ms.get(place).copied();
        at(place.saturating_sub(1)).unwrap_or(f64::INFINITY)
    }
}
