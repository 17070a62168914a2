use reveille_snapshot::snapshot;

use super::*;
use crate::policy::{CStates, Choice};
use crate::simulate::Dispatcher;

const EXAMPLE: &str = include_str!("../../../../docs/example/model.toml");

#[test]
fn the_example_matches_its_comments() {
    let example = Parameters::parse(EXAMPLE).unwrap();
    let (mean, cv) = (0.038, 1.5);
    assert_eq!(example.service, Service::Lognormal { mean, cv });
    assert_eq!(example.arrivals, Arrivals::Utilisation(0.3));
    assert_eq!(
        (example.power.active, example.power.transition),
        (100.0, 60.0)
    );
    let names: Vec<&str> = example
        .policies
        .iter()
        .map(|one| one.name.as_str())
        .collect();
    let expected = [
        "nap at once",
        "nap after 0.1 s",
        "DVFS",
        "idle states",
        "always on",
    ];
    assert_eq!(names, expected);
    let late = PowerNap {
        suspend: 0.049,
        resume: 0.05,
        timeout: 0.1,
    };
    assert_eq!(example.policies[1].policy, Policy::PowerNap(late));
    let Policy::Dvfs(dvfs) = &example.policies[2].policy else {
        panic!("{:?}", example.policies[2]);
    };
    assert_eq!((&dvfs.law, dvfs.rule), (&Law::Cubic, Rule::BusyShare(0.8)));
    let Policy::CStates(CStates { states, choice }) = &example.policies[3].policy else {
        panic!("{:?}", example.policies[3]);
    };
    assert_eq!((states.len(), *choice), (2, Choice::Mean));
    assert_eq!(states[1].exit_latency, 0.000133);
    assert_eq!(example.utilisations.len(), 10);
    assert_eq!(example.farm.unwrap().price_per_kwh, Some(0.2));
}

#[test]
fn the_examples_alternatives_are_accepted() {
    let instead = EXAMPLE
        .replace(
            "distribution = \"lognormal\"",
            "distribution = \"empirical\"",
        )
        .replace("mean = \"38ms\"", "")
        .replace("cv = 1.5", "")
        .replace("# values", "values")
        .replace("utilisation = 0.3", "")
        .replace("# rate", "rate")
        .replace("law = \"cubic\"", "")
        .replace("# law", "law");
    let parameters = Parameters::parse(&instead).unwrap();
    let values = vec![0.012, 0.038];
    assert_eq!(parameters.service, Service::Empirical { values });
    assert_eq!(parameters.rate(), 7.9);
    let Policy::Dvfs(dvfs) = &parameters.policies[2].policy else {
        panic!("{:?}", parameters.policies[2]);
    };
    assert_eq!(dvfs.law.power(0.7), 0.5);
}

#[test]
fn an_empty_file_is_the_paper() {
    assert_eq!(Parameters::parse("").unwrap(), Parameters::default());
}

#[test]
fn an_invalid_file_is_refused_in_one_line_with_its_position() {
    let refused = |text: &str| {
        let why = Parameters::parse(text).unwrap_err().to_string();
        assert!(!why.contains('\n'), "{why}");
        why
    };
    for (text, parts) in [
        (
            "[power]\nactiv = 3",
            vec!["line 2", "unknown field `activ`", "`active`"],
        ),
        ("\n[servce]\n", vec!["line 2", "unknown field `servce`"]),
        ("[power", vec!["line 1"]),
        (
            "[service]\nmean = \"3ms\"",
            vec!["line 1", "distribution is missing"],
        ),
        (
            "[service]\ndistribution = \"weibull\"",
            vec!["weibull", "lognormal"],
        ),
        (
            "[service]\ndistribution = \"\"",
            vec!["line 1", "distribution ``; give exponential"],
        ),
        (
            "[service]\ndistribution = \"exponential\"\nmean = \"3 apples\"",
            vec!["line 1", "3 apples", "write ns, us, ms"],
        ),
        (
            "[service]\ndistribution = \"exponential\"\nmean = 1\ncv = 2",
            vec!["unknown field `cv`"],
        ),
        (
            "\n\n[[policy]]\nname = \"a\"\nkind = \"power_nap\"\nsuspend = 1",
            vec!["line 3", "`a`", "missing field `resume`"],
        ),
        (
            "[[policy]]\nname = \"a\"\nkind = \"always_on\"\nsuspend = 1",
            vec!["unknown field `suspend`"],
        ),
        (
            "[[policy]]\nname = \"a\"\nkind = \"sleep\"",
            vec!["kind `sleep`", "power_nap"],
        ),
        (
            "[[policy]]\nname = \"a\"\nkind = \"power_nap\"\nsuspend = -1\nresume = 1",
            vec!["policy `a`", "suspend: -1"],
        ),
        ("[arrivals]\nutilisation = 0.2\nrate = 3", vec!["either"]),
        ("[arrivals]\nrate = -3", vec!["rate: -3"]),
        ("[sweep]\nutilisations = [0.5, 1.0]", vec!["utilisation 1"]),
        ("[sweep]\nutilisations = []", vec!["no utilisation"]),
        (
            "[farm]\nservers = 10\noverhead = 0.5",
            vec!["overhead: 0.5"],
        ),
        (
            "[power]\nactive = -1\nidle = 1\nnap = 1\ntransition = 1",
            vec!["active: -1"],
        ),
        (
            "[power]\nactive = 1e300\nidle = 1\nnap = 1\ntransition = 1",
            vec!["active: 1e300", "1e9"],
        ),
        (
            "[power]\nactive = 0\nidle = 0\nnap = 1\ntransition = 1",
            vec!["both 0 W"],
        ),
        (
            "[service]\ndistribution = \"gamma\"\nmean = 1\ncv = 1e300",
            vec!["variation is 1e300", "1000"],
        ),
        (
            "[service]\ndistribution = \"deterministic\"\nmean = 1e300",
            vec!["mean is 1e300 s", "1e9"],
        ),
        (
            "[[policy]]\nname = \"a\"\nkind = \"power_nap\"\nsuspend = 1e300\nresume = 1",
            vec!["suspend: 1e300"],
        ),
        (
            "[farm]\nservers = 10\nprice_per_kwh = 1e300",
            vec!["price_per_kwh: 1e300"],
        ),
        (
            "[[policy]]\nname = \" \"\nkind = \"always_on\"",
            vec!["\" \"", "invalid name"],
        ),
        (
            "[[policy]]\nname = \"a\\nb\"\nkind = \"always_on\"",
            vec!["a\\nb", "invalid name"],
        ),
        (
            "[[policy]]\nname = \"Always on\"\nkind = \"power_nap\"\nsuspend = 1\nresume = 1",
            vec!["Always on", "choose another"],
        ),
        (
            "[[policy]]\nname = \"a\"\nkind = \"always_on\"\n\
             [[policy]]\nname = \"A\"\nkind = \"always_on\"",
            vec!["policy `A`", "duplicate name"],
        ),
    ] {
        let why = refused(text);
        for part in parts {
            assert!(why.contains(part), "{part:?} is not in {why:?}");
        }
    }
}

proptest::proptest! {
    #[test]
    fn no_text_makes_the_reader_panic(text in "[a-z_=\\[\\]\"{}.0-9,# \n-]{0,200}") {
        let _ = Parameters::parse(&text);
    }
}

#[test]
fn arrivals_are_a_load_or_a_rate_that_determines_the_other() {
    let mut parameters = Parameters::paper();
    parameters.service = Service::Exponential { mean: 0.25 };
    parameters.arrivals = Arrivals::Utilisation(0.5);
    assert_eq!((parameters.utilisation(), parameters.rate()), (0.5, 2.0));
    parameters.arrivals = Arrivals::Rate(3.0);
    assert_eq!((parameters.utilisation(), parameters.rate()), (0.75, 3.0));
    // M/M/1 at three a second of four.
    let outcome = parameters.outcome(&Policy::AlwaysOn, 0.75).unwrap();
    assert_eq!(outcome.response_mean, 1.0);
}

#[test]
fn always_on_is_recognized_by_its_behaviour_and_policies_by_name_in_any_case() {
    let mut parameters = Parameters::paper();
    assert!(!parameters.has_always_on());
    assert_eq!(parameters.policy("dvfs").unwrap().name, "DVFS");
    assert_eq!(parameters.policy("NAP 50 MS").unwrap().name, "nap 50 ms");
    let refused = format!("{:?}", parameters.policy("nap").unwrap_err());
    snapshot!("errors", [("nap", refused)]);
    parameters.policies[1] = Named {
        name: "awake".into(),
        policy: Policy::AlwaysOn,
    };
    assert!(parameters.has_always_on());
    // It may have any name, or its own.
    assert_eq!(parameters.check(), Ok(()));
    parameters.policies[1] = Named::always_on();
    assert_eq!(parameters.check(), Ok(()));
    parameters.policies[1].name = "Always On".into();
    assert_eq!(parameters.check(), Ok(()));
}

/// The refusal of each change of the paper's parameters; nothing for valid ones.
#[test]
fn policies_loads_sweeps_and_farms_have_their_limits() {
    /// Changes of type `fn(&mut $of)`, each with its text.
    macro_rules! changes {
        ($of:ty: $($change:expr),+ $(,)?) => {
            [$((stringify!($change), $change as fn(&mut $of))),+]
        };
    }
    let of_parameters = changes![Parameters:
        |p| p.arrivals = Arrivals::Utilisation(1e-9),
        |p| p.arrivals = Arrivals::Rate(1e9),
        |p| p.arrivals = Arrivals::Utilisation(0.0),
        |p| p.arrivals = Arrivals::Utilisation(f64::INFINITY),
        |p| p.arrivals = Arrivals::Rate(0.0),
        |p| p.arrivals = Arrivals::Rate(f64::NAN),
        |p| p.policies.clear(),
        |p| p.utilisations = vec![1e-9, 0.5, 0.999],
        |p| p.utilisations.clear(),
        |p| p.utilisations = vec![0.0, 0.5],
        |p| p.utilisations = vec![0.5, 1.0],
        |p| p.utilisations = vec![0.2, 0.5, 0.5],
        |p| p.utilisations = vec![0.5, 0.2],
    ];
    let of_farms = changes![Farm:
        |farm| farm.servers = 1,
        |farm| farm.servers = 1_000_000_000,
        |farm| farm.servers = 0,
        |farm| farm.servers = 1_000_000_001,
        |farm| farm.price_per_kwh = Some(1e-9),
        |farm| farm.price_per_kwh = Some(1e9),
        |farm| farm.price_per_kwh = Some(0.0),
        |farm| farm.price_per_kwh = Some(-0.2),
        |farm| farm.price_per_kwh = Some(2e9),
        |farm| farm.overhead = 1.0,
        |farm| farm.overhead = 1e9,
        |farm| farm.overhead = 0.999,
        |farm| farm.overhead = 2e9,
        |farm| farm.overhead = f64::NAN,
    ];
    let said = of_parameters.map(|(case, change)| {
        let mut parameters = Parameters::paper();
        change(&mut parameters);
        (case, format!("{:?}", parameters.check()))
    });
    let said_of_farms = of_farms.map(|(case, change)| {
        let mut parameters = Parameters::paper();
        change(parameters.farm.insert(Farm {
            servers: 10,
            price_per_kwh: None,
            overhead: 1.0,
        }));
        (case, format!("{:?}", parameters.check()))
    });
    snapshot!("errors", said.into_iter().chain(said_of_farms));
}

#[test]
fn an_unknown_policy_is_refused_with_the_line_and_the_choices() {
    let said = [
        "\n[[policy]]\nkind = \"dvfs\"",
        "[[policy]]\nname = 3",
        "\n\n[service]\ndistribution = 1.5",
        "[arrivals]",
    ]
    .map(|text| {
        let refused = Parameters::parse(text).unwrap_err();
        (format!("{text:?}"), format!("{refused:?}"))
    });
    snapshot!("errors", said);
}

#[test]
fn the_setup_has_all_parameters() {
    let mut parameters = Parameters::paper();
    parameters.service = Service::Exponential { mean: 0.25 };
    parameters.arrivals = Arrivals::Rate(2.0);
    parameters.simulation = Simulation {
        servers: 3,
        dispatcher: Dispatcher::RoundRobin,
        replications: 7,
        confidence: 0.9,
        seed: 5,
        requests: 1234,
        ..Simulation::default()
    };
    let policy = parameters.policies[1].policy.clone();
    let random = parameters.setup(&policy, None);
    // Two per second for each of three.
    assert_eq!(random.arrivals, simulate::Arrivals::Poisson { rate: 6.0 });
    assert_eq!(
        (random.servers, random.dispatcher),
        (3, Dispatcher::RoundRobin)
    );
    assert_eq!(random.policies.iter().collect::<Vec<_>>(), [&policy]);
    assert_eq!(random.service, parameters.service);
    assert_eq!(random.power, parameters.power);
    assert_eq!(random.horizon, Horizon::Requests(1234));
    assert_eq!(random.warm_up, WarmUp::Relaxation);
    assert_eq!((random.replications, random.seed), (7, 5));
    assert_eq!(random.confidence, 0.9);
    let trace = Trace::read(b"0.5\n1.5\n").unwrap();
    let recorded = parameters.setup(&policy, Some(&trace));
    assert_eq!(recorded.arrivals, simulate::Arrivals::Trace(trace));
    assert_eq!(recorded.horizon, Horizon::Trace);
    parameters.simulation.horizon_s = Some(60.0);
    parameters.simulation.warm_up_s = Some(5.0);
    let timed = parameters.setup(&policy, None);
    assert_eq!(timed.horizon, Horizon::Seconds(60.0));
    assert_eq!(timed.warm_up, WarmUp::Seconds(5.0));
}
