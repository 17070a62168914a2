//! The kernel's tracer as a second method for the same wake-ups, in its own instance, which is
//! removed at the end.

use std::collections::HashMap;
use std::fs;
use std::path::PathBuf;

/// The traced events; not every kernel has all of the interrupts'.
const EVENTS: [&str; 9] = [
    "power/cpu_idle",
    "timer/hrtimer_start",
    "timer/hrtimer_expire_entry",
    "irq/irq_handler_entry",
    "irq_vectors/local_timer_entry",
    "irq_vectors/reschedule_entry",
    "irq_vectors/call_function_entry",
    "irq_vectors/call_function_single_entry",
    "irq_vectors/irq_work_entry",
];

pub struct Tracer(PathBuf);

/// A wake-up by a timer in the trace: when its interrupt came, and how long after expiry.
#[derive(Debug, Clone, Copy)]
pub struct WakeUp {
    pub at_ns: u64,
    /// The kernel's index of the idle state.
    pub state: u32,
    pub latency_ns: u64,
}

impl Tracer {
    /// Traces `cpu` in CLOCK_MONOTONIC; `Err` has the reason if it cannot.
    pub fn start(cpu: u32) -> Result<Self, String> {
        let tracing = PathBuf::from("/sys/kernel/tracing");
        if !tracing.join("instances").is_dir() {
            return Err("tracefs is not mounted at /sys/kernel/tracing".into());
        }
        let path = tracing.join(format!("instances/reveille-live-{}", std::process::id()));
        fs::create_dir(&path).map_err(|error| format!("no tracing instance: {error}"))?;
        let tracer = Self(path);
        let settings = [
            ("trace_clock", "mono".to_owned()),
            ("tracing_cpumask", format!("{:x}", 1u64 << cpu)),
            ("buffer_size_kb", "16384".into()),
        ];
        for (file, value) in settings {
            fs::write(tracer.0.join(file), value).map_err(|error| format!("{file}: {error}"))?;
        }
        for event in EVENTS {
            let file = tracer.0.join(format!("events/{event}/enable"));
            if file.exists() {
                fs::write(file, "1").map_err(|error| format!("{event}: {error}"))?;
            }
        }
        Ok(tracer)
    }

    /// Sleeps that only a timer ended.
    pub fn stop(self) -> Vec<WakeUp> {
        fs::write(self.0.join("tracing_on"), "0").unwrap();
        let trace = fs::read_to_string(self.0.join("trace")).unwrap();
        let mut follower = Follower::default();
        for line in trace.lines().filter(|line| !line.starts_with('#')) {
            follower.take(line);
        }
        follower.woken
    }
}

impl Drop for Tracer {
    fn drop(&mut self) {
        let _ = fs::write(self.0.join("tracing_on"), "0");
        for event in EVENTS {
            let _ = fs::write(self.0.join(format!("events/{event}/enable")), "0");
        }
        let _ = fs::remove_dir(&self.0);
    }
}

/// Follows one CPU from idle entry to idle entry.
#[derive(Default)]
struct Follower {
    woken: Vec<WakeUp>,
    /// The last expiry of each timer, by its address.
    expiries: HashMap<String, u64>,
    entry: Option<u64>,
    state: u32,
    exit: Option<u64>,
    /// The first interrupt, and whether it was the timer's.
    first: Option<(u64, bool)>,
    interrupts: u32,
    stayed: bool,
    /// Expiries of the timers that the first interrupt ran; `None` for one armed before the trace.
    ran: Vec<Option<u64>>,
}

impl Follower {
    /// `  <idle>-0  [001] d..1.  123.456789: cpu_idle: state=1 cpu_id=1`
    fn take(&mut self, line: &str) {
        let Some((head, event)) = line.split_once(": ") else {
            return;
        };
        let Some(time) = head.rsplit(' ').next().and_then(nanoseconds) else {
            return;
        };
        let (name, fields) = event.split_once(": ").unwrap_or((event, ""));
        let field = |name: &str| {
            let words = &mut fields.split_whitespace();
            words.find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
        };
        match name {
            "cpu_idle" if field("state") == Some("4294967295") => self.exit = Some(time),
            "cpu_idle" => {
                self.settle();
                self.entry = Some(time);
                self.state = field("state")
                    .and_then(|state| state.parse().ok())
                    .unwrap_or(0);
            }
            "hrtimer_start" => {
                let expires = field("expires").and_then(|expires| expires.parse().ok());
                if let Some((timer, expires)) = field("hrtimer").zip(expires) {
                    self.expiries.insert(timer.to_owned(), expires);
                }
            }
            "hrtimer_expire_entry" if self.interrupts == 1 => {
                let expires = field("hrtimer").and_then(|timer| self.expiries.get(timer));
                self.ran.push(expires.copied());
            }
            "hrtimer_expire_entry" => {}
            _ => {
                self.interrupts += 1;
                // State 0 polls, with a driver and without: the previous interrupt did not end it.
                self.stayed |= self.state == 0 && self.exit.is_none() && self.interrupts > 1;
                self.first
                    .get_or_insert((time, name == "local_timer_entry"));
            }
        }
    }

    fn settle(&mut self) {
        let (entry, exit) = (self.entry.take(), self.exit.take());
        let (first, ran) = (self.first.take(), std::mem::take(&mut self.ran));
        self.interrupts = 0;
        if std::mem::take(&mut self.stayed) {
            return;
        }
        let (Some(entry), Some(exit), Some((interrupt, true))) = (entry, exit, first) else {
            return;
        };
        let woken = interrupt.min(exit);
        let Some(expiries) = ran.into_iter().collect::<Option<Vec<u64>>>() else {
            return;
        };
        if let Some(&expiry) = expiries.iter().min()
            && (entry..woken).contains(&expiry)
        {
            self.woken.push(WakeUp {
                at_ns: interrupt,
                state: self.state,
                latency_ns: woken - expiry,
            });
        }
    }
}

/// `123.456789`, to the µs.
fn nanoseconds(text: &str) -> Option<u64> {
    let (seconds, micros) = text.split_once('.')?;
    Some(seconds.parse::<u64>().ok()? * 1_000_000_000 + micros.parse::<u64>().ok()? * 1_000)
}
