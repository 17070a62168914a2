//! The kernel's tracer as a second method, in its own instance, which is removed at the end.

use std::fs;
use std::path::PathBuf;

/// The trace of one CPU.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Seen {
    IdleEntry,
    IdleExit,
    TimerInterrupt,
}

pub struct Instance(PathBuf);

impl Instance {
    /// Traces idle and timer events of `cpu` in CLOCK_MONOTONIC; `Err` has the reason if it cannot.
    pub fn start(cpu: u32) -> Result<Self, String> {
        let tracing = PathBuf::from("/sys/kernel/tracing");
        if !tracing.join("instances").is_dir() {
            return Err("tracefs is not mounted at /sys/kernel/tracing".into());
        }
        let path = tracing.join(format!("instances/reveille-test-{}", std::process::id()));
        fs::create_dir(&path).map_err(|error| format!("no tracing instance: {error}"))?;
        let instance = Self(path);
        for (file, value) in [
            ("trace_clock", "mono".to_owned()),
            ("tracing_cpumask", format!("{:x}", 1u64 << cpu)),
            ("buffer_size_kb", "8192".into()),
            ("events/power/cpu_idle/enable", "1".into()),
            ("events/irq_vectors/local_timer_entry/enable", "1".into()),
            ("tracing_on", "1".into()),
        ] {
            fs::write(instance.0.join(file), value).map_err(|error| format!("{file}: {error}"))?;
        }
        Ok(instance)
    }

    /// The events in order: time in ns (to the µs), and event.
    pub fn stop(self) -> Vec<(u64, Seen)> {
        fs::write(self.0.join("tracing_on"), "0").unwrap();
        let trace = fs::read_to_string(self.0.join("trace")).unwrap();
        trace
            .lines()
            .filter(|line| !line.starts_with('#'))
            .filter_map(parse)
            .collect()
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        let _ = fs::write(self.0.join("tracing_on"), "0");
        for event in ["power/cpu_idle", "irq_vectors/local_timer_entry"] {
            let _ = fs::write(self.0.join(format!("events/{event}/enable")), "0");
        }
        let _ = fs::remove_dir(&self.0);
    }
}

/// `  <idle>-0  [001] d..1.  123.456789: cpu_idle: state=1 cpu_id=1`
fn parse(line: &str) -> Option<(u64, Seen)> {
    let (head, event) = line.split_once(": ")?;
    let (seconds, micros) = head.rsplit(' ').next()?.split_once('.')?;
    let time = seconds.parse::<u64>().ok()? * 1_000_000_000 + micros.parse::<u64>().ok()? * 1_000;
    let seen = match event {
        event if event.starts_with("local_timer_entry") => Seen::TimerInterrupt,
        event if event.starts_with("cpu_idle: state=4294967295") => Seen::IdleExit,
        event if event.starts_with("cpu_idle") => Seen::IdleEntry,
        _ => return None,
    };
    Some((time, seen))
}
