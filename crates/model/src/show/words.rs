//! Answers as sentences.

use crate::least::{Least, draws_less};
use crate::p99::P99;
use crate::parameters::{OfAPaper, Parameters};
use crate::policy::{Choice, Law, Outcome, Policy, Rule};
use crate::question::{BestTimeout, Crossings, Figure, LOAD_MAX, Largest, Why};
use crate::sweep::Pair;

use reveille_show::quantity::{digits, duration, listed, three_digits, time};
use reveille_show::sheet::{Sheet, Unit};
use reveille_show::text::alone;

/// Whose the figures are that nobody gave, in an answer; `None`: all were given or measured.
pub fn whose(parameters: &Parameters) -> Option<String> {
    let names = parameters.of_a_paper.iter().map(|part| match part {
        OfAPaper::Powers => "powers",
        OfAPaper::OtherPowers => "powers that no meter gave",
        OfAPaper::ServiceTimes => "service times",
        OfAPaper::Policies => "policies",
        OfAPaper::OtherPolicies => "the other policies",
    });
    let names: Vec<&str> = names.collect();
    let no_machine = match parameters.of_a_paper.contains(&OfAPaper::Powers) {
        true => ": no machine was measured",
        false => "",
    };
    let words = format!("{} are a paper's{no_machine}.", listed(&names));
    (!names.is_empty()).then(|| words[..1].to_uppercase() + &words[1..])
}

/// An answer says whose its figures are, instead of a note.
pub fn with_whose(sheet: &mut Sheet<'_>, parameters: &Parameters) {
    let Some(whose) = whose(parameters) else {
        return;
    };
    sheet.notes.retain(|note| *note != whose);
    if !sheet.answer.is_empty() {
        sheet.answer.push(' ');
    }
    sheet.answer += &whose;
}

/// The assumption of every closed form.
pub const POISSON: &str =
    "Exact for Poisson arrivals at one server with one queue; for others an estimate.";

/// Where the two cross, in power and in response time.
pub fn pair(pair: &Pair) -> String {
    let Pair { first, second, .. } = pair;
    let Some((_, most)) = pair.power.looked_at else {
        return format!("{first} and {second} are stable together at no load.");
    };
    let power = crossed(&pair.power, first, second);
    let response = crossed(&pair.response, "it", second);
    let beyond = match most < LOAD_MAX {
        true => format!(
            " Above {}% load one of them is not stable.",
            digits(most * 100.0)
        ),
        false => String::new(),
    };
    format!("{}; {response}{beyond}", power.trim_end_matches('.'))
}

/// A lower figure than another policy's, and one that three digits do not tell from it.
fn verbs(figure: Figure) -> (&'static str, &'static str) {
    match figure {
        Figure::Power => ("draws less than", "about as much"),
        Figure::Response => ("answers faster than", "about as fast"),
    }
}

/// `nap 50 ms draws less than DVFS below 35.0% load.`
fn crossed(crossings: &Crossings, first: &str, second: &str) -> String {
    let (lower, same) = verbs(crossings.figure);
    let (from, to) = crossings.looked_at.unwrap_or_default();
    let is_alike = |at: f64| {
        let mut alike = crossings.alike.iter();
        alike.any(|(from, to)| (*from..=*to).contains(&at))
    };
    // Before a difference is seen, none is lower.
    let unseen = crossings.alike.iter().find(|(first, _)| *first <= from);
    let seen_from = unseen.map_or(from, |(_, to)| *to);
    let crossed = crossings.crossings.iter().map(|one| one.utilisation);
    let crossed = crossed.filter(|at| *at > seen_from);
    // From where to where the one is lower, the other, and neither is seen to be.
    let mut edges: Vec<f64> = crossed.clone().filter(|at| !is_alike(*at)).collect();
    edges.extend(crossings.alike.iter().flat_map(|(from, to)| [*from, *to]));
    edges.extend([from, to]);
    edges.sort_unstable_by(f64::total_cmp);
    let is_lower = |at: f64| {
        let flipped = crossed.clone().filter(|crossing| *crossing < at).count() % 2 == 1;
        crossings.first_is_lower_at_first.unwrap_or(false) != flipped
    };
    let ranges = |is: &dyn Fn(f64) -> bool| -> Vec<String> {
        let ranges = edges.windows(2).filter(|pair| pair[0] < pair[1]);
        let ranges = ranges.filter(|pair| is(f64::midpoint(pair[0], pair[1])));
        let percent = |load: f64| format!("{}%", digits(load * 100.0));
        let words = ranges.map(|pair| match (pair[0] > from, pair[1] < to) {
            (false, true) => format!("below {}", percent(pair[1])),
            (true, true) => format!("from {} to {}", percent(pair[0]), percent(pair[1])),
            (true, false) => format!("above {}", percent(pair[0])),
            (false, false) => "at every".to_owned(),
        });
        words.collect()
    };
    let less = ranges(&|at| is_lower(at) && !is_alike(at)).join(" and ");
    let alike = match ranges(&is_alike).join(" and ") {
        alike if alike.is_empty() => alike,
        alike if crossings.first_is_lower_at_first.is_none() => {
            let (verb, _) = lower.split_once(' ').unwrap_or_default();
            return format!("{first} {verb} {same} as {second} {alike} load.");
        }
        alike => format!(" ({same} {alike})"),
    };
    match (less.is_empty(), alike.is_empty()) {
        (true, true) => format!("{first} never {lower} {second}."),
        (true, false) => format!("{first} {lower} {second} at no load{alike}."),
        _ => format!("{first} {lower} {second} {less} load{alike}."),
    }
}

/// The largest transition time at which napping has the lower figure.
pub fn largest(figure: Figure, found: &Largest, other: &str, utilisation: f64) -> String {
    let (lower, _) = verbs(figure);
    let load = format!("At {}% load", digits(utilisation * 100.0));
    match found {
        Largest::Never => {
            format!("{load} napping never {lower} {other}, even without any transition.")
        }
        Largest::Any => format!(
            "{load} napping {lower} {other} whatever the transition takes (looked at: up to an hour)."
        ),
        Largest::Seconds { transition, nap } => format!(
            "{load} napping {lower} {other} if suspend and resume take less than {} together ({} and {}).",
            time(*transition),
            time(nap.suspend),
            time(nap.resume)
        ),
    }
}

/// The 99th percentile, in an answer.
fn at_p99(p99: P99) -> String {
    match alone(Unit::Seconds, &p99.into()) {
        Some(time) => format!("{time} at p99"),
        None => "p99 not converged".to_owned(),
    }
}

/// Policies whose 99th percentile is not known, and what gives it; `None`: there is none.
pub fn not_converged<'n>(of: impl Iterator<Item = (&'n str, Option<P99>)>) -> Option<String> {
    let lacking = of.filter_map(|(policy, p99)| Some((policy, p99?.lacks()?)));
    let (names, requests): (Vec<&str>, Vec<u64>) = lacking.unzip();
    let most = requests.into_iter().max()?;
    let tens = 10_u64.pow(most.ilog10().saturating_sub(1));
    let most = most.div_ceil(tens) * tens;
    Some(format!(
        "p99 is not converged for {}: the queue forgets too slowly at this load. Use `model simulate` with --requests \
         {most}.",
        listed(&names)
    ))
}

/// What a machine's own policy does to power and response time at a load; `None`: it has no steady state there.
/// With each outcome comes its 99th percentile of the response time.
pub fn effect(
    name: &str,
    of: Option<(Outcome, Option<P99>)>,
    always_on: (Outcome, Option<P99>),
    utilisation: f64,
) -> String {
    let load = format!("At {}% load", digits(utilisation * 100.0));
    let Some((of, p99)) = of else {
        return format!("{load} {name} does not keep up with the requests.");
    };
    let (always_on, p99_always_on) = always_on;
    let [power, than] = [of.power_mean, always_on.power_mean].map(three_digits);
    let power = match draws_less(of.power_mean, always_on.power_mean) {
        false => format!("saves no power, {power} W against {than} always on"),
        true => format!("draws {power} W instead of {than} always on"),
    };
    let p99 = p99.zip(p99_always_on).map(|(p99, always_on)| {
        let than = alone(Unit::Seconds, &always_on.into());
        let than = than.map_or(String::new(), |time| format!(" instead of {time}"));
        format!(", and {}{than}", at_p99(p99))
    });
    let [mean, mean_always_on] = [of, always_on].map(|of| duration(of.response_mean * 1e9));
    format!(
        "{load} {name} {power}, and a request takes {mean} on average instead of {mean_always_on}{}.",
        p99.unwrap_or_default()
    )
}

/// The best timeout for a budget.
pub fn best_timeout(best: &BestTimeout, name: &str, utilisation: f64, budget: f64) -> String {
    let load = format!("At {}% load", digits(utilisation * 100.0));
    let come_to = format!(
        "{} W and a mean response time of {}",
        digits(best.outcome.power_mean),
        time(best.outcome.response_mean)
    );
    match best.why {
        Why::AtOnceFits => format!(
            "{load} {name} needs no timeout for a budget of {}: sleeping at once gives {come_to}.",
            time(budget)
        ),
        Why::BudgetBinds => format!(
            "{load} {name} saves most within a budget of {} with a timeout of {}: {come_to}.",
            time(budget),
            time(best.timeout)
        ),
        Why::SleepingSavesNothing => format!(
            "{load} {name} saves nothing that three digits show by sleeping. Without sleep: {come_to}."
        ),
    }
}

/// A policy's kind and figures in a line.
pub fn described(policy: &Policy) -> String {
    match policy {
        Policy::AlwaysOn => "always on".into(),
        Policy::PowerNap(nap) => {
            let timeout = match nap.timeout {
                0.0 => "at once".to_owned(),
                f64::INFINITY => "never".to_owned(),
                timeout => format!("after {}", time(timeout)),
            };
            let (suspend, resume) = (time(nap.suspend), time(nap.resume));
            format!("naps {timeout}; suspend {suspend}, resume {resume}")
        }
        Policy::Dvfs(dvfs) => {
            let rule = match dvfs.rule {
                Rule::Fixed(frequency) => format!("always {}", digits(frequency)),
                Rule::BusyShare(share) => format!("load / {}", digits(share)),
                Rule::Slowdown(limit) => format!("response at most {} times", digits(limit)),
                Rule::Linear => "floor + (1 - floor) · load".to_owned(),
            };
            let law = match dvfs.law {
                Law::Cubic => "f³",
                Law::Measured(_) => "as measured",
            };
            format!(
                "frequency {rule}, floor {}; of active power {}% follow {law}, of idle power {}%",
                digits(dvfs.floor),
                digits(dvfs.processor_share * 100.0),
                digits(dvfs.idle_share * 100.0)
            )
        }
        Policy::CStates(states) => {
            let names = states.states.iter().map(|state| {
                let latency = time(state.exit_latency);
                format!("{} ({latency}, {} W)", state.name, digits(state.power))
            });
            let names: Vec<String> = names.collect();
            let choice = match states.choice {
                Choice::Deepest => "the deepest",
                Choice::Mean => "what fits the mean idle period",
                Choice::Oracle => "what fits each idle period",
            };
            format!("idle states {}; {choice}", names.join(", "))
        }
    }
}

/// The service times.
pub fn service(parameters: &Parameters) -> String {
    let service = &parameters.service;
    format!(
        "{}, mean {}, coefficient of variation {}",
        service.name(),
        time(service.mean()),
        digits(service.cv())
    )
}

/// What a server draws.
pub fn power(parameters: &Parameters) -> String {
    let power = &parameters.power;
    format!(
        "{} W active, {} W idle, {} W napping, {} W in transition",
        digits(power.active),
        digits(power.idle),
        digits(power.nap),
        digits(power.transition)
    )
}

/// A policy's figures at a load.
#[derive(Debug, Clone, Copy)]
pub struct Figures<'n> {
    /// Its name.
    pub policy: &'n str,
    /// Its mean power.
    pub power_w: f64,
    /// Its mean response time.
    pub response_s: f64,
    /// The 99th percentile of that.
    pub p99: Option<P99>,
}

/// The policy that draws least, against always-on, `always_on` by name; empty where fewer than two have figures.
pub fn least(least: Option<&Least>, all: &[Figures<'_>], always_on: &str, among: &str) -> String {
    let of = |policy: &str| all.iter().find(|one| one.policy == policy);
    let figures = |one: &Figures<'_>| {
        let p99 = one.p99.map(|p99| format!(", {}", at_p99(p99)));
        format!(
            "{} W, {} a request on average{}",
            three_digits(one.power_w),
            duration(one.response_s * 1e9),
            p99.unwrap_or_default()
        )
    };
    let Some(least) = least.filter(|_| all.len() > 1) else {
        return String::new();
    };
    let awake = of(always_on).map(figures).unwrap_or_default();
    let figures_of_least = of(&least.policy).map(figures).unwrap_or_default();
    if least.may_be(always_on) {
        let beside = match least.policy == always_on {
            true => String::new(),
            false => format!("; {}: {figures_of_least}", least.policy),
        };
        return format!(
            "No policy is shown to draw less than {always_on}{among}: {awake}{beside}."
        );
    }
    let beside = match awake.is_empty() {
        true => awake,
        false => format!("; {always_on}: {awake}"),
    };
    let as_low = match least.as_low.is_empty() {
        true => String::new(),
        false => format!(" Not shown to draw more: {}.", listed(&least.as_low)),
    };
    format!(
        "{} draws least{among}: {figures_of_least}{beside}.{as_low}",
        least.policy
    )
}

#[cfg(test)]
mod tests {
    use reveille_snapshot::snapshot;

    use super::*;
    use crate::question::Crossing;

    /// Of a figure: the loads at which two policies cross, and whether the first is lower below them.
    fn crossings(figure: Figure, at: &[f64], is_lower: Option<bool>) -> Crossings {
        let crossing = |utilisation: &f64| Crossing {
            utilisation: *utilisation,
            first_is_lower_below: true,
        };
        Crossings {
            figure,
            crossings: at.iter().map(crossing).collect(),
            first_is_lower_at_first: is_lower,
            alike: match is_lower {
                Some(_) => Vec::new(),
                None => vec![(0.001, 0.999)],
            },
            looked_at: Some((0.001, 0.999)),
        }
    }

    fn pair_of(power: Crossings, response: Crossings) -> String {
        pair(&Pair {
            first: "nap".into(),
            second: "DVFS".into(),
            power,
            response,
        })
    }

    #[test]
    fn crossings_are_reported_as_ranges_of_load() {
        let cases: [(&[f64], _); 7] = [
            (&[], Some(true)),
            (&[], Some(false)),
            (&[], None),
            (&[0.353], Some(true)),
            (&[0.353], Some(false)),
            (&[0.1, 0.9], Some(false)),
            (&[0.1, 0.5], Some(true)),
        ];
        let said = cases.map(|(at, is_lower)| {
            let crossings = crossings(Figure::Power, at, is_lower);
            let case = format!("at {at:?}, A is lower at first: {is_lower:?}");
            (case, crossed(&crossings, "A", "B"))
        });
        snapshot!("words", said);
    }

    #[test]
    fn loads_at_which_neither_is_seen_to_be_lower_are_named_apart() {
        let cases: [(&[f64], _, Vec<_>); 6] = [
            (&[0.353], Some(true), vec![(0.21, 0.49)]),
            (&[], Some(true), vec![(0.972, 0.999)]),
            (&[], Some(false), vec![(0.001, 0.02), (0.972, 0.999)]),
            (&[], Some(true), vec![(0.3, 0.4)]),
            (&[0.353], Some(true), vec![(0.001, 0.02), (0.972, 0.999)]),
            (&[0.991], Some(true), vec![(0.956, 0.999)]),
        ];
        let said = cases.map(|(at, is_lower, alike)| {
            let case = format!("at {at:?}, A is lower at first: {is_lower:?}, alike: {alike:?}");
            let crossings = Crossings {
                alike,
                ..crossings(Figure::Power, at, is_lower)
            };
            (case, crossed(&crossings, "A", "B"))
        });
        snapshot!("words", said);
    }

    #[test]
    fn power_and_response_time_make_one_sentence_with_each_figures_own_text() {
        let said = [
            (&[0.35] as &[f64], Some(true), Some(true)),
            (&[], Some(true), Some(false)),
            (&[], None, None),
        ]
        .map(|(at, power, response)| {
            let case = format!("power {power:?} at {at:?}, response {response:?}");
            let power = crossings(Figure::Power, at, power);
            (
                case,
                pair_of(power, crossings(Figure::Response, &[], response)),
            )
        });
        snapshot!("words", said);
    }

    #[test]
    fn loads_at_which_one_of_them_is_not_stable_are_no_loads_of_both() {
        let said = [Some((0.001, 0.999)), Some((0.001, 0.299)), None].map(|looked_at| {
            let of = |figure| Crossings {
                looked_at,
                ..crossings(figure, &[], Some(false))
            };
            let said = pair_of(of(Figure::Power), of(Figure::Response));
            (format!("looked at {looked_at:?}"), said)
        });
        snapshot!("words", said);
    }

    #[test]
    fn the_largest_transition_is_reported_with_its_parts() {
        let nap = crate::policy::PowerNap {
            suspend: 0.04,
            resume: 0.06,
            timeout: 0.0,
        };
        let transition = 0.1;
        let found = Largest::Seconds { transition, nap };
        let said = [
            (Figure::Power, Largest::Never),
            (Figure::Response, Largest::Any),
            (Figure::Power, found),
        ]
        .map(|(figure, found)| {
            let case = format!("{figure:?}, {found:?}");
            (case, largest(figure, &found, "DVFS", 0.125))
        });
        snapshot!("words", said);
    }

    #[test]
    fn the_best_timeout_is_reported_with_its_deciding_constraint() {
        let outcome = crate::policy::Outcome {
            response_mean: 0.085,
            wait_mean: 0.035,
            power_mean: 61.24,
            shares: crate::policy::Shares::default(),
            naps_per_s: 1.0,
            frequency: 1.0,
        };
        let said = [
            (Why::AtOnceFits, 0.0),
            (Why::BudgetBinds, 0.0025),
            (Why::SleepingSavesNothing, f64::INFINITY),
        ]
        .map(|(why, timeout)| {
            let best = BestTimeout {
                timeout,
                outcome,
                why,
            };
            let case = format!("{why:?}, {timeout} s, for 90 ms");
            (case, best_timeout(&best, "nap", 0.3, 0.09))
        });
        snapshot!("words", said);
    }

    #[test]
    fn every_policy_has_a_one_line_description() {
        use crate::policy::{CState, CStates, Choice, Dvfs, Law, PowerNap, Rule};
        let naps = [0.0, 0.1, f64::INFINITY].map(|timeout| {
            Policy::PowerNap(PowerNap {
                suspend: 0.049,
                resume: 0.05,
                timeout,
            })
        });
        let rules = [
            (Rule::Fixed(0.6), Law::Cubic),
            (Rule::BusyShare(0.8), Law::Measured(vec![(1.0, 1.0)])),
            (Rule::Slowdown(1.5), Law::Cubic),
            (Rule::Linear, Law::Cubic),
        ]
        .map(|(rule, law)| {
            Policy::Dvfs(Dvfs {
                floor: 0.4,
                processor_share: 0.33,
                idle_share: 0.2,
                law,
                rule,
            })
        });
        let state = |name: &str, exit_latency, power| CState {
            name: name.into(),
            exit_latency,
            power,
            target_residency: 0.0,
        };
        let states = [Choice::Deepest, Choice::Mean, Choice::Oracle].map(|choice| {
            let states = vec![state("C1", 2e-6, 55.0), state("C6", 133e-6, 38.5)];
            Policy::CStates(CStates { states, choice })
        });
        let policies = [Policy::AlwaysOn].into_iter().chain(naps);
        let policies = policies.chain(rules).chain(states);
        let said = policies.map(|policy| (format!("{policy:?}"), described(&policy)));
        snapshot!("words", said);
    }

    #[test]
    fn service_and_power_are_described() {
        let mut parameters = Parameters::paper();
        let (mean, cv) = (0.038, 1.5);
        parameters.service = crate::service::Service::Lognormal { mean, cv };
        let said = [
            (format!("{:?}", parameters.service), service(&parameters)),
            (format!("{:?}", parameters.power), power(&parameters)),
        ];
        snapshot!("words", said);
    }

    #[test]
    fn what_nobody_gave_is_a_papers() {
        use OfAPaper::{OtherPolicies, OtherPowers, Policies, Powers, ServiceTimes};
        let said = [
            vec![Powers, ServiceTimes, Policies],
            vec![OtherPowers, ServiceTimes, OtherPolicies],
            vec![Powers, Policies],
            vec![ServiceTimes],
            vec![],
        ]
        .map(|of_a_paper| {
            let case = format!("{of_a_paper:?}");
            let parameters = Parameters {
                of_a_paper,
                ..Parameters::default()
            };
            (case, whose(&parameters).unwrap_or_default())
        });
        snapshot!("words", said);
    }

    #[test]
    fn a_machines_own_policy_is_called_no_saving_where_it_saves_nothing() {
        let of = |power_mean, response_mean| Outcome {
            response_mean,
            wait_mean: 0.0,
            power_mean,
            shares: crate::policy::Shares::default(),
            naps_per_s: 0.0,
            frequency: 1.0,
        };
        let exact = |response_s| Some(P99::ClosedForm { response_s });
        let on = (of(72.0, 0.0543), exact(0.249));
        let said = [72.01, 75.0, 36.6].map(|power| {
            let nap = (of(power, 0.948), exact(2.1));
            (format!("{power} W"), effect("nap", Some(nap), on, 0.3))
        });
        let saves = |(_, words): &(String, String)| !words.contains("no power");
        assert_eq!(said.each_ref().map(saves), [false, false, true]);
        snapshot!("words", said);
    }

    #[test]
    fn the_policy_with_the_least_power_stands_against_always_on() {
        let of = |policy, power_w, response_s, p99| Figures {
            policy,
            power_w,
            response_s,
            p99,
        };
        let exact = P99::ClosedForm { response_s: 0.249 };
        let on = of("always on", 72.0, 0.0543, Some(exact));
        let simulated = P99::Simulation {
            response_s: 0.258,
            half_width_s: Some(0.002),
        };
        let nap = of("nap", 32.7, 0.0639, Some(simulated));
        let not_yet = P99::NotConverged {
            requests: 3_950_000,
        };
        let dvfs = of("DVFS", 35.1, 0.13, Some(not_yet));
        let hour = of("nap 1h", 71.98, 3600.0, None);
        let cases = [
            (vec![on, dvfs, nap], "nap", vec![]),
            (vec![nap, dvfs, on], "nap", vec!["DVFS"]),
            (vec![on, dvfs], "DVFS", vec![]),
            (vec![on, hour], "nap 1h", vec!["always on"]),
            (vec![hour, on], "always on", vec![]),
            (vec![nap, dvfs], "nap", vec![]),
            (vec![on], "always on", vec![]),
        ];
        let said = cases.map(|(all, policy, as_low)| {
            let names: Vec<&str> = all.iter().map(|one| one.policy).collect();
            let case = format!("{names:?}: {policy}, {as_low:?}");
            let policy = policy.to_owned();
            let as_low = as_low.into_iter().map(str::to_owned).collect();
            let shown = Least { policy, as_low };
            (case, least(Some(&shown), &all, "always on", ""))
        });
        snapshot!("words", said);
        let all = [on, dvfs, nap].map(|one| (one.policy, one.p99)).into_iter();
        snapshot!("notes", [("p99", not_converged(all).unwrap())]);
    }
}
