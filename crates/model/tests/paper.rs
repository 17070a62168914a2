//! The statements of "Understanding the Critical Path in Power State Transition Latencies" (Xi and
//! others, 2013), section V, one by one, under the parameters of the sweep. Six of the eight hold. The book's chapter on
//! models explains the source of each, and whether they hold under other parameters.

use reveille_model::parameters::Parameters;
use reveille_model::policy::{Dvfs, Law, Policy, PowerNap, Rule};
use reveille_model::power::Power;
use reveille_model::question::{Crossings, Figure, crossings};
use reveille_model::service::Service;

fn crossed(parameters: &Parameters, first: &str, figure: Figure) -> Crossings {
    let of = |name| &parameters.policy(name).unwrap().policy;
    crossings(parameters, of(first), of("DVFS"), figure).unwrap()
}

/// The load, per cent, below which `first` is lower than DVFS: the only crossing.
fn lower_below(parameters: &Parameters, first: &str, figure: Figure) -> f64 {
    let found = crossed(parameters, first, figure);
    assert_eq!(found.first_is_lower_at_first, Some(true), "{first}");
    let [crossing] = found.crossings[..] else {
        panic!("{first}: {found:?}");
    };
    crossing.utilisation * 100.0
}

fn response(parameters: &Parameters, name: &str, load: f64) -> f64 {
    let policy = &parameters.policy(name).unwrap().policy;
    parameters.outcome(policy, load).unwrap().response_mean
}

#[test]
fn napping_draws_less_than_dvfs_below_4_35_and_45_per_cent() {
    let parameters = Parameters::paper();
    for (name, stated) in [
        ("nap 650 ms", 4.0),
        ("nap 50 ms", 35.0),
        ("nap 10 ms", 45.0),
    ] {
        let found = lower_below(&parameters, name, Figure::Power);
        assert!(
            (found - stated).abs() < 1.0,
            "{name}: {found}%, stated {stated}%"
        );
    }
}

#[test]
fn ten_ms_answer_28_to_44_per_cent_faster_than_50_ms_below_45_per_cent_load() {
    let parameters = Parameters::paper();
    let gain = |load: f64| {
        let ratio =
            response(&parameters, "nap 10 ms", load) / response(&parameters, "nap 50 ms", load);
        (1.0 - ratio) * 100.0
    };
    // The figure begins somewhere above 0; at 5% and at 45% stand the two ends of the statement.
    assert!((gain(0.05) - 44.0).abs() < 1.0, "{}", gain(0.05));
    assert!((gain(0.45) - 28.0).abs() < 1.0, "{}", gain(0.45));
    for percent in 5..45 {
        let load = f64::from(percent) / 100.0;
        assert!(gain(load) > gain(load + 0.01), "it falls as the load rises");
    }
}

#[test]
fn fifty_ms_always_answer_faster_than_dvfs() {
    let found = crossed(&Parameters::paper(), "nap 50 ms", Figure::Response);
    assert_eq!(found.first_is_lower_at_first, Some(true));
    assert!(found.crossings.is_empty(), "{found:?}");
}

#[test]
fn a_hundred_ms_answer_faster_than_dvfs_above_30_per_cent_only() {
    let found = crossed(&Parameters::paper(), "nap 100 ms", Figure::Response);
    assert_eq!(found.first_is_lower_at_first, Some(false));
    let [crossing] = found.crossings[..] else {
        panic!("{found:?}");
    };
    assert!(
        (crossing.utilisation * 100.0 - 30.0).abs() < 2.0,
        "{crossing:?}"
    );
}

#[test]
fn six_hundred_fifty_ms_are_not_competitive_at_the_loads_of_data_centres() {
    let parameters = Parameters::paper();
    for load in [0.2, 0.3, 0.5] {
        let slower = response(&parameters, "nap 650 ms", load);
        assert!(slower > 2.0 * response(&parameters, "DVFS", load));
    }
}

/// Its DVFS answers 2.4 times slower at every load. By the paper 650 ms are always slower than DVFS, and 100 ms
/// converge to it as the load rises.
#[test]
fn two_of_its_statements_do_not_hold() {
    let parameters = Parameters::paper();
    let found = crossed(&parameters, "nap 650 ms", Figure::Response);
    let [crossing] = found.crossings[..] else {
        panic!("{found:?}");
    };
    assert!((crossing.utilisation - 0.846).abs() < 0.001, "{crossing:?}");
    let to_dvfs =
        |load| response(&parameters, "nap 100 ms", load) / response(&parameters, "DVFS", load);
    assert!(to_dvfs(0.95) < to_dvfs(0.6) && to_dvfs(0.6) < to_dvfs(0.35));
    assert!(to_dvfs(0.95) < 0.5, "{}", to_dvfs(0.95));
}

/// The paper's text taken literally: a processor of 33%, idle at 60% of active power, sleep at 5%
/// of idle power, transitions at idle power, suspend as long as resume. The crossings are then
/// elsewhere: its figure 7 makes an assumption that the text does not mention.
#[test]
fn by_the_papers_text_alone_the_power_crossings_are_elsewhere() {
    let parameters = Parameters::default();
    let at = |name| lower_below(&parameters, name, Figure::Power).round();
    assert!(at("nap 10 ms") > 90.0, "{}", at("nap 10 ms"));
    assert_eq!((at("nap 50 ms"), at("nap 650 ms")), (54.0, 11.0));
}

/// The statements on response time need a service time near 38 ms and a suspend of zero length.
#[test]
fn with_other_service_times_or_a_suspend_the_statements_on_response_time_fail() {
    let gain = |parameters: &Parameters, load: f64| {
        let ratio =
            response(parameters, "nap 10 ms", load) / response(parameters, "nap 50 ms", load);
        ((1.0 - ratio) * 100.0).round()
    };
    let with = |mean: f64| Parameters {
        service: Service::Exponential { mean },
        ..Parameters::paper()
    };
    assert_eq!(
        (gain(&with(0.030), 0.05), gain(&with(0.030), 0.45)),
        (48.0, 32.0)
    );
    assert_eq!(
        (gain(&with(0.045), 0.05), gain(&with(0.045), 0.45)),
        (40.0, 26.0)
    );
    let short = crossed(&with(0.030), "nap 50 ms", Figure::Response);
    assert!(
        !short.crossings.is_empty(),
        "50 ms are slower at some loads"
    );
    let both = Parameters::default();
    assert_eq!(gain(&both, 0.45), 34.0);
    let found = crossed(&both, "nap 100 ms", Figure::Response);
    assert_eq!((found.crossings[0].utilisation * 100.0).round(), 47.0);
}

/// Parameters that the paper leaves open, drawn from wide ranges; the given ones are fixed: idle at
/// 60% of active power, sleep at 4 to 6% of idle power.
fn drawn(random: &mut fastrand::Rng, processor_share: f64) -> (Parameters, f64) {
    let mut between = |low: f64, high: f64| low + (high - low) * random.f64();
    let power = Power {
        active: 100.0,
        idle: 60.0,
        nap: between(2.4, 3.6),
        transition: between(3.0, 100.0),
    };
    let (floor, busy, slowdown) = (between(0.05, 0.9), between(0.5, 0.99), between(1.05, 4.0));
    let idle_share = between(0.0, 1.0);
    let means = [0.010, 0.020, 0.038, 0.050, 0.100, 0.200];
    let mean = means[random.usize(..means.len())];
    let rules = [
        Rule::Linear,
        Rule::BusyShare(busy),
        Rule::Slowdown(slowdown),
    ];
    let dvfs = Dvfs {
        floor,
        processor_share,
        idle_share,
        law: Law::Cubic,
        rule: rules[random.usize(..rules.len())],
    };
    let mut parameters = Parameters::paper();
    parameters.power = power;
    parameters.service = Service::Exponential { mean };
    parameters.policies.retain(|named| named.name == "DVFS");
    parameters.policies[0].policy = Policy::Dvfs(dvfs);
    // Is the suspend as long as the resume, or of zero length?
    (parameters, f64::from(random.u8(..2)))
}

/// Are the three crossings in power within 3 points (for 650 ms: 1.5) of their stated places?
fn has_all_crossings((parameters, suspend): &(Parameters, f64)) -> bool {
    let stated = [
        (0.010, 0.45, 0.03),
        (0.050, 0.35, 0.03),
        (0.650, 0.04, 0.015),
    ];
    stated.iter().all(|(resume, load, margin)| {
        let nap = Policy::PowerNap(PowerNap {
            suspend: resume * suspend,
            resume: *resume,
            timeout: 0.0,
        });
        let power = |policy, load| parameters.outcome(policy, load).unwrap().power_mean;
        let dvfs = &parameters.policies[0].policy;
        let saves = |load: f64| power(&nap, load) < power(dvfs, load);
        saves(load - margin) && !saves(load + margin)
    })
}

/// The paper's statements about the processor and about its power are inconsistent.
#[test]
fn with_a_processor_of_33_per_cent_no_set_has_the_three_crossings_in_power() {
    const SETS: usize = 20_000;
    let mut random = fastrand::Rng::with_seed(1);
    let mut found = |share: Option<f64>| -> Vec<f64> {
        let sets = (0..SETS).filter_map(|_| {
            let share = share.unwrap_or(0.2 + 0.7 * random.f64());
            has_all_crossings(&drawn(&mut random, share)).then_some(share)
        });
        sets.collect()
    };
    assert!(found(Some(0.33)).is_empty());
    let others = found(None);
    assert!(!others.is_empty(), "with other shares there are some");
    assert!(others.iter().all(|share| *share > 0.5), "{others:?}");
}

/// The rows of the table in the book: the crossings under other parameters.
#[test]
fn the_books_table_of_crossings_is_right() {
    let rows = [
        ((60.0, 3.0, 60.0), (0.33, 0.0), 1.0, None, 54.0, 11.0),
        ((60.0, 3.0, 60.0), (0.33, 0.33), 1.0, None, 42.0, 3.5),
        ((60.0, 3.0, 100.0), (0.33, 0.0), 1.0, Some(78.0), 28.0, 2.6),
        ((60.0, 3.0, 60.0), (0.62, 0.5), 0.0, Some(49.0), 30.0, 5.4),
        (
            (16.0, 5.8, 16.0),
            (0.466, 0.466),
            0.0,
            Some(45.0),
            35.0,
            4.1,
        ),
        ((60.0, 3.0, 14.0), (0.57, 0.95), 0.0, Some(45.5), 34.9, 4.7),
    ];
    for ((idle, nap, transition), (share, idle_share), suspend, ten, fifty, slow) in rows {
        let mut parameters = Parameters::paper();
        parameters.power = Power {
            active: 100.0,
            idle,
            nap,
            transition,
        };
        for named in &mut parameters.policies {
            match &mut named.policy {
                Policy::Dvfs(dvfs) => {
                    (dvfs.processor_share, dvfs.idle_share) = (share, idle_share);
                }
                Policy::PowerNap(nap) => nap.suspend = nap.resume * suspend,
                _ => {}
            }
        }
        let at = |name| lower_below(&parameters, name, Figure::Power);
        let near = |found: f64, stated: f64| {
            let margin = if stated < 10.0 { 0.1 } else { 0.75 };
            assert!((found - stated).abs() < margin, "{found}, stated {stated}");
        };
        match ten {
            Some(ten) => near(at("nap 10 ms"), ten),
            None => assert!(at("nap 10 ms") > 90.0),
        }
        near(at("nap 50 ms"), fifty);
        near(at("nap 650 ms"), slow);
    }
}
