//! The tables of the thesis (chapter 4; its tool is `waltr`), and what follows from them by this project's code.
//! The book's page `method/thesis.md` has what is asserted here.

use crate::external_clock::{CardDelays, Latch, Package, wake_latency_ns};
use reveille_figures::interval;
use reveille_results::statistics::by_state;
use reveille_results::verdict::Verdict;
use reveille_results::{Column, Columns, Values};

/// A row of tables 3 and 6 to 10: a figure for each of [`GENERATIONS`].
type Row<T> = [Option<T>; 4];

const GENERATIONS: [&str; 4] = ["Ivy Bridge", "Haswell", "Broadwell", "Skylake"];
const STATES: [&str; 4] = ["C1", "C1E", "C3", "C6"];

/// Table 3: the driver's exit latency, µs, of each of [`STATES`].
const DRIVER_US: [Row<u64>; 4] = [
    [Some(1), Some(2), Some(2), Some(2)],
    [Some(10), Some(10), Some(10), Some(10)],
    [Some(59), Some(33), Some(40), None],
    [Some(80), Some(133), Some(133), Some(133)],
];

/// Tables 9, 8, 7 and 6: the maximum wake latency, ns, of each of [`STATES`].
const BY_STATE_NS: [Row<i64>; 4] = [
    [Some(19_270), Some(14_956), Some(15_153), Some(15_471)],
    [Some(21_765), Some(15_911), Some(18_661), Some(16_141)],
    [Some(78_807), Some(59_617), Some(71_803), None],
    [Some(87_062), Some(69_727), Some(81_642), Some(112_276)],
];

/// Table 10: the same maxima, summarised, ns.
const SUMMARY_NS: [Row<i64>; 4] = [
    [Some(19_270), Some(14_956), Some(15_153), Some(15_471)],
    [Some(21_765), Some(15_911), Some(18_661), Some(16_141)],
    [Some(78_807), Some(59_617), Some(71_803), None],
    [Some(82_794), Some(69_727), Some(74_895), Some(108_573)],
];

/// Section 4.7: datapoints at each launch distance, distances, and so datapoints behind each maximum.
const AT_EACH_DISTANCE: usize = 1500;
const DISTANCES: usize = 35;
const COUNT: usize = AT_EACH_DISTANCE * DISTANCES;

/// Section 4.3.1: a reading of the card's clock.
const READING: Latch = Latch {
    before_ns: 0,
    device_ns: 0,
    after_ns: 1400,
};

/// Chapter 6: from the launch time to the packet in the MAC, at most; and the abstract: the granularity of
/// the launch time.
const OTHER_ERRORS_NS: i64 = 500 + 32;

/// The states and generations of a table in which a maximum is there and `holds`.
fn cells(table: &[Row<i64>; 4], holds: impl Fn(usize, usize, i64) -> bool) -> Vec<String> {
    let mut found = Vec::new();
    for (state, row) in table.iter().enumerate() {
        for (generation, max_ns) in row.iter().enumerate() {
            if max_ns.is_some_and(|max_ns| holds(state, generation, max_ns)) {
                found.push(format!("{} {}", GENERATIONS[generation], STATES[state]));
            }
        }
    }
    found
}

/// Our verdict on a maximum. The thesis has no other datapoints, so it is asked for twice: once as if they
/// all were fast, once as if they all were as slow as the maximum. The true one lies between.
fn verdicts(max_ns: i64, figure_us: u64) -> [Verdict; 2] {
    [0, max_ns].map(|others_ns| {
        let mut latencies = vec![others_ns; COUNT];
        latencies[0] = max_ns;
        let column = Column {
            name: "wake_latency_ns".into(),
            values: Values::Integer(latencies),
        };
        let columns = Columns::new(vec![column]).unwrap();
        let [one] = &by_state(&columns, &|_| Some(figure_us), &[])[..] else {
            panic!("one state");
        };
        assert_eq!(one.wake_latency.max_ns, max_ns);
        one.verdict.clone()
    })
}

/// Whether a maximum exceeds the figure by our verdict, whatever the other datapoints are.
fn exceeds(max_ns: i64, figure_us: u64) -> bool {
    let verdicts = verdicts(max_ns, figure_us);
    if verdicts == [Verdict::Within, Verdict::Within] {
        return false;
    }
    assert_eq!(
        verdicts,
        [Verdict::ExceededByMaxOnly, Verdict::ExceededByOneIn(1)]
    );
    true
}

/// The cells whose maximum, corrected by `less_ns`, exceeds the figure of table 3.
fn exceeding(table: &[Row<i64>; 4], less_ns: i64) -> Vec<String> {
    cells(table, |state, generation, max_ns| {
        exceeds(max_ns - less_ns, DRIVER_US[state][generation].unwrap())
    })
}

/// All but three of the fifteen.
const EXCEEDING: [&str; 12] = [
    "Ivy Bridge C1",
    "Haswell C1",
    "Broadwell C1",
    "Skylake C1",
    "Ivy Bridge C1E",
    "Haswell C1E",
    "Broadwell C1E",
    "Skylake C1E",
    "Ivy Bridge C3",
    "Haswell C3",
    "Broadwell C3",
    "Ivy Bridge C6",
];

#[test]
fn twelve_of_fifteen_maxima_exceed_the_drivers_figure_and_one_of_them_is_of_c6() {
    // Section 4.7.1: no C6 exceeds. Section 4.7.2 names Haswell and Broadwell for C3.
    assert_eq!(exceeding(&BY_STATE_NS, 0), EXCEEDING);
    assert_eq!(exceeding(&SUMMARY_NS, 0), EXCEEDING);
}

#[test]
fn no_exceedance_is_within_the_errors_that_the_thesis_gives() {
    let all_errors = READING.error_ns() + OTHER_ERRORS_NS;
    assert_eq!((READING.error_ns(), all_errors), (700, 1232));
    for less_ns in [READING.error_ns(), all_errors] {
        assert_eq!(exceeding(&BY_STATE_NS, less_ns), EXCEEDING);
        assert_eq!(exceeding(&SUMMARY_NS, less_ns), EXCEEDING);
    }
}

#[test]
fn by_the_figure_of_ivy_bridge_servers_c6_exceeds_by_no_more_than_all_errors_in_table_10() {
    // intel_idle.c, ivt_cstates: 82 µs with two sockets; 80 µs is the figure of desktops, ivb_cstates.
    let (table_6, table_10) = (BY_STATE_NS[3][0].unwrap(), SUMMARY_NS[3][0].unwrap());
    let all_errors = READING.error_ns() + OTHER_ERRORS_NS;
    assert!(exceeds(table_6 - all_errors, 82));
    assert!(exceeds(table_10 - READING.error_ns(), 82));
    assert!(!exceeds(table_10 - all_errors, 82));
}

#[test]
fn tables_6_and_10_differ_for_c6_and_the_others_agree() {
    let differences: Vec<Vec<i64>> = (0..4)
        .map(|state| {
            let pairs = BY_STATE_NS[state].iter().zip(SUMMARY_NS[state]);
            pairs
                .filter_map(|(one, sum)| Some(one.as_ref()? - sum?))
                .collect()
        })
        .collect();
    assert_eq!(
        differences,
        [
            vec![0; 4],
            vec![0; 4],
            vec![0; 3],
            vec![4268, 0, 6747, 3703]
        ]
    );
}

#[test]
fn the_excess_over_the_drivers_figure_is_what_an_offset_would_have_to_explain() {
    // Tables 8 and 9 include the card's read of memory, of unknown length (sections 4.7.3 and 4.7.4).
    let excess = |state: usize| {
        let pairs = SUMMARY_NS[state].iter().zip(DRIVER_US[state]);
        let excess = pairs.filter_map(|(max_ns, figure)| Some((*max_ns)? - figure? as i64 * 1000));
        excess.collect::<Vec<_>>()
    };
    assert_eq!(excess(0), [18_270, 12_956, 13_153, 13_471]);
    assert_eq!(excess(1), [11_765, 5911, 8661, 6141]);
    assert_eq!(excess(2), [19_807, 26_617, 31_803]);
    assert_eq!(excess(3), [2794, -63_273, -58_105, -24_427]);
    // An offset of exactly that length would.
    let read = CardDelays {
        to_read_ns: 0,
        read_ns: 5911,
        to_interrupt_ns: 0,
    };
    let awake = wake_latency_ns(15_911, 0, read.interrupt_offset_ns(Package::Awake));
    assert!(!exceeds(awake, 10));
    assert!(exceeds(awake + 1, 10));
}

#[test]
fn generations_differ_in_deep_states_and_not_all_in_shallow_ones() {
    // The two errors of a difference may add up.
    let error = 2 * READING.error_ns();
    let same = |state: usize| {
        let mut same = Vec::new();
        for a in 0..4 {
            for b in a + 1..4 {
                let pair = SUMMARY_NS[state][a].zip(SUMMARY_NS[state][b]);
                if pair.is_some_and(|(a_ns, b_ns)| (a_ns - b_ns).abs() <= error) {
                    same.push([GENERATIONS[a], GENERATIONS[b]]);
                }
            }
        }
        same
    };
    let of_c1 = [
        ["Haswell", "Broadwell"],
        ["Haswell", "Skylake"],
        ["Broadwell", "Skylake"],
    ];
    assert_eq!(same(0), of_c1);
    assert_eq!(same(1), [["Haswell", "Skylake"]]);
    assert!(same(2).is_empty() && same(3).is_empty());

    // A deeper state takes longer, but C1E is not always distinguishable from C1.
    let by_less_than_the_error = cells(&SUMMARY_NS, |state, generation, max_ns| {
        let shallower = SUMMARY_NS[..state].iter().rev();
        let shallower = shallower.filter_map(|row| row[generation]).next();
        let step = shallower.map_or(i64::MAX, |shallower| max_ns - shallower);
        assert!(step > 0);
        step <= error
    });
    assert_eq!(by_less_than_the_error, ["Haswell C1E", "Skylake C1E"]);
}

#[test]
fn by_a_budget_of_50_us_the_table_allows_two_states_that_measurement_forbids() {
    // The example of chapter 1.
    let falsely_allowed = cells(&SUMMARY_NS, |state, generation, max_ns| {
        DRIVER_US[state][generation].unwrap() <= 50 && exceeds(max_ns, 50)
    });
    assert_eq!(falsely_allowed, ["Haswell C3", "Broadwell C3"]);
}

#[test]
fn the_protocol_gives_the_numbers_of_sets_and_datapoints() {
    let mut distances = 0;
    let mut distance_us = 300.0;
    while distance_us <= 8000.0 {
        distances += 1;
        distance_us *= 1.1;
    }
    assert_eq!(distances, DISTANCES);
    let combinations = cells(&SUMMARY_NS, |_, _, _| true).len();
    assert_eq!((combinations, combinations * DISTANCES), (15, 525));
    assert_eq!(combinations * COUNT, 787_500);
}

#[test]
fn a_maximum_of_52_500_datapoints_bounds_a_share_and_not_the_latency() {
    let count = COUNT as u64;
    let share = interval::share_high(0, count, 0.05);
    assert_eq!((1.0 / share).round(), 17_525.0);
    assert_eq!(
        interval::quantile_high_beyond(share * 1.001, count, 0.05),
        Some(0)
    );
    assert_eq!(
        interval::quantile_high_beyond(share * 0.999, count, 0.05),
        None
    );

    // Chapter 5: a latency of one wake-up in a million.
    let seen = 1.0 - interval::at_most(0, count, 1e-6);
    assert!((seen - 0.0511).abs() < 0.0001, "{seen}");
    let unseen = |count| interval::at_most(0, count, 1e-6);
    assert!(unseen(2_995_730) > 0.05 && unseen(2_995_731) <= 0.05);
}

#[test]
fn the_precision_of_95_per_cent_is_not_that_of_a_wake_up_of_2_us() {
    // The error is 5% of it.
    let precise_from = |error_ns: i64| 20 * error_ns;
    let of_clock = precise_from(READING.error_ns());
    let of_all = precise_from(READING.error_ns() + OTHER_ERRORS_NS);
    assert_eq!((of_clock, of_all), (14_000, 24_640));
    assert!(cells(&SUMMARY_NS, |_, _, max_ns| max_ns < of_clock).is_empty());
    let too_short = cells(&SUMMARY_NS, |_, _, max_ns| max_ns < of_all);
    assert_eq!(too_short, EXCEEDING[..8]);

    // The driver's figures for C1 and C1E, of 1, 2 and 10 µs, are too small for it.
    let driver_ns = DRIVER_US.map(|row| row.map(|us| us.map(|us| us as i64 * 1000)));
    let too_small = cells(&driver_ns, |_, _, figure_ns| figure_ns < of_clock);
    assert_eq!(too_small, EXCEEDING[..8]);
}

#[test]
fn by_equation_5_mwait_is_late_by_a_reading_at_most() {
    // The card latches at the end of the reading.
    let latch = Latch {
        device_ns: 1_000_000 + 1400,
        ..READING
    };
    assert_eq!(latch.to_device_ns(1500), 1_000_000 + 1500 + 1400);
}

/// Equations 3 and 4, as printed.
fn equation_3(woke: i64, latch_offset: i64, launch: i64, interrupt_offset: i64) -> i64 {
    (woke - latch_offset) - launch - interrupt_offset
}

fn equation_4(woke: i64, latch_offset: i64, launch: i64, read: i64, interrupt_offset: i64) -> i64 {
    (woke - latch_offset) - launch - read - interrupt_offset
}

/// A wake-up whose true instants are known, ns: the launch time, the wake-up, and the reading of the clock
/// that begins then and latches in its middle.
const LAUNCH: i64 = 1_000_000;
const DELAYS: CardDelays = CardDelays {
    to_read_ns: 0,
    read_ns: 900,
    to_interrupt_ns: 1800,
};

fn reading_at(woke: i64) -> Latch {
    Latch {
        before_ns: woke,
        device_ns: woke + READING.error_ns(),
        after_ns: woke + 2 * READING.error_ns(),
    }
}

#[test]
fn equation_4_as_listed_takes_the_packages_exit_from_the_latency_of_c6() {
    let (read, offset) = (DELAYS.read_ns, DELAYS.to_interrupt_ns);
    // C1: a true latency of 2 µs after an interrupt that the whole read delays.
    let clock = reading_at(LAUNCH + read + offset + 2000);
    let (tai, latch_offset) = (clock.device_ns, clock.error_ns());
    let awake = DELAYS.interrupt_offset_ns(Package::Awake);
    assert_eq!(wake_latency_ns(clock.began_ns(), LAUNCH, awake), 2000);
    assert_eq!(equation_4(tai, latch_offset, LAUNCH, read, offset), 2000);
    assert_eq!(equation_3(tai, latch_offset, LAUNCH, offset), 2000 + read);

    // C6: the package's exit lengthens the read, and that stays in the latency.
    let longer_read = read + 25_000;
    let clock = reading_at(LAUNCH + longer_read + offset + 50_000);
    let (tai, latch_offset) = (clock.device_ns, clock.error_ns());
    let asleep = DELAYS.interrupt_offset_ns(Package::Asleep);
    let whole = longer_read + 50_000;
    assert_eq!(wake_latency_ns(clock.began_ns(), LAUNCH, asleep), whole);
    assert_eq!(equation_3(tai, latch_offset, LAUNCH, offset), whole);
    assert_eq!(
        equation_4(tai, latch_offset, LAUNCH, longer_read, offset),
        50_000
    );

    // With the whole offsets of equations 8 and 9, equation 3 alone holds for both.
    assert_eq!(equation_3(tai, latch_offset, LAUNCH, asleep), whole);
    let tai_of_c1 = reading_at(LAUNCH + awake + 2000).device_ns;
    assert_eq!(equation_3(tai_of_c1, latch_offset, LAUNCH, awake), 2000);
    assert_eq!(
        equation_4(tai_of_c1, latch_offset, LAUNCH, read, awake),
        2000 - read
    );
}

#[test]
fn with_the_wake_up_time_of_equation_6_the_latch_offset_is_subtracted_twice() {
    let clock = reading_at(LAUNCH + DELAYS.to_interrupt_ns + 50_000);
    let (woke, latch_offset) = (clock.began_ns(), clock.error_ns());
    let latency = equation_3(woke, latch_offset, LAUNCH, DELAYS.to_interrupt_ns);
    assert_eq!(latency, 50_000 - 700);
}
