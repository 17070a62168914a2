//! How far a simulation is, and whether Ctrl-C ended it.

use std::ops::ControlFlow;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use reveille_model::parameters::Named;
use reveille_model::simulate::Progress;
use reveille_show::progress::Bar;

use crate::exit;
use crate::signals;

pub struct Shown {
    bar: Bar,
    interrupted: Arc<AtomicBool>,
}

impl Shown {
    pub fn new() -> anyhow::Result<Self> {
        Ok(Self {
            interrupted: signals::stop()?,
            bar: Bar::new(),
        })
    }

    /// As [`reveille_model::comparison::Watch`].
    pub fn tell(
        &self,
        named: &Named,
        (place, of): (usize, usize),
        done: Option<&Progress>,
    ) -> ControlFlow<()> {
        if let Some(progress) = done {
            let of_policy = progress.simulated as f64 / progress.expected.max(1) as f64;
            let done = (place as f64 + of_policy.min(1.0)) / of as f64;
            let policy = format!("policy {}/{of}", place + 1);
            let detail = format!(
                "{}, {} of {} replications",
                named.name, progress.replications_done, progress.replications
            );
            self.bar
                .show(&policy, done, self.bar.estimate(done), &detail);
            self.bar.announce_estimate(self.bar.estimate(done));
        }
        match self.is_interrupted() {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }

    pub fn clear(&self) {
        self.bar.clear();
    }

    pub fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }

    /// What the command ends with.
    pub fn code(&self) -> ExitCode {
        match self.is_interrupted() {
            true => ExitCode::from(exit::INTERRUPTED),
            false => ExitCode::SUCCESS,
        }
    }
}
