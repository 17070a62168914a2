//! The bar: policy, and how far its replications are.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use reveille_model::simulate::Progress;
use reveille_show::terminal::shown;

/// Nothing is drawn where standard error is no terminal.
pub struct Bar {
    bar: ProgressBar,
    policies: usize,
}

const STEPS: u64 = 1000;

impl Bar {
    pub fn new(policies: usize) -> Self {
        let steps = STEPS * policies as u64;
        let bar = ProgressBar::with_draw_target(Some(steps), ProgressDrawTarget::stderr());
        let style = ProgressStyle::with_template("{prefix} [{bar:24}] {percent:>3}%  {msg}");
        bar.set_style(style.expect("the template is valid").progress_chars("=> "));
        Self { bar, policies }
    }

    /// `place`: of the policy, from 0.
    pub fn show(&self, place: usize, name: &str, progress: &Progress) {
        let done = progress.simulated as f64 / progress.expected.max(1) as f64;
        let before = place as u64 * STEPS;
        self.bar
            .set_position(before + (done.min(1.0) * STEPS as f64) as u64);
        self.bar
            .set_prefix(format!("policy {}/{}", place + 1, self.policies));
        self.bar.set_message(format!(
            "{}, {} of {} replications",
            shown(name),
            progress.replications_done,
            progress.replications
        ));
    }

    pub fn clear(&self) {
        self.bar.finish_and_clear();
    }
}
