//! Suspends of which the log has the beginning and no end.

use super::CycleResult;
use crate::cycle::time;

/// How such a suspend went wrong, and what the log has last.
pub(super) fn stopped(cycle: &CycleResult) -> Option<(&'static str, String)> {
    let seconds = || format!("{:.3}", cycle.start_us as f64 / 1e6);
    let begun = cycle.at.clone().unwrap_or_else(seconds);
    let begun = format!("the suspend that began at {begun}");
    if cycle.stalls() {
        let last = cycle.gaps.first().map_or(String::new(), |gap| {
            format!("; its last line is \u{201c}{}\u{201d}", gap.message)
        });
        let later = time(cycle.until_us() - cycle.start_us);
        let what = format!("{begun} had not frozen the processes {later} later{last}");
        return Some(("never froze", what));
    }
    let stop = cycle.stop.as_ref().filter(|stop| stop.boots)?;
    let later = |us| format!("{} later", time(us));
    let after = stop.after_us.map_or("next".to_owned(), later);
    let what = format!(
        "{begun} has no line after \u{201c}{}\u{201d}; the machine boots {after}",
        stop.message
    );
    Some(("never resumed", what))
}
