//! A made-up meter for tests.

use std::ops::Range;
use std::time::{Duration, Instant};

use reveille_kernel::{Error, Result};

use crate::reading::{About, Counts, Meter, Scope};

/// 40 W, counted in steps of a period; a value of power has `values` in turn, each `more` W higher.
pub struct Made {
    about: About,
    began: Instant,
    period_s: f64,
    pub more: f64,
    pub values: f64,
    /// From then on it stands still, s.
    pub stops_s: f64,
    /// It counts nothing, s.
    pub halts_s: Range<f64>,
    /// Readings fail, s.
    pub fails: Vec<Range<f64>>,
    /// From then on each reading takes so long, s.
    pub slow_s: (f64, f64),
}

impl Made {
    pub fn new(counts: Counts, period_s: f64) -> Self {
        let about = About {
            name: "made-up".to_owned(),
            scope: Scope::Other,
            counts,
            resolution: None,
            range_j: None,
        };
        Self {
            about,
            began: Instant::now(),
            period_s,
            more: 1.0,
            values: 2.0,
            stops_s: f64::INFINITY,
            halts_s: 0.0..0.0,
            fails: Vec::new(),
            slow_s: (f64::INFINITY, 0.0),
        }
    }

    /// What it counts s after it began.
    pub fn value(&self, s: f64) -> f64 {
        let halted_s = s.clamp(self.halts_s.start, self.halts_s.end) - self.halts_s.start;
        let step = ((s.min(self.stops_s) - halted_s) / self.period_s).floor();
        match self.about.counts {
            Counts::Energy => step * self.period_s * 40.0,
            Counts::Power => 40.0 + step % self.values * self.more,
        }
    }
}

impl Meter for Made {
    fn about(&self) -> &About {
        &self.about
    }

    fn read(&mut self) -> Result<f64> {
        let (slow_from_s, takes_s) = self.slow_s;
        if self.began.elapsed().as_secs_f64() >= slow_from_s {
            std::thread::sleep(Duration::from_secs_f64(takes_s));
        }
        let s = self.began.elapsed().as_secs_f64();
        if self.fails.iter().any(|range| range.contains(&s)) {
            return Err(Error::Failed("no answer".into()));
        }
        Ok(self.value(s))
    }
}
