//! How the sources of a result differ: names, words, and what it means.

use reveille_figures::rounds::Estimate;
use reveille_show::columns;
use reveille_show::quantity::{after, count, counted, duration, p_value};
use reveille_show::sheet::{Column, Section, Table, Value};

use crate::Description;
use crate::schema::Source;
use crate::sources::{SourceDifference, SourceVerdict, TURN_MIN};
use crate::statistics::Floor;

/// How the sources differ.
pub const COLUMNS: &[Column<SourceDifference>] = &columns!(|one|
    words "state", "state", one.state.as_str(), "The requested idle state";
    words "first", "of", one.first.as_str(), "The first source";
    words "second", "against", one.second.as_str(), "The second source";
    measured(Ns) "median_ns.estimate", "median", Value::difference(one.median_ns.as_ref()),
        "The second source's median wake latency less the first's, with its 95% interval over rounds";
    measured(Ns) "floor_ns.estimate", "floors", Value::difference(one.floor_ns.as_ref()),
        "The same of the floors, where nothing sleeps";
    measured(Ns) "above_floor_ns.estimate", "above floors",
        Value::difference(one.above_floor_ns.as_ref()),
        "The difference less that of the floors; the intervals of all rows together hold with 95%";
    measured(Ns) detail "p99_ns.estimate", "p99", Value::difference(one.p99_ns.as_ref()),
        "Difference of the 99th percentiles, with its 95% interval";
    estimated(Of("")) detail "p_value", "p-value", one.p_value.map(p_value),
        "By Wilcoxon's signed-rank test over the rounds";
    estimated(Of("")) "adjusted_p_value", "p, adjusted", one.adjusted_p_value.map(p_value),
        "The p-value adjusted for the number of rows (Holm)";
    measured(Count) detail "count_first", "count", one.count_first, "Datapoints of the first source";
    measured(Count) detail "count_second", "count against", one.count_second,
        "Datapoints of the second source";
    measured(Count) "median_ns.rounds", "rounds", one.median_ns.as_ref().map(|one| one.rounds),
        "Rounds in which both have datapoints enough";
    measured(Count) detail "rounds_pooled", "pooled", one.rounds_pooled,
        "So many neighbouring rounds count as one";
    measured(Ns) detail "launch_error_ns", "launch error", one.launch_error_ns,
        "The launch times of both together are known to this";
    words "verdict", "verdict", in_short(one.verdict), "What the sources differ by";
);

/// The section without a result.
pub fn empty() -> Section<'static> {
    Section::new("sources", "Sources against each other").titled()
}

/// Adds the sources of a result, if several took turns. `who`: before its captions and sentences.
pub fn section<'a>(section: Section<'a>, who: &str, description: &Description) -> Section<'a> {
    let differences = &description.source_differences;
    if differences.is_empty() {
        return section;
    }
    let caption = format!("{who}Wake latency of the second source less that of the first");
    let section = section.table(Table::of(caption, COLUMNS, differences).whole());
    let is_virtual = description.machine.hypervisor.is_some();
    let sentences = differences.iter().map(|one| in_full(one, is_virtual));
    let floors = &description.characterisation.floors;
    sentences
        .chain(self_check(floors, is_virtual))
        .fold(section, |section, one| section.text(format!("{who}{one}")))
}

/// The ways of two devices' interrupts to a CPU that is awake may differ by this, ns: each takes one or two
/// microseconds, and a card's link a few to wake up.
const WAYS_NS: i64 = 5_000;

/// Whether two devices agree on a CPU that does not sleep: if not, a launch time may be wrong.
fn self_check(floors: &[Floor], is_virtual: bool) -> Option<String> {
    let of = |source: Source| {
        let floor = floors.iter().find(|floor| floor.source == source.as_str());
        floor.map(|floor| floor.median_ns)
    };
    let (hpet, nic) = (of(Source::Hpet)?, of(Source::Nic)?);
    let apart = (nic - hpet).abs();
    let ways = duration(WAYS_NS as f64);
    let means = match (is_virtual, apart <= WAYS_NS) {
        (true, _) => "the hypervisor delivers both interrupts, so that tells little".to_owned(),
        (false, true) => format!(
            "the ways of two interrupts may differ by {ways}, so there is no sign that a launch time is wrong"
        ),
        (false, false) => format!(
            "the ways of two interrupts differ by less ({ways}), so one of the launch times may be wrong; trust neither \
             until that is explained"
        ),
    };
    Some(format!(
        "Floors of hpet and nic: {} and {}, which are {} apart; {means}.",
        duration(hpet as f64),
        duration(nic as f64),
        duration(apart as f64)
    ))
}

fn in_short(verdict: SourceVerdict) -> &'static str {
    match verdict {
        SourceVerdict::TooFew { .. } => "too few",
        SourceVerdict::NotFound { .. } => "no difference found",
        SourceVerdict::Differ => "differ",
        SourceVerdict::AsFloors => "as floors",
        SourceVerdict::BeyondFloors => "beyond floors",
    }
}

/// What a difference is and means, in a sentence.
fn in_full(one: &SourceDifference, is_virtual: bool) -> String {
    let SourceDifference {
        state,
        first,
        second,
        ..
    } = one;
    let differ = || {
        let median = one.median_ns.as_ref();
        median.map_or(String::new(), |median| {
            format!("{state}: {first} is {} than {second}", faster(median))
        })
    };
    let above = || one.above_floor_ns.as_ref();
    match one.verdict {
        SourceVerdict::TooFew { rounds, needed } => format!(
            "{state}: too few datapoints to compare {first} with {second}: {} {TURN_MIN} of both, and {} are \
             needed; measure longer (--duration).",
            match rounds {
                1 => "1 round has".to_owned(),
                _ => format!("{} have", counted(rounds, "round")),
            },
            count(needed)
        ),
        SourceVerdict::NotFound { at_most_ns } => format!(
            "{state}: no difference between {first} and {second} found; one of more than {} is excluded (95%).",
            duration(at_most_ns)
        ),
        SourceVerdict::Differ => format!(
            "{}; without floors of both it is open whether waking differs or only the interrupt's way to the \
             CPU.",
            differ()
        ),
        SourceVerdict::AsFloors => {
            let left = above().and_then(|above| above.interval);
            let left = left.map_or(0.0, |(low, high)| low.abs().max(high.abs()));
            format!(
                "{}, as on a CPU that does not sleep: above the floors no difference was found; one of more than \
                 {} is excluded (95%).",
                differ(),
                duration(left + one.launch_error_ns as f64)
            )
        }
        SourceVerdict::BeyondFloors => format!(
            "{}, and {} above their floors: {}.",
            differ(),
            above().map_or(String::new(), faster),
            meaning(one, is_virtual)
        ),
    }
}

/// The first source against the second: `12.3 µs [11.1, 13.2] faster`.
fn faster(second_less_first: &Estimate) -> String {
    let (is_faster, one) = (second_less_first.estimate >= 0.0, second_less_first);
    let sign = if is_faster { 1.0 } else { -1.0 };
    let estimate = sign * one.estimate;
    let interval = one.interval.map_or(String::new(), |(low, high)| {
        let (low, high) = if is_faster {
            (low, high)
        } else {
            (-high, -low)
        };
        format!(" [{}, {}]", after(estimate, low), after(low, high))
    });
    let how = if is_faster { "faster" } else { "slower" };
    format!("{}{interval} {how}", duration(estimate))
}

/// What a difference beyond the floors means.
fn meaning(one: &SourceDifference, is_virtual: bool) -> String {
    let timer = Source::Timer.as_str();
    let second_less_first = one.above_floor_ns.as_ref().map_or(0.0, |one| one.estimate);
    // How much the timer is faster than the source from outside.
    let (outside, faster) = match (&*one.first, &*one.second) {
        (first, second) if first == timer => (second, second_less_first),
        (first, second) if second == timer => (first, -second_less_first),
        _ => {
            return "the CPU foresees neither, so the ways of their interrupts to a CPU that sleeps differ"
                .to_owned();
        }
    };
    match (faster > 0.0, is_virtual) {
        (true, false) => format!(
            "the CPU may wake ahead of its own timer (C-state pre-wake); trust {outside} there"
        ),
        (true, true) => format!(
            "the hypervisor may begin to wake the CPU ahead of its timer, or take longer to bring {outside}'s \
             interrupt to a CPU that sleeps; the CPU's own pre-wake cannot be told from that"
        ),
        (false, _) => {
            "no sign of a CPU that wakes ahead of its timer (C-state pre-wake)".to_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use reveille_snapshot::snapshot;

    use super::*;

    fn estimate(estimate: f64, low: f64, high: f64) -> Option<Estimate> {
        Some(Estimate {
            estimate,
            interval: Some((low, high)),
            rounds: 20,
        })
    }

    #[test]
    fn floors_of_two_devices_that_are_far_apart_are_a_warning() {
        let floor = |source: Source, median_ns| Floor {
            state: "POLL".into(),
            source: source.as_str().into(),
            count: 100,
            median_ns,
            p90_ns: None,
            p99_ns: None,
            max_ns: median_ns,
            medians_ns: Vec::new(),
        };
        let of = |nic, is_virtual| {
            let floors = [floor(Source::Hpet, 2_000), floor(Source::Nic, nic)];
            self_check(&floors, is_virtual).unwrap()
        };
        let said = [(7_000, false), (7_001, false), (90_000, true)].map(|(nic, is_virtual)| {
            (
                format!("{nic} ns, virtual: {is_virtual}"),
                of(nic, is_virtual),
            )
        });
        snapshot!("words", said);
        assert_eq!(self_check(&[floor(Source::Hpet, 2_000)], false), None);
    }

    /// In C6, where the second source takes 2 µs longer.
    fn of(first: &str, second: &str, verdict: SourceVerdict) -> SourceDifference {
        SourceDifference {
            state: "C6".into(),
            first: first.into(),
            second: second.into(),
            count_first: 900,
            count_second: 900,
            rounds_pooled: 1,
            median_ns: estimate(2_000.0, 1_900.0, 2_200.0),
            p99_ns: None,
            p_value: Some(0.001),
            adjusted_p_value: Some(0.002),
            floor_ns: estimate(500.0, 400.0, 600.0),
            above_floor_ns: estimate(1_500.0, 1_300.0, 1_800.0),
            launch_error_ns: 0,
            verdict,
        }
    }

    #[test]
    fn a_timer_that_is_faster_than_its_floor_explains_may_be_pre_wake() {
        let beyond = SourceVerdict::BeyondFloors;
        let guest = in_full(&of("timer", "hpet", beyond), true);
        // In the other order, and the other way round.
        let slower = |first: &str, second: &str| in_full(&of(first, second, beyond), false);
        let mut other = of("remote", "timer", beyond);
        other.median_ns = estimate(-2_000.0, -2_200.0, -1_900.0);
        other.above_floor_ns = estimate(-1_500.0, -1_800.0, -1_300.0);
        let said = [
            ("timer, hpet", slower("timer", "hpet")),
            ("timer, hpet in a guest", guest),
            ("remote, timer", slower("remote", "timer")),
            ("remote, hpet", slower("remote", "hpet")),
            ("remote, slower timer", in_full(&other, false)),
        ];
        snapshot!("words", said);
    }

    #[test]
    fn no_difference_has_its_resolution_and_too_few_datapoints_what_is_missing() {
        let none = of(
            "timer",
            "hpet",
            SourceVerdict::NotFound { at_most_ns: 120.0 },
        );
        let few = |rounds| {
            let verdict = SourceVerdict::TooFew { rounds, needed: 6 };
            in_full(&of("timer", "hpet", verdict), false)
        };
        let said = [
            ("none", in_full(&none, false)),
            ("few", few(1)),
            ("four", few(4)),
        ];
        snapshot!("words", said);
    }

    #[test]
    fn a_difference_that_the_floors_explain_is_called_so() {
        let mut one = of("timer", "hpet", SourceVerdict::AsFloors);
        one.above_floor_ns = estimate(20.0, -300.0, 250.0);
        one.launch_error_ns = 50;
        let open = in_full(&of("timer", "hpet", SourceVerdict::Differ), false);
        snapshot!(
            "words",
            [("as floors", in_full(&one, false)), ("open", open)]
        );
    }
}
