//! The machine's idle states by name, from the shallowest to the deepest, and their places in the
//! BPF programs' tables.

use reveille_kernel::Idle;
use reveille_results::schema::DEFAULT_IDLE;

/// The name of the kernel's polling state; sysfs does not show CPUIDLE_FLAG_POLLING.
const POLL: &str = "POLL";

/// FIRST_STATE_PLACE, PLACE_OTHER and PLACES of cost.h.
const FIRST_STATE_PLACE: u32 = 3;
pub(super) const OTHER_PLACE: u32 = 2;
pub(super) const BUSY_PLACE: u32 = 1;
pub(super) const AWAKE_PLACE: u32 = 0;
pub(super) const PLACES: u32 = 16;

/// An idle state. States of the same name on different kinds of CPUs are one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct State {
    /// The driver's name: `C6`.
    pub name: String,
    /// The CPU polls: it is awake, and no wait for it counts as lost.
    pub polling: bool,
    /// The driver's figure, µs; the maximum if CPUs differ.
    pub exit_latency_us: Option<u64>,
    /// The driver's entries: (CPU, index).
    pub at: Vec<(u32, u32)>,
}

/// The states by depth.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Depth {
    /// Shallow ones first.
    pub states: Vec<State>,
}

impl Depth {
    /// By the drivers' exit latencies, then by index.
    pub fn of(idle: &Idle) -> Self {
        let mut states: Vec<(u32, State)> = Vec::new();
        let mut add = |name: &str, latency: Option<u64>, cpu: u32, index: u32| {
            let place = (cpu, index);
            match states.iter_mut().find(|(_, state)| state.name == name) {
                Some((_, state)) => {
                    state.exit_latency_us = state.exit_latency_us.max(latency);
                    state.at.push(place);
                }
                None => states.push((
                    index,
                    State {
                        name: name.to_owned(),
                        polling: name == POLL,
                        exit_latency_us: latency,
                        at: vec![place],
                    },
                )),
            }
        };
        for cpu in &idle.cpus {
            for state in &cpu.states {
                add(&state.name, state.exit_latency_us, cpu.number, state.index);
            }
            if cpu.states.is_empty() {
                // cpu_idle_poll() of the kernel's idle loop traces 0, default_idle_call() 1.
                add(POLL, None, cpu.number, 0);
                add(DEFAULT_IDLE, None, cpu.number, 1);
            }
        }
        states.sort_by_key(|(index, state)| (!state.polling, state.exit_latency_us, *index));
        Self {
            states: states.into_iter().map(|(_, state)| state).collect(),
        }
    }

    /// The place of a state by depth; states beyond the table count as other.
    pub(super) fn place(order: usize) -> u32 {
        match FIRST_STATE_PLACE + order as u32 {
            place if place < PLACES => place,
            _ => OTHER_PLACE,
        }
    }

    /// The state at a place.
    pub(super) fn at_place(&self, place: u32) -> Option<&State> {
        self.states
            .get(place.checked_sub(FIRST_STATE_PLACE)? as usize)
    }
}
