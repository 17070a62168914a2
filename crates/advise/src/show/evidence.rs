//! What the evidence of a state lacks, and what may lie beyond it.

use reveille_figures::tail::Tail;
use reveille_show::quantity::{count as thousands, nanoseconds};

use crate::decision::about;
use crate::{Demand, SourceEvidence, Standing, StateAdvice};

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
    let (evidence, needed) = state.wanting()?;
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
        (None, _) if evidence.is_mistimed() => format!(
            "not shown: half of the wakes end before they begin ({source}), so that the launch times are wrong."
        ),
        (None, _) => format!(
            "{so_far}, no smaller a share than {demand} leaves. More datapoints would show that it is \
             within the budget only if that share falls."
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
