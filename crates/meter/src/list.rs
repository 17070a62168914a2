//! Which meters there are, and how good each is.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use reveille_kernel::{Error, Result, Root};
use reveille_show::quantity::duration;
use serde::Serialize;

use crate::choose::{Found, find, named};
use crate::watch::{Watched, watch};

/// The result of `reveille power meters`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Meters {
    /// How long each was watched, s.
    pub watched_s: f64,
    /// Those that gave readings.
    pub meters: Vec<Watched>,
    /// Why others gave none: a sentence each.
    pub missing: Vec<String>,
}

impl Meters {
    /// Watches the meters of these names, or without names all that are found, one after the other, each for `time`, or
    /// until `stop`. `progress` is told before each: its name and the share of meters done.
    ///
    /// # Errors
    /// Of the only meter that was named; [`Error::Usage`] for any name that is none.
    pub fn watch(
        root: &Root,
        names: &[String],
        time: Duration,
        stop: &AtomicBool,
        progress: &mut dyn FnMut(&str, f64),
    ) -> Result<Self> {
        let is_only = names.len() == 1;
        let found = match names {
            [] => find(root),
            names => {
                let mut found = Found::default();
                for name in names {
                    match named(root, name) {
                        Ok(meter) => found.meters.push(meter),
                        Err(why) if is_only || matches!(why, Error::Usage(_)) => return Err(why),
                        Err(why) => found.missing.push(why.to_string()),
                    }
                }
                found
            }
        };
        let mut result = Self {
            watched_s: time.as_secs_f64(),
            meters: Vec::new(),
            missing: found.missing,
        };
        let all = found.meters.len() as f64;
        for (place, mut meter) in found.meters.into_iter().enumerate() {
            progress(&meter.about().name, place as f64 / all);
            let began = Instant::now();
            let name = meter.about().name.clone();
            let watched = watch(meter.as_mut(), time, stop).and_then(|watched| {
                if watched.stands_still() && !stop.load(Ordering::Relaxed) {
                    return Err(Error::Failed(format!(
                        "{name}: the counter did not change in {}; it stands still, or is too coarse for that time",
                        duration(time.as_nanos() as f64)
                    )));
                }
                Ok(watched)
            });
            let is_cut_off = stop.load(Ordering::Relaxed);
            match watched {
                // The others were watched for the whole time.
                Ok(_) if is_cut_off && !result.meters.is_empty() => {}
                Ok(watched) => {
                    if is_cut_off {
                        result.watched_s = began.elapsed().min(time).as_secs_f64();
                    }
                    result.meters.push(watched);
                }
                Err(why) if is_only => return Err(why),
                Err(why) => result.missing.push(why.to_string()),
            }
            if is_cut_off {
                break;
            }
        }
        Ok(result)
    }
}
