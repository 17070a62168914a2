//! Which states are allowed, and the resulting setting in the driver's figures: cases to check by
//! hand.

use crate::made_up::{self, loaded, question, sample, sklep0, state, target};
use reveille_advise::without_sleep::Known;
use reveille_advise::{
    Advice, Because, Cost, Coverage, Demand, Error, Finding, Latency, Leaves, Question, Setting,
    Standing, Target, form, why_other_machine,
};
use reveille_kernel::{CoreKind, Cpu, Identity, Idle};
use reveille_results::columns::{Column, Values};
use reveille_results::{Columns, Loaded, NULL};

/// Names of the allowed and the forbidden states.
fn decided(advice: &Advice) -> (Vec<&str>, Vec<&str>) {
    let allowed = advice.allowed().map(|one| one.state.as_str());
    let forbidden = advice.forbidden().map(|one| one.state.as_str());
    (allowed.collect(), forbidden.collect())
}

fn up_to(state: &str, index: u32) -> Leaves {
    Leaves::UpTo {
        state: state.to_owned(),
        index: Some(index),
    }
}

#[test]
fn the_bound_is_the_budget_only_where_the_drivers_table_then_leaves_what_was_measured() {
    // Measured: C1E takes 30 µs and C6 60 µs; the driver's table: 10 and 133.
    let loaded = loaded(&[
        ("C1", "timer", vec![3000; 3000]),
        ("C1E", "timer", vec![30_000; 3000]),
        ("C6", "timer", vec![60_000; 3000]),
    ]);
    let advice = Advice::of(&loaded, &sklep0(), question(50, "99.9")).unwrap();
    assert_eq!(decided(&advice), (vec!["C1", "C1E"], vec!["C6"]));
    let setting = Setting::of(&advice, &sklep0());
    assert_eq!(setting.decision.leaves, up_to("C1E", 2));
    let bound = setting.bound.unwrap();
    assert_eq!((bound.us, bound.up_to_us), (50, Some(132)));

    // A request of the unchanged budget, 20 µs, would allow C1E, and one of 70 µs would forbid C6.
    let advice = Advice::of(&loaded, &sklep0(), question(20, "99.9")).unwrap();
    let setting = Setting::of(&advice, &sklep0());
    assert_eq!(setting.bound.unwrap().us, 2);
    assert_eq!(setting.budget_as_bound_leaves.unwrap(), ["C1", "C1E"]);
    let advice = Advice::of(&loaded, &sklep0(), question(70, "99.9")).unwrap();
    let setting = Setting::of(&advice, &sklep0());
    assert_eq!(setting.decision.leaves, Leaves::Everything);
    assert_eq!(setting.budget_as_bound_leaves.unwrap(), ["C1", "C1E"]);
}

#[test]
fn a_state_must_pass_for_every_source() {
    let quick = || vec![3000; 3000];
    let loaded = loaded(&[
        ("C1", "timer", quick()),
        ("C1", "remote", sample(3000, 30, 90_000)),
        ("C1E", "timer", quick()),
    ]);
    let advice = Advice::of(&loaded, &sklep0(), question(50, "99.9")).unwrap();
    assert_eq!(advice.sources, ["remote", "timer"]);
    assert_eq!(advice.states[1].standing, Standing::Exceeds);
    // The other source did not measure C1E, which proves nothing.
    let evidence = &advice.states[2].evidence;
    assert_eq!(
        (evidence[0].source.as_str(), evidence[0].count),
        ("remote", 0)
    );
    assert_eq!(advice.states[2].standing, Standing::NotShown);
    assert_eq!(
        Setting::of(&advice, &sklep0()).decision.leaves,
        Leaves::NoSetting
    );
}

#[test]
fn no_sleep_is_advised_only_if_it_is_shown_to_keep_to_the_budget() {
    let slow = ("C1", "timer", vec![90_000; 3000]);
    let of = |poll: Option<Vec<i64>>, budget_us: u32| {
        let poll = poll.map(|sample| ("POLL", "timer", sample));
        let samples: Vec<_> = poll.into_iter().chain([slow.clone()]).collect();
        let advice = Advice::of(&loaded(&samples), &sklep0(), question(budget_us, "99.9")).unwrap();
        let setting = Setting::of(&advice, &sklep0());
        let forms = form::all(&advice, &setting, &sklep0());
        let texts = forms.iter().filter(|form| form.text.is_some()).count();
        assert_eq!(texts > 0, setting.decision.is_to_be_set(), "{setting:?}");
        assert_eq!(
            advice.why_nothing().is_none(),
            setting.decision.is_to_be_set()
        );
        (advice.without_sleep.finding, setting.decision.leaves)
    };
    // None of 3000, 3 of 3000, 30 of 3000, and none at all.
    let quick = || vec![900; 3000];
    assert_eq!(of(Some(quick()), 50), (Known::Within, Leaves::NoSleep));
    let some = |count| Some(sample(3000, count, 80_000));
    assert_eq!(of(some(3), 50), (Known::NotShown, Leaves::NoSetting));
    assert_eq!(of(some(30), 50), (Known::Exceeds, Leaves::NoSetting));
    assert_eq!(of(None, 50), (Known::NotMeasured, Leaves::NoSetting));
    // Who asks for no sleep gets it.
    assert_eq!(of(None, 0), (Known::NotMeasured, Leaves::NoSleep));
}

#[test]
fn what_even_wakes_without_sleep_exceed_no_setting_meets() {
    let of = |samples: &[(&str, &str, Vec<i64>)], machine: &Target, budget_us: u32| {
        let advice = Advice::of(&loaded(samples), machine, question(budget_us, "99.9")).unwrap();
        let setting = Setting::of(&advice, machine);
        let forms = form::all(&advice, &setting, machine);
        assert!(forms.iter().all(|form| form.text.is_none()), "{setting:?}");
        (setting.decision.leaves, advice.why_nothing().is_some())
    };
    let poll = |ns: i64| ("POLL", "timer", vec![ns; 3000]);
    let quick = ["C1", "C1E", "C6"].map(|state| (state, "timer", vec![3000; 3000]));
    let all = [&[poll(81_000)][..], &quick].concat();
    // Whatever is shown of the states: all within, too few of them, none there, none on.
    let mut off = sklep0();
    off.states
        .iter_mut()
        .skip(1)
        .for_each(|one| one.disabled = Some(true));
    let awake = Target {
        states: sklep0().states[..1].to_vec(),
        ..sklep0()
    };
    let too_few = [poll(81_000), ("C1", "timer", vec![3000; 20])];
    for (samples, machine) in [
        (&all[..], &sklep0()),
        (&too_few, &sklep0()),
        (&[poll(81_000)], &awake),
        (&[poll(81_000)], &off),
    ] {
        assert_eq!(of(samples, machine, 50), (Leaves::NoSetting, true));
    }
    // Where nothing sleeps, what is not shown is not said to be within the budget.
    let few = [("POLL", "timer", vec![900; 20])];
    for machine in [&awake, &off] {
        assert_eq!(of(&few, machine, 50), (Leaves::NoSetting, true));
        assert_eq!(of(&[poll(900)], machine, 50), (Leaves::Everything, false));
        assert_eq!(of(&few, machine, 0), (Leaves::Everything, false));
    }
}

#[test]
fn a_source_that_was_asked_for_has_to_be_passed() {
    let mut result = loaded(&[
        ("POLL", "timer", vec![900; 3000]),
        ("C1", "timer", vec![3000; 3000]),
        ("C1E", "timer", vec![3000; 3000]),
        ("C6", "timer", vec![3000; 3000]),
    ]);
    result.description.settings.sources = vec!["timer".into(), "remote".into()];
    let advice = Advice::of(&result, &sklep0(), question(50, "99.9")).unwrap();
    assert_eq!(advice.sources, ["remote", "timer"]);
    assert_eq!(advice.without_sleep.finding, Known::NotShown);
    let end = advice.decision.ended_by.as_ref().unwrap();
    assert_eq!((end.source.as_str(), end.count), ("remote", 0));
    assert_eq!(end.because, Because::TooFew { needed: 2995 });
    assert!(matches!(advice.decision.leaves, Leaves::Unknown { .. }));
}

#[test]
fn a_setting_ends_for_what_was_seen_or_for_want_of_it() {
    let of = |c1e: Vec<i64>, percentile: &str| {
        let result = loaded(&[("C1", "timer", vec![3000; 3000]), ("C1E", "timer", c1e)]);
        let advice = Advice::of(&result, &sklep0(), question(50, percentile)).unwrap();
        let setting = Setting::of(&advice, &sklep0());
        assert_eq!(setting.decision.leaves, up_to("C1", 1));
        let json = serde_json::to_value(&setting).unwrap();
        let end = setting.decision.ended_by.unwrap();
        assert_eq!(json["ended_by"]["state"], "C1E");
        (
            end.because,
            end.exceeded,
            json["ended_by"]["because"].clone(),
        )
    };
    let few = Because::TooFew { needed: 2995 };
    assert_eq!(of(vec![3000; 20], "99.9"), (few, 0, "too_few".into()));
    let over = of(vec![90_000; 3000], "99.9");
    assert_eq!(over, (Because::Exceeds, 3000, "exceeds".into()));
    // 31 of 3000 where p99 leaves 30.
    let close = of(sample(3000, 31, 90_000), "99");
    assert_eq!(close, (Because::TooClose, 31, "too_close".into()));
}

#[test]
fn latencies_below_zero_show_nothing() {
    let of = |ns: i64| {
        let result = loaded(&[
            ("POLL", "timer", vec![900; 3000]),
            ("C1", "timer", vec![ns; 3000]),
        ]);
        let advice = Advice::of(&result, &sklep0(), question(10, "99.9")).unwrap();
        let high = advice.states[1].evidence[0].percentile_high_ns;
        let because = advice.decision.ended_by.unwrap();
        (
            advice.states[1].standing,
            because.state,
            because.because,
            high,
        )
    };
    let wrong = of(-5000);
    assert_eq!(
        wrong,
        (Standing::NotShown, "C1".into(), Because::Mistimed, None)
    );
    // The method's own time is subtracted.
    assert_eq!(of(-5).0, Standing::Within);
}

#[test]
fn a_source_whose_datapoints_are_all_of_polling_is_one_to_pass() {
    let loaded = loaded(&[
        ("POLL", "timer", vec![900; 5000]),
        ("C1", "remote", vec![3000; 3000]),
    ]);
    let advice = Advice::of(&loaded, &sklep0(), question(50, "99.9")).unwrap();
    assert_eq!(advice.sources, ["remote", "timer"]);
    let evidence: Vec<(&str, u64)> = advice.states[1]
        .evidence
        .iter()
        .map(|by| (by.source.as_str(), by.count))
        .collect();
    assert_eq!(evidence, [("remote", 3000), ("timer", 0)]);
    assert_eq!(advice.states[1].standing, Standing::NotShown);
}

#[test]
fn the_setting_ends_before_the_first_failing_state_and_deeper_ones_are_judged_alone() {
    let loaded = loaded(&[
        ("C1", "timer", vec![3000; 3000]),
        ("C1E", "timer", sample(3000, 30, 90_000)),
        ("C6", "timer", vec![3000; 3000]),
    ]);
    let advice = Advice::of(&loaded, &sklep0(), question(50, "99.9")).unwrap();
    assert_eq!(decided(&advice), (vec!["C1"], vec!["C1E", "C6"]));
    let alone: Vec<&str> = advice.alone().map(|one| one.state.as_str()).collect();
    assert_eq!(alone, ["C6"]);
    assert_eq!(advice.decision.open(), None);
}

#[test]
fn a_disabled_state_does_not_block_deeper_ones_and_an_unentered_one_does() {
    let mut machine = target(
        "intel_idle",
        vec![
            state(1, "C1", 2, 2),
            state(2, "C1E", 10, 20),
            state(3, "C3", 33, 100),
            state(4, "C6", 133, 400),
        ],
    );
    let quick = || vec![3000; 3000];
    let loaded = loaded(&[
        ("C1", "timer", quick()),
        ("C1E", "timer", quick()),
        ("C6", "timer", quick()),
    ]);
    let advice = Advice::of(&loaded, &machine, question(50, "99.9")).unwrap();
    assert_eq!(decided(&advice).0, ["C1", "C1E"]);
    assert_eq!(advice.decision.open().unwrap().state, "C3");
    let needed = Some(2995);
    let evidence = &advice.states[3].evidence[0];
    assert_eq!(evidence.finding, Finding::NotShown { needed });

    machine.states[3].disabled = Some(true);
    let advice = Advice::of(&loaded, &machine, question(50, "99.9")).unwrap();
    assert_eq!(decided(&advice), (vec!["C1", "C1E", "C6"], vec![]));
    assert_eq!(advice.states[3].standing, Standing::Off);
    assert_eq!(
        Setting::of(&advice, &machine).decision.leaves,
        Leaves::Everything
    );
}

#[test]
fn a_budget_of_zero_forbids_all_idle_states() {
    // Overheads are subtracted, so a latency may be negative.
    let loaded = loaded(&[("C1", "timer", vec![-5; 3000])]);
    let advice = Advice::of(&loaded, &sklep0(), question(0, "99.9")).unwrap();
    let setting = Setting::of(&advice, &sklep0());
    assert_eq!(setting.decision.leaves, Leaves::NoSleep);
    assert_eq!(setting.bound.unwrap().us, 0);
}

#[test]
fn states_of_equal_table_latency_get_no_bound_between_them() {
    let machine = target(
        "intel_idle",
        vec![state(1, "C1", 20, 20), state(2, "C6", 20, 600)],
    );
    let loaded = loaded(&[
        ("C1", "timer", vec![3000; 3000]),
        ("C6", "timer", vec![90_000; 3000]),
    ]);
    let advice = Advice::of(&loaded, &machine, question(50, "99.9")).unwrap();
    let setting = Setting::of(&advice, &machine);
    assert_eq!(setting.decision.leaves, up_to("C1", 1));
    assert_eq!(setting.bound, None);
    assert!(setting.why_no_bound.unwrap().contains("no bound leaves C1"));
}

#[test]
fn the_maximum_is_judged_by_observed_latencies_and_an_estimate_is_added() {
    let asked = Question {
        demand: Demand::Maximum,
        ..question(50, "99.9")
    };
    let loaded = loaded(&[
        ("C1", "timer", vec![3000; 2995]),
        ("C1E", "timer", vec![3000; 2994]),
        ("C6", "timer", sample(9000, 1, 51_000)),
    ]);
    let advice = Advice::of(&loaded, &sklep0(), asked).unwrap();
    let standings: Vec<Standing> = advice.states.iter().map(|one| one.standing).collect();
    let (want, over) = (Standing::NotShown, Standing::Exceeds);
    assert_eq!(standings, [Standing::NoSleep, Standing::Within, want, over]);
    assert!(advice.states[1].evidence[0].tail.is_some());
}

#[test]
fn without_a_driver_or_its_table_no_bound_is_given() {
    let quick = || loaded(&[("default_idle", "timer", vec![90_000; 3000])]);
    let mut result = quick();
    result.description.driver = None;
    let machine = Target::new(&result.description, None);
    let advice = Advice::of(&result, &machine, question(0, "99.9")).unwrap();
    let why = Setting::of(&advice, &machine).why_no_bound.unwrap();
    assert!(why.contains("without an idle driver"), "{why}");

    // The polling of another tool's result is unknown.
    result.description.probe = reveille_results::description::Probe::Foreign;
    let machine = Target::new(&result.description, None);
    let why = Setting::of(&advice, &machine).why_no_bound.unwrap();
    assert!(why.contains("is unknown"), "{why}");
}

#[test]
fn a_result_without_a_table_is_judged_in_name_order() {
    let loaded = loaded(&[
        ("C6", "unknown", vec![90_000; 3000]),
        ("C1E", "unknown", vec![3000; 3000]),
        ("C1", "unknown", vec![3000; 3000]),
    ]);
    let machine = Target {
        driver: None,
        is_known: false,
        states: Vec::new(),
        ..sklep0()
    };
    let advice = Advice::of(&loaded, &machine, question(50, "99.9")).unwrap();
    assert_eq!(decided(&advice), (vec!["C1", "C1E"], vec!["C6"]));
    let setting = Setting::of(&advice, &machine);
    assert_eq!(setting.budget_as_bound_leaves, None);
}

#[test]
fn a_missing_latency_column_and_an_empty_result_are_errors() {
    let asked = Question {
        latency: Latency::Interrupt,
        ..question(50, "99.9")
    };
    let result = loaded(&[("C1", "timer", vec![3000; 10])]);
    let lacks = Advice::of(&result, &sklep0(), asked);
    assert!(matches!(lacks, Err(Error::NoLatency(Latency::Interrupt))));
    let empty = Advice::of(&loaded(&[]), &sklep0(), question(50, "99.9"));
    assert!(matches!(empty, Err(Error::NoDatapoints)));
}

#[test]
fn forbidden_idle_time_is_a_share_and_may_be_unknown() {
    let result = loaded(&[("C1", "timer", vec![3000; 3000])]);
    let mut machine = sklep0();
    machine.states[3].time_us = Some(6000);
    let advice = Advice::of(&result, &machine, question(50, "99.9")).unwrap();
    // C1 1000 µs, C1E 1000 µs, C6 6000 µs; C1E and C6 are forbidden.
    let cost = Cost::of(&result, &machine, &advice);
    assert_eq!(cost.forbidden_time_percent, Some(87.5));
    machine.states[1].time_us = None;
    let cost = Cost::of(&result, &machine, &advice);
    assert_eq!(cost.forbidden_time_percent, None);
    // There is no share of zero idle time.
    for state in &mut machine.states {
        state.time_us = Some(0);
    }
    let cost = Cost::of(&result, &machine, &advice);
    assert_eq!(cost.forbidden_time_percent, None);
}

/// Rows with a state, a latency and a frequency; the table of names has an additional one, `C9`.
fn with_frequencies(rows: &[(&str, i64, i64)]) -> Loaded {
    let names = ["C1", "C9", "C1E", "C6", "unknown"];
    let code = |name: &str| names.iter().position(|known| *known == name).unwrap() as u8;
    let column = |name: &str, values| Column {
        name: name.to_owned(),
        values,
    };
    let numbers = |number: fn(&(&str, i64, i64)) -> i64| -> Values {
        Values::Integer(rows.iter().map(number).collect())
    };
    let columns = vec![
        column(
            "source",
            Values::Name {
                codes: (0..rows.len()).map(|row| row as u8 % 2).collect(),
                names: vec!["timer".to_owned(), "remote".to_owned()],
            },
        ),
        column(
            "requested_state",
            Values::Name {
                codes: rows.iter().map(|(name, ..)| code(name)).collect(),
                names: names.map(str::to_owned).to_vec(),
            },
        ),
        column(
            "requested_state_index",
            Values::Integer(vec![NULL; rows.len()]),
        ),
        column("wake_latency_ns", numbers(|row| row.1)),
        column("cpu_frequency_khz", numbers(|row| row.2)),
    ];
    Loaded {
        description: made_up::description(),
        columns: Columns::new(columns).unwrap(),
    }
}

#[test]
fn frequencies_count_each_states_wakes_and_report_the_uncounted() {
    let loaded = with_frequencies(&[
        ("C1", 3000, 1_200_000),
        ("C1E", 3000, 3_000_000),
        ("C1", 3000, NULL),
        ("C1", 3000, 800_000),
        ("unknown", 3000, 5_000_000),
        ("C1", 3000, 1_000_000),
        ("C1E", NULL, 2_000_000),
        ("unknown", 3000, NULL),
        ("C6", NULL, NULL),
        ("unknown", 3000, NULL),
    ]);
    let advice = Advice::of(&loaded, &sklep0(), question(50, "99.9")).unwrap();
    // One of an unknown state by the timer, two remotely.
    assert_eq!((advice.of_unknown_state, advice.without_latency), (3, 2));
    let cost = Cost::of(&loaded, &sklep0(), &advice);
    let counted = cost.frequency.iter();
    let counted: Vec<_> = counted
        .map(|one| (one.state.as_str(), one.count, one.median_khz))
        .collect();
    assert_eq!(counted, [("C1", 3, 1_000_000), ("C1E", 2, 2_000_000)]);
}

#[test]
fn a_forbidden_state_needs_a_setting() {
    for (c1, c6, to_be_set) in [
        (3000, 3000, false),
        (3000, 90_000, true),
        (90_000, 90_000, true),
    ] {
        let result = loaded(&[
            ("POLL", "timer", vec![900; 3000]),
            ("C1", "timer", vec![c1; 3000]),
            ("C1E", "timer", vec![c1; 3000]),
            ("C6", "timer", vec![c6; 3000]),
        ]);
        let advice = Advice::of(&result, &sklep0(), question(50, "99.9")).unwrap();
        let setting = Setting::of(&advice, &sklep0());
        assert_eq!(
            setting.decision.is_to_be_set(),
            to_be_set,
            "{:?}",
            setting.decision.leaves
        );
    }
}

#[test]
fn advice_applies_to_cpus_of_the_measured_kind() {
    let of = |kinds: [Option<CoreKind>; 3], measured| {
        let cpu = |(number, kind)| Cpu {
            number,
            online: true,
            package: None,
            core: None,
            resume_latency_us: None,
            siblings: Vec::new(),
            kind,
            states: Vec::new(),
        };
        let idle = Idle {
            driver: None,
            governor: None,
            available_governors: Vec::new(),
            cpus: (0..).zip(kinds).map(cpu).collect(),
            isolated: Vec::new(),
            nohz_full: Vec::new(),
        };
        let mut description = made_up::description();
        description.settings.cpu = Some(measured);
        Target::new(&description, Some((&Identity::default(), &idle))).coverage
    };
    let (fast, small) = (Some(CoreKind::Performance), Some(CoreKind::Efficient));
    let hybrid = Coverage::Hybrid {
        kind: CoreKind::Efficient.to_string(),
        cpus: vec![1, 2],
        others: vec![0],
        one_of_each: vec![0],
    };
    assert_eq!(of([fast.clone(), small.clone(), small.clone()], 1), hybrid);
    let three = of([fast.clone(), small.clone(), None], 1);
    assert!(matches!(three, Coverage::Hybrid { one_of_each, .. } if one_of_each == [0, 2]));
    assert_eq!(
        of([fast.clone(), fast.clone(), fast], 1),
        Coverage::AllAlike
    );
    assert_eq!(of([None, None, None], 1), Coverage::AllAlike);
    assert_eq!(of([None, small, None], 7), Coverage::Result);
}

#[test]
fn an_unproven_shallowest_state_gets_no_verdict_and_no_setting() {
    let of_c6_only = [("C6", "timer", vec![3000; 3000])];
    let too_few = [
        ("C1", "timer", vec![3000; 500]),
        ("C6", "timer", vec![90_000; 3000]),
    ];
    for samples in [&of_c6_only[..], &too_few] {
        let advice = Advice::of(&loaded(samples), &sklep0(), question(50, "99.9")).unwrap();
        let setting = Setting::of(&advice, &sklep0());
        let state = "C1".to_owned();
        assert_eq!(setting.decision.leaves, Leaves::Unknown { state });
        assert!(!setting.decision.is_to_be_set());
        assert_eq!((setting.bound, setting.forbidden.len()), (None, 0));
        for form in form::all(&advice, &setting, &sklep0()) {
            assert_eq!(form.text, None, "{}", form.name.as_str());
            assert!(form.caveat.unwrap().contains("too few datapoints of C1"));
        }
    }
    // Proven verdicts are reported: C1 is allowed although C1E is unknown, and a budget of 0 has an
    // answer.
    let c1 = loaded(&[("C1", "timer", vec![3000; 3000])]);
    let advice = Advice::of(&c1, &sklep0(), question(50, "99.9")).unwrap();
    assert_eq!(
        Setting::of(&advice, &sklep0()).decision.leaves,
        up_to("C1", 1)
    );
    let none = loaded(&of_c6_only);
    let advice = Advice::of(&none, &sklep0(), question(0, "99.9")).unwrap();
    assert_eq!(
        Setting::of(&advice, &sklep0()).decision.leaves,
        Leaves::NoSleep
    );
}

#[test]
fn a_governor_that_ignores_bounds_gets_none() {
    let mut machine = sklep0();
    machine.governor = Some("haltpoll".to_owned());
    let loaded = loaded(&[
        ("C1", "timer", vec![3000; 3000]),
        ("C1E", "timer", vec![90_000; 3000]),
    ]);
    let advice = Advice::of(&loaded, &machine, question(50, "99.9")).unwrap();
    let setting = Setting::of(&advice, &machine);
    assert_eq!(
        (&setting.decision.leaves, setting.bound),
        (&up_to("C1", 1), None)
    );
    assert!(setting.why_no_bound.unwrap().contains("haltpoll"));
    // It honours a bound of 0.
    let advice = Advice::of(&loaded, &machine, question(0, "99.9")).unwrap();
    let bound = Setting::of(&advice, &machine).bound.unwrap();
    assert_eq!(bound.us, 0);
}

#[test]
fn empty_sources_are_listed_only_for_enabled_sleep_states() {
    let mut machine = sklep0();
    machine.states[2].disabled = Some(true);
    let loaded = loaded(&[
        ("POLL", "remote", vec![900; 20]),
        ("C1", "timer", vec![3000; 3000]),
        ("C1", "remote", vec![3000; 3000]),
    ]);
    let advice = Advice::of(&loaded, &machine, question(50, "99.9")).unwrap();
    let sources = |state: usize| -> Vec<(&str, u64)> {
        let evidence = advice.states[state].evidence.iter();
        evidence.map(|by| (by.source.as_str(), by.count)).collect()
    };
    let standings: Vec<Standing> = advice.states.iter().map(|one| one.standing).collect();
    let (off, unknown) = (Standing::Off, Standing::NotShown);
    assert_eq!(
        standings,
        [Standing::NoSleep, Standing::Within, off, unknown]
    );
    assert_eq!(sources(0), [("remote", 20)]);
    assert_eq!(sources(1), [("remote", 3000), ("timer", 3000)]);
    assert_eq!(sources(2), []);
    assert_eq!(sources(3), [("remote", 0), ("timer", 0)]);
}

#[test]
fn table_and_datapoints_identify_another_machine() {
    let cpu = |number: u32, states: &[&str]| reveille_kernel::Cpu {
        number,
        online: true,
        package: None,
        core: None,
        resume_latency_us: None,
        siblings: Vec::new(),
        kind: None,
        states: (0..)
            .zip(states)
            .map(|(n, name)| state(n, name, 1, 1))
            .collect(),
    };
    let idle = |states: &[&str]| reveille_kernel::Idle {
        driver: None,
        governor: None,
        available_governors: Vec::new(),
        cpus: vec![cpu(0, &["POLL"]), cpu(1, states)],
        isolated: Vec::new(),
        nohz_full: Vec::new(),
    };
    let mut loaded = loaded(&[
        ("C6", "timer", vec![1000; 3]),
        ("unknown", "timer", vec![1000; 3]),
    ]);
    loaded.description.settings.cpu = Some(1);
    // Without a table: the states that the datapoints name.
    assert_eq!(
        why_other_machine(&loaded, &idle(&["POLL", "C1", "C6"])),
        None
    );
    let other = why_other_machine(&loaded, &idle(&["POLL", "C1"])).unwrap();
    assert_eq!(
        other,
        "CPU 1 has other idle states (POLL, C1) than the result is of (C6)"
    );
    let none = why_other_machine(&loaded, &idle(&[])).unwrap();
    assert!(none.contains("states (none) than"), "{none}");
    // C9 is in the table of names, but no datapoint has it.
    let mut unused = with_frequencies(&[("C6", 3000, NULL)]);
    unused.description.settings.cpu = Some(1);
    assert_eq!(why_other_machine(&unused, &idle(&["POLL", "C6"])), None);
    loaded.description.states = cpu(1, &["POLL", "C6"]).states;
    assert_eq!(why_other_machine(&loaded, &idle(&["POLL", "C6"])), None);
    let other = why_other_machine(&loaded, &idle(&["POLL", "C1", "C6"])).unwrap();
    assert!(
        other.ends_with("than the result is of (POLL, C6)"),
        "{other}"
    );
    loaded.description.settings.cpu = Some(2);
    let no_cpu = why_other_machine(&loaded, &idle(&["C1"])).unwrap();
    assert_eq!(no_cpu, "no CPU 2, which was measured");
}
