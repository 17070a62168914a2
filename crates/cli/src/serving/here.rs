//! What `reveille-services` does, here.

mod govern;
mod stage;
mod stage_bench;

use super::Serving;

/// All of it.
pub static HERE: Serving = Serving {
    govern: govern::serve,
    stage: stage::run,
    hold: reveille_bus::client::hold,
};
