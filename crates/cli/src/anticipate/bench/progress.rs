//! The bar: round, point, policy, time left. Drawn between turns only: drawing wakes CPUs.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use reveille_anticipate::bench::run::Progress;
use reveille_show::terminal::shown;

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
        let left = Duration::from_secs(progress.left.as_secs_f64().ceil() as u64);
        let message = format!(
            "{}, {}  {} left",
            progress.point.name,
            progress.policy.name(),
            humantime::format_duration(left)
        );
        let prefix = format!("round {}/{}", progress.round + 1, self.rounds);
        self.bar.set_position((progress.done * STEPS as f64) as u64);
        self.bar.set_prefix(prefix);
        self.bar.set_message(shown(&message).into_owned());
    }

    pub fn clear(&self) {
        self.bar.finish_and_clear();
    }
}
