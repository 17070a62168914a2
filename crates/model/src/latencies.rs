//! Measured exit latencies of idle states.

use crate::Result;
use crate::parameters::Parameters;
use crate::policy::Policy;
use reveille_show::quantity::time;

/// A state as measured.
#[derive(Debug, Clone)]
pub struct Measured<'a> {
    /// Its name.
    pub state: &'a str,
    /// The median wake latency, ns.
    pub median_ns: i64,
    /// Wakes.
    pub count: u64,
}

/// Replaces the exit latencies of the policies' states by the medians. Returns notes.
///
/// # Errors
/// [`crate::Error::Usage`] if no policy has a measured state.
pub fn put_into(parameters: &mut Parameters, measured: &[Measured<'_>]) -> Result<Vec<String>> {
    let mut notes = Vec::new();
    let mut found = 0;
    for named in &mut parameters.policies {
        let Policy::CStates(policy) = &mut named.policy else {
            continue;
        };
        for state in &mut policy.states {
            let of = format!("{}, {}", named.name, state.name);
            notes.push(match measured.iter().find(|one| one.state == state.name) {
                Some(one) => {
                    found += 1;
                    state.exit_latency = one.median_ns.max(0) as f64 / 1e9;
                    format!(
                        "{of}: exit latency {}, the median of {} wakes.",
                        time(state.exit_latency),
                        one.count
                    )
                }
                None => format!("{of}: not in the result; its exit latency is the parameters'."),
            });
        }
    }
    let names: Vec<&str> = measured.iter().map(|one| one.state).collect();
    ensure!(
        found > 0,
        "has {}, and no policy of kind c_states in the parameters names one of them",
        names.join(", ")
    );
    Ok(notes)
}
