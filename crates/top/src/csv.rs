//! `reveille top --csv`: a line for each figure. The long form fits any number of CPUs, states and
//! wakers, and spreadsheets and data frames can pivot it: `what` is the model's list, `figure` the
//! model's field.

use std::io::{self, Write};

use reveille_watch::live::{Snapshot, StateShare, Unit, Waker};
use serde_json::Value;

use crate::history::units;

/// The columns; `docs/src/reference` describes them.
pub const HEADING: &str = "time_unix_s,what,unit,name,command,figure,value\n";

/// Writes a refresh's lines, without the heading. Unknown values have no line.
pub fn write(snapshot: &Snapshot, out: &mut impl Write) -> io::Result<()> {
    let mut lines = Lines {
        time: format!("{:.3}", snapshot.time_unix_s),
        text: String::new(),
    };
    units(snapshot).for_each(|unit| lines.unit(unit));
    snapshot.wakers.iter().for_each(|waker| lines.waker(waker));
    for bound in &snapshot.bounds {
        let cpus = match bound.cpus.as_slice() {
            [] => "machine".to_owned(),
            cpus => format!("CPU {}", reveille_kernel::cpulist::format(cpus)),
        };
        let place = Place {
            what: "bound",
            unit: &cpus,
            name: &bound.text,
            command: bound.command.as_deref().unwrap_or(""),
        };
        lines.put(&place, "bound_us", bound.bound_us.map(f64::from));
        lines.put(&place, "pid", bound.pid.map(f64::from));
    }
    lines.figures(&Place::of("own", "reveille"), &snapshot.own);
    // One write: a reader that attaches later gets whole refreshes.
    out.write_all(lines.text.as_bytes())?;
    out.flush()
}

/// The subject of a line's figure.
struct Place<'a> {
    what: &'a str,
    unit: &'a str,
    name: &'a str,
    command: &'a str,
}

impl<'a> Place<'a> {
    fn of(what: &'a str, unit: &'a str) -> Self {
        Self {
            what,
            unit,
            name: "",
            command: "",
        }
    }
}

struct Lines {
    time: String,
    text: String,
}

impl Lines {
    fn unit(&mut self, unit: &Unit) {
        let place = Place::of("unit", &unit.label);
        self.figures(&place, unit);
        if let Some(frequency) = &unit.frequency {
            self.put(&place, "frequency_mhz", Some(frequency.mhz));
        }
        if let Some(joint) = &unit.joint_sleep {
            let place = Place {
                what: "joint_sleep",
                ..place
            };
            self.figures(&place, joint);
        }
        for power in &unit.power {
            let place = Place {
                name: &power.meter,
                what: "power",
                ..place
            };
            self.put(&place, "watts", Some(power.watts));
        }
        unit.states
            .iter()
            .for_each(|state| self.state(&unit.label, state));
    }

    fn state(&mut self, unit: &str, state: &StateShare) {
        let place = Place {
            name: &state.name,
            ..Place::of("state", unit)
        };
        self.figures(&place, state);
        if let Some(latency) = &state.wake_latency {
            let place = Place {
                what: "wake_latency",
                ..place
            };
            self.figures(&place, latency);
        }
    }

    fn waker(&mut self, waker: &Waker) {
        let kind = serde_json::to_value(waker.kind).unwrap_or_default();
        let cpu = format!("CPU {}", waker.cpu);
        let place = Place {
            what: kind.as_str().unwrap_or("other"),
            unit: &cpu,
            name: &waker.name,
            command: waker.command.as_deref().unwrap_or(""),
        };
        self.put(&place, "wakes_per_s", waker.wakes_per_s);
        self.put(&place, "per_s", waker.per_s);
        self.put(&place, "joint_ended_per_s", waker.joint_ended_per_s);
    }

    /// The numbers and booleans among the fields of a record, by their names in the model.
    fn figures(&mut self, place: &Place<'_>, record: &impl serde::Serialize) {
        let Ok(Value::Object(fields)) = serde_json::to_value(record) else {
            return;
        };
        for (figure, value) in &fields {
            match value {
                Value::Number(number) => self.put(place, figure, number.as_f64()),
                Value::Bool(truth) => self.put(place, figure, Some(f64::from(u8::from(*truth)))),
                _ => {}
            }
        }
    }

    fn put(&mut self, place: &Place<'_>, figure: &str, value: Option<f64>) {
        let Some(value) = value else { return };
        // Shares and rates are not more precise than this.
        let value = (value * 1e4).round() / 1e4;
        let names = [place.what, place.unit, place.name, place.command]
            .map(quoted)
            .join(",");
        self.text += &format!("{},{names},{figure},{value}\n", self.time);
    }
}

/// A field in the form of RFC 4180.
fn quoted(field: &str) -> String {
    match field.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", field.replace('"', "\"\"")),
        false => field.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use reveille_watch::live::{JointSleep, WakerKind};

    use super::*;

    #[test]
    fn a_line_is_a_figure_and_unknown_values_have_none() {
        let snapshot = Snapshot {
            time_unix_s: 5.0,
            machine: Unit {
                label: "machine".into(),
                online: true,
                joint_sleep: Some(JointSleep {
                    share_percent: 40.0,
                    mean_us: Some(1500.0),
                    ..JointSleep::default()
                }),
                states: vec![StateShare {
                    name: "C6".into(),
                    share_percent: Some(12.34567),
                    ..StateShare::default()
                }],
                ..Unit::default()
            },
            wakers: vec![Waker {
                kind: WakerKind::Timer,
                name: "hrtimer_wakeup".into(),
                command: Some("a, \"b\"".into()),
                pid: Some(7),
                irq: None,
                cpu: 1,
                per_s: None,
                wakes_per_s: Some(200.0),
                joint_ended_per_s: Some(3.0),
            }],
            ..Snapshot::default()
        };
        let mut text = Vec::new();
        write(&snapshot, &mut text).unwrap();
        assert_eq!(
            String::from_utf8(text).unwrap(),
            "5.000,unit,machine,,,online,1\n\
             5.000,joint_sleep,machine,,,ended_per_s,0\n\
             5.000,joint_sleep,machine,,,mean_us,1500\n\
             5.000,joint_sleep,machine,,,share_percent,40\n\
             5.000,state,machine,C6,,share_percent,12.3457\n\
             5.000,timer,CPU 1,hrtimer_wakeup,\"a, \"\"b\"\"\",wakes_per_s,200\n\
             5.000,timer,CPU 1,hrtimer_wakeup,\"a, \"\"b\"\"\",joint_ended_per_s,3\n"
        );
        assert_eq!(HEADING.matches(',').count(), 6);
    }
}
