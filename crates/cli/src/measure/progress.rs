//! The progress bar: rate, datapoints per state, time left.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use reveille_measure::Progress;
use reveille_show::terminal::shown;

use crate::exit;

/// Nothing is drawn where standard error is no terminal; notices are printed all the same.
pub struct Bar(ProgressBar);

const STEPS: u64 = 1000;

impl Bar {
    pub fn new() -> Self {
        // Drawn when told, about ten times a second: no thread of its own.
        let bar =
            ProgressBar::with_draw_target(Some(STEPS), ProgressDrawTarget::stderr_with_hz(10));
        // Two lines, so that neither is longer than the terminal is wide.
        let style =
            ProgressStyle::with_template("{prefix} [{wide_bar}] {percent:>3}%\n  {wide_msg}");
        bar.set_style(style.expect("the template is valid").progress_chars("=> "));
        Self(bar)
    }

    pub fn show(&self, progress: &Progress<'_>) {
        self.0.set_prefix(progress.phase.to_owned());
        self.0.set_position((progress.done * STEPS as f64) as u64);
        self.0.set_message(shown(&message(progress)).into_owned());
    }

    pub fn say(&self, text: &str) {
        self.0.suspend(|| exit::say(text));
    }

    pub fn clear(&self) {
        self.0.finish_and_clear();
    }
}

fn message(progress: &Progress<'_>) -> String {
    if progress.kept == 0 {
        return String::new();
    }
    let states: Vec<_> = progress
        .by_state
        .iter()
        .map(|(state, count)| format!("{state} {count}"))
        .collect();
    let left = match progress.left {
        Some(left) => format!(", {} left", humantime::format_duration(round(left))),
        None => String::new(),
    };
    format!("{:.0}/s{left}:  {}", progress.rate, states.join("  "))
}

fn round(duration: Duration) -> Duration {
    Duration::from_secs(duration.as_secs_f64().ceil() as u64)
}
