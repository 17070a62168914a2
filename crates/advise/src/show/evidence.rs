//! What the evidence of a state lacks, and what may lie beyond it.

use std::cmp::Reverse;

use reveille_figures::tail::Tail;
use reveille_show::quantity::{count as thousands, nanoseconds};

use crate::{Demand, Finding, SourceEvidence, Standing, StateAdvice};

/// A paragraph on each thing that is not in the table.
pub fn words(state: &StateAdvice, demand: Demand) -> Vec<String> {
    let beyond = state.evidence.iter().filter_map(beyond_the_data);
    let all = not_shown(state, demand).into_iter().chain(beyond);
    all.map(|words| format!("{}: {words}", state.state))
        .collect()
}

/// How many datapoints would show it.
fn not_shown(state: &StateAdvice, demand: Demand) -> Option<String> {
    if state.standing != Standing::NotShown {
        return None;
    }
    let (evidence, needed) = wanting(state)?;
    let SourceEvidence {
        source,
        count,
        exceeded,
        ..
    } = evidence;
    let so_far = match count {
        0 => format!("not measured ({source})"),
        _ => {
            let (exceeded, count) = (thousands(*exceeded), thousands(*count));
            format!("not shown: {exceeded} of {count} wakes are over the budget ({source})")
        }
    };
    Some(match (needed, demand) {
        (None, _) => format!(
            "{so_far}, no smaller a share than {demand} leaves. If the share stays, no number of \
             datapoints is enough. Measure longer."
        ),
        (Some(needed), Demand::Percentile(percentile)) => match exceeded {
            0 => {
                let needed = thousands(needed);
                format!("{so_far}; {percentile} takes {needed} with none over the budget.")
            }
            _ => {
                let needed = thousands(about(needed));
                format!("{so_far}; {percentile} takes about {needed} with no larger share over it.")
            }
        },
        (Some(needed), Demand::Maximum) => {
            let needed = thousands(needed);
            format!("{so_far}; a maximum of fewer than {needed} means little.")
        }
    })
}

/// The source that wants the most datapoints to show the state, and how many.
pub fn wanting(state: &StateAdvice) -> Option<(&SourceEvidence, Option<u64>)> {
    let wants = state.evidence.iter().filter_map(|one| match one.finding {
        Finding::NotShown { needed } => Some((one, needed)),
        Finding::Within | Finding::Exceeds => None,
    });
    wants.max_by_key(|(one, needed)| (needed.unwrap_or(u64::MAX), Reverse(one.count)))
}

fn beyond_the_data(evidence: &SourceEvidence) -> Option<String> {
    let source = &evidence.source;
    Some(match evidence.tail.as_ref()? {
        Tail::Estimated(tail) => format!(
            "an estimate beyond the data ({source}): 1 wake in {} takes longer than {} [{}, {}].",
            thousands(tail.exceeded_by_one_in),
            nanoseconds(tail.quantile_ns),
            nanoseconds(tail.quantile_low_ns),
            nanoseconds(tail.quantile_high_ns)
        ),
        Tail::Refused(why) => format!("no estimate beyond the data ({source}): {why}."),
    })
}

/// Two significant digits, rounded up: what is only about right looks it.
pub fn about(count: u64) -> u64 {
    let step = 10_u64.pow(count.max(1).ilog10().saturating_sub(1));
    count.div_ceil(step) * step
}
