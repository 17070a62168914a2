//! How the service stands, for who answers others in its name.

use std::sync::Arc;

use crate::force::Cpu;
use crate::holds::Hold;

/// How the service stands, for who asks.
#[derive(Clone, Default)]
pub struct Standing {
    /// How often rules were read or judged.
    pub judged: u64,
    /// Is UPower's interface to be served?
    pub upower_qos: bool,
    /// The rules' names, in the file's order.
    pub rules: Vec<String>,
    /// What does not work, a sentence each without its full stop.
    pub problems: Vec<String>,
    /// By number, oldest first.
    pub holds: Vec<(u64, Arc<Hold>)>,
    /// Those whose bounds can be set, ascending.
    pub cpus: Vec<Arc<Cpu>>,
}

impl Standing {
    /// Is there nothing new for who listens?
    pub fn is_as(&self, other: &Self) -> bool {
        let numbers = |standing: &Self| -> Vec<u64> {
            let holds = standing.holds.iter();
            holds.map(|(number, _)| *number).collect()
        };
        (self.judged, self.upower_qos, &self.rules, &self.problems)
            == (
                other.judged,
                other.upower_qos,
                &other.rules,
                &other.problems,
            )
            && numbers(self) == numbers(other)
    }
}
