//! The recalculated driver table: cases to check by hand.

use crate::made_up::{self, loaded, sklep0, state, target};
use reveille_advise::table::{BreakEven, Origin, Residency, Table};
use reveille_advise::{Coverage, Error, Latency, Target};
use reveille_results::Loaded;

fn table(loaded: &Loaded, target: &Target, residency: Residency) -> Result<Table, Error> {
    with_break_even(loaded, target, residency, &[])
}

fn with_break_even(
    loaded: &Loaded,
    target: &Target,
    residency: Residency,
    break_even_us: &[(&str, u64)],
) -> Result<Table, Error> {
    let stays = break_even_us.iter().map(|(state, us)| {
        let (us, words) = ((*us > 0).then_some(*us), "at most 300 µs".to_owned());
        ((*state).to_owned(), BreakEven { us, words })
    });
    let (percentile, confidence) = ("99.9".parse().unwrap(), "95".parse().unwrap());
    Table::of(
        loaded,
        target,
        percentile,
        confidence,
        Latency::Wake,
        residency,
        &stays.collect(),
    )
}

fn result(c1: i64, c1e: i64, c6: i64) -> Loaded {
    loaded(&[
        ("C1", "timer", vec![c1; 3000]),
        ("C1E", "timer", vec![c1e; 3000]),
        ("C6", "timer", vec![c6; 3000]),
    ])
}

#[test]
fn a_break_even_that_is_not_known_changes_nothing_and_is_named() {
    let result = result(1001, 12_000, 199_001);
    // 0 stands for one that is not known.
    let stays = [("C1E", 31), ("C6", 0)];
    let of = |stays: &[(&str, u64)]| {
        with_break_even(&result, &sklep0(), Residency::Keep, stays).unwrap()
    };
    let (with, without) = (of(&stays), of(&stays[..1]));
    assert_eq!(with.parameter, without.parameter);
    assert_eq!(with.rows[2].break_even_us, None);
    let unknown = |table: &Table, row: usize| table.rows[row].break_even_unknown.clone();
    assert_eq!(unknown(&with, 2).as_deref(), Some("at most 300 µs"));
    assert_eq!((unknown(&without, 2), unknown(&with, 1)), (None, None));
}

#[test]
fn a_measured_break_even_becomes_the_target_residency_within_the_kernels_rules() {
    let result = result(1001, 12_000, 199_001);
    let stays = [("C1E", 31), ("C6", 150), ("C8", 5)];
    for residency in [Residency::Keep, Residency::Scale] {
        let table = with_break_even(&result, &sklep0(), residency, &stays).unwrap();
        assert!(
            table.parameter.ends_with("C1E:12:31,C6:200:200"),
            "{}",
            table.parameter
        );
        assert_eq!(table.rows[1].break_even_us, Some(31));
        assert!(
            table.rows[2].changes[0].contains("raised from 150 to 200"),
            "{:?}",
            table.rows[2]
        );
    }
}

#[test]
fn latencies_are_rounded_up_and_residencies_are_kept_or_scaled() {
    let result = result(1001, 12_000, 199_001);
    let kept = table(&result, &sklep0(), Residency::Keep).unwrap();
    assert_eq!(
        kept.parameter,
        "intel_idle.table=C1:2:2,C1E:12:20,C6:200:600"
    );
    assert!(kept.warnings.is_empty() && kept.rows.iter().all(|row| row.changes.is_empty()));
    // 20 / 10 and 600 / 133 times the latency, rounded up.
    let scaled = table(&result, &sklep0(), Residency::Scale).unwrap();
    assert_eq!(
        scaled.parameter,
        "intel_idle.table=C1:2:2,C1E:12:24,C6:200:903"
    );
}

#[test]
fn a_row_with_too_few_datapoints_is_kept_and_names_the_shortfall() {
    let result = loaded(&[
        ("C1", "timer", vec![1000; 2994]),
        ("C1E", "timer", vec![12_000; 3000]),
        ("C1E", "remote", vec![14_000; 3000]),
        ("C1", "remote", vec![1000; 3000]),
    ]);
    let table = table(&result, &sklep0(), Residency::Keep).unwrap();
    assert_eq!(
        table.parameter,
        "intel_idle.table=C1:2:2,C1E:14:20,C6:133:600"
    );
    let needed = Some(2995);
    assert_eq!(table.rows[0].origin, Origin::Driver { needed });
    assert_eq!(table.rows[0].count, 2994);
    assert_eq!(table.rows[1].origin, Origin::Measured);
}

#[test]
fn values_that_the_kernel_would_reject_are_raised_with_a_note() {
    // C1E is quicker than C1; C7s and C8 share a target residency in the driver's own table.
    let machine = target(
        "intel_idle",
        vec![
            state(1, "C1", 2, 2),
            state(2, "C1E", 10, 20),
            state(3, "C7s", 124, 800),
            state(4, "C8", 200, 800),
        ],
    );
    let result = loaded(&[
        ("C1", "timer", vec![5000; 3000]),
        ("C1E", "timer", vec![4000; 3000]),
    ]);
    let table = table(&result, &machine, Residency::Keep).unwrap();
    assert_eq!(
        table.parameter,
        "intel_idle.table=C1:5:5,C1E:6:20,C7s:124:800,C8:200:801"
    );
    let changed = |row: usize| table.rows[row].changes.len();
    assert_eq!(
        [changed(0), changed(1), changed(2), changed(3)],
        [1, 1, 0, 1]
    );
}

#[test]
fn a_latency_above_the_kernels_limit_is_capped_and_two_of_them_are_an_error() {
    let cut = table(&result(1000, 12_000, 9_000_000), &sklep0(), Residency::Keep).unwrap();
    assert_eq!(
        cut.parameter,
        "intel_idle.table=C1:1:2,C1E:12:20,C6:5000:5000"
    );
    assert!(cut.rows[2].changes[0].contains("cut"));
    let none = table(
        &result(1000, 8_000_000, 9_000_000),
        &sklep0(),
        Residency::Keep,
    );
    assert!(matches!(none, Err(Error::CannotBeWritten(_))));
    // A wake of zero duration still has a latency of 1 µs in the table.
    let quick = table(&result(-3, 12_000, 20_000), &sklep0(), Residency::Keep).unwrap();
    assert_eq!(quick.rows[0].exit_latency_us, 1);
}

#[test]
fn a_different_driver_and_a_missing_table_are_errors() {
    let result = result(1000, 12_000, 20_000);
    let acpi = Target {
        driver: Some("acpi_idle".to_owned()),
        ..sklep0()
    };
    let Err(Error::NoTableTaken(driver)) = table(&result, &acpi, Residency::Keep) else {
        panic!("a table for acpi_idle");
    };
    assert_eq!(driver, "acpi_idle");
    let unknown = Target {
        states: Vec::new(),
        ..sklep0()
    };
    assert!(matches!(
        table(&result, &unknown, Residency::Keep),
        Err(Error::NoTable)
    ));
}

#[test]
fn a_bound_under_the_new_table_leaves_the_states_that_advice_allows() {
    use reveille_advise::{Advice, Setting};
    let mut random = fastrand::Rng::with_seed(11);
    let mut exponential = |mean: f64| -> Vec<i64> {
        let draw = |_| (-mean * (1.0 - random.f64()).ln()) as i64;
        (0..5000).map(draw).collect()
    };
    let result = loaded(&[
        ("C1", "timer", exponential(300.0)),
        ("C1E", "timer", exponential(2000.0)),
        ("C6", "timer", exponential(10_000.0)),
    ]);
    let anew = table(&result, &sklep0(), Residency::Keep).unwrap();
    let mut machine = sklep0();
    for (state, row) in machine.states[1..].iter_mut().zip(&anew.rows) {
        state.exit_latency_us = Some(row.exit_latency_us);
    }
    for budget in [1, 3, 10, 18, 30, 80, 200] {
        let question = made_up::question(budget, "99.9");
        let advice = Advice::of(&result, &machine, question).unwrap();
        let allowed: Vec<&str> = advice.allowed().map(|one| one.state.as_str()).collect();
        let setting = Setting::of(&advice, &machine);
        assert_eq!(
            setting.budget_as_bound_leaves.unwrap(),
            allowed,
            "{budget} µs"
        );
    }
}

#[test]
fn only_a_measured_latency_scales_a_residency() {
    let machine = target(
        "intel_idle",
        vec![
            // Some drivers give a state no latency.
            state(1, "C1", 0, 7),
            state(2, "C1E", 2, 20),
            state(3, "C6", 133, 600),
        ],
    );
    let result = loaded(&[("C1", "timer", vec![3000; 3000])]);
    let table = table(&result, &machine, Residency::Scale).unwrap();
    assert_eq!(
        table.parameter,
        "intel_idle.table=C1:3:7,C1E:4:20,C6:133:600"
    );
}

#[test]
fn a_table_warns_about_its_limits_and_its_length() {
    let with = |name: &str, measured: usize, driver: Option<&str>| {
        let machine = Target {
            driver: driver.map(str::to_owned),
            ..target("intel_idle", vec![state(1, name, 2, 2)])
        };
        let result = loaded(&[(name, "timer", vec![1500; measured])]);
        table(&result, &machine, Residency::Keep).unwrap().warnings
    };
    let intel = Some("intel_idle");
    // With `:2:2` the value has 255 bytes, and 256.
    assert_eq!(with(&"x".repeat(251), 3000, intel), [""; 0]);
    assert_eq!(
        with(&"x".repeat(252), 3000, intel),
        [
            "The table has 256 bytes, and the kernel keeps 255: leave out rows that are as in the \
          driver's table."
        ]
    );
    assert_eq!(with("C1", 3000, None).len(), 1);
    let hybrid = Target {
        coverage: Coverage::Hybrid {
            kind: "P-core".to_owned(),
            cpus: vec![0],
            others: vec![1],
            one_of_each: vec![1],
        },
        ..sklep0()
    };
    let anew = table(&result(1000, 12_000, 20_000), &hybrid, Residency::Keep);
    assert_eq!(anew.unwrap().warnings.len(), 1);
}

#[test]
fn without_a_measured_row_there_is_no_table() {
    let of = |samples: &[(&str, &str, Vec<i64>)], stays: &[(&str, u64)]| {
        with_break_even(&loaded(samples), &sklep0(), Residency::Keep, stays)
    };
    let poll = ("POLL", "timer", vec![900; 3000]);
    for samples in [&[poll.clone()][..], &[("C1", "timer", vec![3000; 1])]] {
        let Err(Error::CannotBeWritten(why)) = of(samples, &[]) else {
            panic!("a table");
        };
        assert!(why.contains("2,995") && why.contains("measure"), "{why}");
    }
    // A break-even residency was measured.
    let anew = of(&[poll], &[("C6", 700)]).unwrap();
    assert!(anew.parameter.ends_with("C6:133:700"));
}

#[test]
fn a_name_that_is_more_than_a_name_is_in_no_table() {
    for name in ["C1 idle=poll", "C1:2:2,C6", "C1\r[script]", "C1\u{202e}"] {
        let machine = target("intel_idle", vec![state(1, name, 2, 2)]);
        let result = loaded(&[(name, "timer", vec![1500; 3000])]);
        let none = table(&result, &machine, Residency::Keep);
        assert!(matches!(none, Err(Error::CannotBeWritten(_))), "{name}");
    }
}
