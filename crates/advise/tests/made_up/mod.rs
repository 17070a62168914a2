//! Results and machines made up for tests.

use reveille_advise::{Coverage, Demand, Latency, Question, Target};
use reveille_kernel::IdleState;
use reveille_results::columns::{Column, Values};
use reveille_results::{Columns, Description, Loaded, NULL};
use serde_json::json;

/// A question at a percentile, with 95% confidence.
pub fn question(budget_us: u32, percentile: &str) -> Question {
    Question {
        budget_us,
        demand: Demand::Percentile(percentile.parse().unwrap()),
        confidence: "95".parse().unwrap(),
        latency: Latency::Wake,
    }
}

/// A row of the driver's table; figures in µs.
pub fn state(index: u32, name: &str, exit: u64, residency: u64) -> IdleState {
    IdleState {
        index,
        name: name.to_owned(),
        description: None,
        exit_latency_us: Some(exit),
        target_residency_us: Some(residency),
        disabled: Some(false),
        enabled_by_default: Some(true),
        usage: Some(10),
        time_us: Some(1000),
        rejected: None,
        above: None,
        below: None,
    }
}

/// An x86 machine with equal CPUs, and POLL before these states.
pub fn target(driver: &str, states: Vec<IdleState>) -> Target {
    let mut all = vec![state(0, "POLL", 0, 0)];
    all[0].time_us = Some(0);
    all.extend(states);
    Target {
        driver: Some(driver.to_owned()),
        governor: Some("menu".to_owned()),
        is_known: true,
        architecture: Some("x86_64".to_owned()),
        measured_cpu: Some(1),
        states: all,
        coverage: Coverage::AllAlike,
    }
}

/// Xeon, Skylake: the subject of most of these tests.
pub fn sklep0() -> Target {
    target(
        "intel_idle",
        vec![
            state(1, "C1", 2, 2),
            state(2, "C1E", 10, 20),
            state(3, "C6", 133, 600),
        ],
    )
}

/// A result with these samples: state, source, wake latencies in ns.
pub fn loaded(samples: &[(&str, &str, Vec<i64>)]) -> Loaded {
    let rows = samples.iter().map(|(_, _, sample)| sample.len()).sum();
    let mut latencies = Vec::with_capacity(rows);
    let mut states = Names::default();
    let mut sources = Names::default();
    for (state, source, sample) in samples {
        latencies.extend(sample);
        states.push(state, sample.len());
        sources.push(source, sample.len());
    }
    let column = |name: &str, values| Column {
        name: name.to_owned(),
        values,
    };
    let columns = vec![
        column("source", sources.values()),
        column("requested_state", states.values()),
        column("requested_state_index", Values::Integer(vec![NULL; rows])),
        column("wake_latency_ns", Values::Integer(latencies)),
    ];
    Loaded {
        description: description(),
        columns: Columns::new(columns).unwrap(),
    }
}

#[derive(Default)]
struct Names {
    codes: Vec<u8>,
    names: Vec<String>,
}

impl Names {
    fn push(&mut self, name: &str, times: usize) {
        let known = self.names.iter().position(|known| known == name);
        let code = known.unwrap_or_else(|| {
            self.names.push(name.to_owned());
            self.names.len() - 1
        });
        self.codes.extend(std::iter::repeat_n(code as u8, times));
    }

    fn values(self) -> Values {
        Values::Name {
            codes: self.codes,
            names: self.names,
        }
    }
}

/// `count` wakes of 1 µs, and `slow` of `slow_ns` among them.
pub fn sample(count: usize, slow: usize, slow_ns: i64) -> Vec<i64> {
    let mut sample = vec![1000; count - slow];
    sample.extend(vec![slow_ns; slow]);
    sample
}

pub fn description() -> Description {
    let text = json!({
        "schema_version": 1, "tool": "reveille", "name": "made up", "started": "",
        "command_line": [], "probe": "bpf", "ended": "completed",
        "machine": {
            "hostname": null, "cpu_model": null, "architecture": "x86_64", "kernel": null,
            "command_line": null, "hypervisor": null, "microcode": null, "cpus_online": null,
            "cpus_present": null, "clock_source": null
        },
        "driver": "intel_idle", "governor": "menu", "states": [], "residency_columns": [],
        "settings": {}, "characterisation": {}, "counts": {}, "statistics": [], "notes": []
    });
    serde_json::from_value(text).unwrap()
}
