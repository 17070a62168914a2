//! The bar: round, setting, time left. Drawn between turns only: drawing wakes CPUs.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use reveille_show::terminal::shown;
use reveille_trial::run::Progress;

/// Nothing is drawn where standard error is no terminal.
pub struct Bar {
    bar: ProgressBar,
    rounds: u32,
}

const STEPS: u64 = 1000;

impl Bar {
    pub fn new(rounds: u32) -> Self {
        let bar = ProgressBar::with_draw_target(Some(STEPS), ProgressDrawTarget::stderr());
        let style = ProgressStyle::with_template("{prefix} [{bar:24}] {percent:>3}%  {msg}");
        bar.set_style(style.expect("the template is valid").progress_chars("=> "));
        Self { bar, rounds }
    }

    pub fn show(&self, progress: &Progress<'_>) {
        let prefix = format!("round {}/{}", progress.round + 1, self.rounds);
        let left = progress.left.map(|left| {
            let left = Duration::from_secs(left.as_secs_f64().ceil() as u64);
            format!("  {} left", humantime::format_duration(left))
        });
        let message = format!("{}{}", progress.setting, left.unwrap_or_default());
        self.bar.set_position((progress.done * STEPS as f64) as u64);
        self.bar.set_prefix(prefix);
        self.bar.set_message(shown(&message).into_owned());
    }

    pub fn clear(&self) {
        self.bar.finish_and_clear();
    }
}
