//! Results made up for tests and the example, the same on every run.
#![allow(dead_code, reason = "each user takes what it needs")]

use std::collections::BTreeMap;

use reveille_results::columns::{Column, Values};
use reveille_results::description::{
    Characterisation, Cost, Counts, Description, Ended, Probe, Settings,
};
use reveille_results::schema::SCHEMA_VERSION;
use reveille_results::statistics::Floor;
use reveille_results::{Columns, Loaded, NULL};
use serde_json::json;

/// A small generator of good quality, Marsaglia's xorshift64*.
pub struct Random(pub u64);

impl Random {
    /// Uniform in 0..1.
    pub fn unit(&mut self) -> f64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Standard normal (Box and Muller).
    pub fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.unit()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.unit()).cos()
    }
}

/// Datapoints of one state and source with these wake latencies and nothing else.
pub fn columns_of(state: &str, source: &str, latencies: impl IntoIterator<Item = i64>) -> Columns {
    let rows: Vec<Row<'_>> = latencies
        .into_iter()
        .map(|latency| Row {
            state,
            index: NULL,
            source,
            latency,
        })
        .collect();
    columns_of_rows(&rows)
}

/// One datapoint of [`columns_of_rows`].
#[derive(Clone, Copy)]
pub struct Row<'a> {
    pub state: &'a str,
    pub index: i64,
    pub source: &'a str,
    pub latency: i64,
}

/// Datapoints with only a state, a source and a latency.
pub fn columns_of_rows(rows: &[Row<'_>]) -> Columns {
    let name = |name: &str, of: &dyn Fn(&Row<'_>) -> String| {
        let mut names: Vec<String> = Vec::new();
        let codes = rows.iter().map(of).map(|value| {
            let place = names
                .iter()
                .position(|known| *known == value)
                .unwrap_or_else(|| {
                    names.push(value);
                    names.len() - 1
                });
            place as u8
        });
        let codes = codes.collect();
        Column {
            name: name.to_owned(),
            values: Values::Name { codes, names },
        }
    };
    let integer = |name: &str, of: &dyn Fn(&Row<'_>) -> i64| Column {
        name: name.to_owned(),
        values: Values::Integer(rows.iter().map(of).collect()),
    };
    let columns = vec![
        name("requested_state", &|row| row.state.to_owned()),
        integer("requested_state_index", &|row| row.index),
        name("source", &|row| row.source.to_owned()),
        integer("wake_latency_ns", &|row| row.latency),
    ];
    Columns {
        columns,
        rows: rows.len(),
    }
}

/// A minimal description.
pub fn bare_description(name: &str, probe: Probe) -> Description {
    Description {
        schema_version: SCHEMA_VERSION,
        tool: "reveille 0.1.0".to_owned(),
        name: name.to_owned(),
        started: "2026-03-01T12:00:00Z".to_owned(),
        command_line: Vec::new(),
        probe,
        ended: Ended::Completed,
        machine: Default::default(),
        driver: None,
        governor: None,
        states: Vec::new(),
        residency_columns: Vec::new(),
        settings: Settings::default(),
        characterisation: Characterisation::default(),
        counts: Counts::default(),
        statistics: Vec::new(),
        source_differences: Vec::new(),
        notes: Vec::new(),
    }
}

/// A state of the made-up server: name, driver's exit latency and target residency (µs), and the
/// two modes of its true latency (ns), the second of which comes with deep package states.
struct Modes(&'static str, u64, u64, f64, f64);

const STATES: [Modes; 4] = [
    Modes("POLL", 0, 0, 900.0, 900.0),
    Modes("C1", 2, 2, 2_600.0, 3_100.0),
    Modes("C1E", 10, 20, 7_200.0, 8_900.0),
    Modes("C6", 133, 600, 96_000.0, 141_000.0),
];

/// A made-up server's result: the governor chooses deeper states for longer waits, C6 has two
/// modes, and one wake in a few thousand is disturbed. `slow` scales every latency.
pub fn server(name: &str, rows: usize, seed: u64, slow: f64) -> Loaded {
    let mut random = Random(seed);
    let mut integers: BTreeMap<&str, Vec<i64>> = BTreeMap::new();
    let mut push = |name: &'static str, value: i64| integers.entry(name).or_default().push(value);
    let (mut states, mut cc6, mut pc6) = (Vec::new(), Vec::new(), Vec::new());
    let mut time = 0f64;
    for _ in 0..rows {
        // Log-uniform from 100 µs to 8 ms, as the timer source does.
        let distance = 100e3 * 80f64.powf(random.unit());
        let silent = (distance - 3_000.0 * (1.0 + random.unit())).max(500.0);
        let guess = silent * (0.6 * random.normal()).exp();
        let state = match guess {
            short if short < 120e3 => 0,
            short if short < 260e3 => 1,
            short if short < 700e3 => 2,
            _ => 3,
        };
        let Modes(_, _, _, usual, deep) = STATES[state];
        let package = state == 3 && silent > 1.2e6 && random.unit() < 0.62;
        let mode = if package || (state < 3 && random.unit() < 0.2) {
            deep
        } else {
            usual
        };
        let mut latency = mode * slow * (0.045 * random.normal()).exp();
        if random.unit() < 4e-4 {
            latency += 15e3 * random.unit().powf(-0.45);
        }
        time += distance + 120e3;
        push("time_ns", time as i64);
        push("cpu", 3);
        push("requested_state_index", state as i64);
        push("launch_distance_ns", distance as i64);
        push("silent_time_ns", silent as i64);
        push("wake_latency_ns", latency as i64);
        push(
            "interrupt_latency_ns",
            (latency + 700.0 + 60.0 * random.normal()) as i64,
        );
        push("interrupt_count", 1);
        push("smi_count", i64::from(random.unit() < 1e-4));
        states.push(state as u8);
        let share = (1.0 - 140e3 / silent).clamp(0.0, 1.0) as f32 * 100.0;
        cc6.push(if state == 3 {
            share * (0.9 + 0.1 * random.unit() as f32)
        } else {
            0.0
        });
        pc6.push(if package {
            share * (0.6 + 0.3 * random.unit() as f32)
        } else {
            0.0
        });
    }
    let name_column = |name: &str, codes: Vec<u8>, names: &[&str]| Column {
        name: name.to_owned(),
        values: Values::Name {
            codes,
            names: names.iter().map(|name| (*name).to_owned()).collect(),
        },
    };
    let mut columns: Vec<Column> = integers
        .into_iter()
        .map(|(name, values)| Column {
            name: name.to_owned(),
            values: Values::Integer(values),
        })
        .collect();
    columns.push(name_column(
        "requested_state",
        states,
        &STATES.map(|state| state.0),
    ));
    columns.push(name_column("source", vec![0; rows], &["timer"]));
    columns.push(name_column("first", vec![0; rows], &["after_idle"]));
    for (name, values) in [("cc6_percent", cc6), ("pc6_percent", pc6)] {
        columns.push(Column {
            name: name.to_owned(),
            values: Values::Percent(values),
        });
    }
    let description = described(name, rows as u64, time / 1e9);
    Loaded {
        description,
        columns: Columns { columns, rows },
    }
}

fn described(name: &str, rows: u64, elapsed_s: f64) -> Description {
    let states = STATES
        .iter()
        .enumerate()
        .map(|(index, Modes(name, exit, target, ..))| {
            serde_json::from_value(json!({
                "index": index, "name": name, "description": format!("MWAIT 0x{:02x}", index << 4),
                "exit_latency_us": exit, "target_residency_us": target, "disabled": false,
            }))
            .expect("a made-up state is one that cpuidle could show")
        });
    let cost = |mean_ns: f64| Cost {
        count: 1000,
        mean_ns,
        median_ns: Some(mean_ns),
        min_ns: mean_ns * 0.8,
        max_ns: mean_ns * 9.0,
    };
    let mut description = bare_description(name, Probe::Bpf);
    description.states = states.collect();
    description.machine.hostname = Some("rack7-node2".to_owned());
    description.machine.cpu_model = Some("Example Xeon, made up for this page".to_owned());
    description.machine.kernel = Some("6.12.0-example".to_owned());
    description.driver = Some("intel_idle".to_owned());
    description.governor = Some("menu".to_owned());
    description.residency_columns = vec!["cc6_percent".to_owned(), "pc6_percent".to_owned()];
    description.command_line = vec!["reveille".to_owned(), "measure".to_owned()];
    description.settings = Settings {
        sources: vec!["timer".to_owned()],
        cpu: Some(3),
        distance_min_ns: 100_000,
        distance_max_ns: 8_000_000,
        protocol: "random".to_owned(),
        arming: "absolute, pinned".to_owned(),
        ..Settings::default()
    };
    description.characterisation = Characterisation {
        overhead_ns: 210,
        clock: "CLOCK_MONOTONIC".to_owned(),
        costs: [
            ("timestamp".to_owned(), cost(24.0)),
            ("counter_read:cc6".to_owned(), cost(310.0)),
        ]
        .into(),
        probe_cost_per_idle_ns: Some(540.0),
        floors: vec![Floor {
            state: "POLL".to_owned(),
            source: "timer".to_owned(),
            count: 2000,
            median_ns: 880,
            p90_ns: Some(960),
            p99_ns: Some(1_240),
            max_ns: 9_800,
            medians_ns: Vec::new(),
        }],
    };
    description.counts = Counts {
        launched: rows + rows / 40,
        kept: rows,
        dropped: [
            ("other_interrupt".to_owned(), rows / 50),
            ("not_idle".to_owned(), rows / 200),
        ]
        .into(),
        ring_buffer_full: 0,
        elapsed_s,
        possible: Some(rows + rows / 60),
        idle_periods: rows,
        cpuidle_entries: Some(rows + rows / 10),
        joint_percent: Some((41.0, 57.5)),
    };
    description
}
