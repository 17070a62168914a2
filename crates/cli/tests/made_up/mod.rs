//! Results of a made-up machine.

use std::path::{Path, PathBuf};

use reveille_results::{Datapoint, First, ResultFolder, Source, WokenBy};
use serde_json::json;

/// A result on disk with these wakes: the state's index and name, the latency in µs, the count.
pub fn result_of(folder: &Path, wakes: &[(i32, &str, i64, i64)]) -> PathBuf {
    let folder = ResultFolder::create(folder.join("made-up")).unwrap();
    let row = |index: u32, name: &str, exit: u32, residency: u32, time: u64| {
        json!({
            "index": index, "name": name, "description": null, "exit_latency_us": exit,
            "target_residency_us": residency, "disabled": false, "enabled_by_default": true,
            "usage": 1, "time_us": time, "rejected": null, "above": null, "below": null
        })
    };
    let text = json!({
        "schema_version": 1, "tool": "reveille", "name": "", "started": "", "command_line": [],
        "probe": "bpf", "ended": "completed",
        "machine": {
            "hostname": "elsewhere", "cpu_model": "Xeon", "architecture": "x86_64", "kernel": null,
            "command_line": null, "hypervisor": null, "microcode": null, "cpus_online": 4,
            "cpus_present": 4, "clock_source": null
        },
        "driver": "intel_idle", "governor": "menu",
        "states": [
            row(0, "POLL", 0, 0, 0), row(1, "C1", 2, 2, 1000), row(2, "C1E", 10, 20, 1000),
            row(3, "C6", 133, 600, 6000)
        ],
        "residency_columns": [], "settings": {}, "characterisation": {}, "counts": {},
        "statistics": [], "notes": []
    });
    folder
        .describe(&serde_json::from_value(text).unwrap())
        .unwrap();
    let mut writer = folder.writer(&[]).unwrap();
    for &(index, state, latency_us, count) in wakes {
        for number in 0..count {
            writer
                .push(&datapoint(index, state, latency_us, number))
                .unwrap();
        }
    }
    writer.finish().unwrap();
    folder.path().to_owned()
}

fn datapoint(index: i32, state: &str, latency_us: i64, number: i64) -> Datapoint {
    Datapoint {
        time_ns: number * 1_000_000,
        cpu: 0,
        source: Source::Timer,
        woken_by: WokenBy::Interrupt,
        requested_state_index: Some(index),
        requested_state: Some(state.to_owned()),
        launch_distance_ns: 500_000,
        launch_error_ns: None,
        launch_clock: None,
        silent_time_ns: Some(490_000),
        wake_latency_ns: latency_us * 1000,
        interrupt_latency_ns: Some(latency_us * 1000 + 500),
        first: First::AfterIdle,
        smi_count: None,
        nmi_count: None,
        interrupt_count: None,
        softirq_count: None,
        round: None,
        residency_percent: vec![],
    }
}
