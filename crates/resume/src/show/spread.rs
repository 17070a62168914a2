//! How much the times differ: over the cycles of a machine, and between machines.

use std::fmt::Write as _;

use reveille_show::axis::Axis;
use reveille_show::chart::rows::{self, Shape};
use reveille_show::chart::{Frame, Quantity, colour, figure, legend};
use reveille_show::markup::escape;
use reveille_show::quantity;

use super::tables::{own, slowest};
use crate::analysis::{CycleResult, DeviceSpread, Machine};
use crate::cycle::{Us, time};

/// Suspend and resume of each cycle.
pub fn cycles(machine: &Machine) -> String {
    let cycles = machine.cycles.iter();
    let last = cycles.clone().map(|cycle| cycle.number).max().unwrap_or(1);
    let times = cycles.flat_map(|cycle| [cycle.resume_us, cycle.suspend_us]);
    let most = times.flatten().max().unwrap_or(1);
    let frame = Frame {
        x: Axis::from_zero(last as f64 + 1.0),
        y: Axis::from_zero(most as f64 * 1.05e3),
        x_name: "cycle",
        y_name: "time",
        x_quantity: Quantity::Number,
        y_quantity: Quantity::Duration,
    };
    let svg = frame.svg("Time of resume and suspend by cycle", "", |svg| {
        type Of = fn(&CycleResult) -> Option<Us>;
        let halves: [(_, Of); 2] = [("c1", |one| one.suspend_us), ("c5", |one| one.resume_us)];
        for (class, of) in halves {
            let _ = write!(svg, "<g class=\"over-time {class}\">");
            for cycle in &machine.cycles {
                if let Some(us) = of(cycle) {
                    let (x, y) = (frame.x(cycle.number as f64), frame.y(us as f64 * 1e3));
                    let _ = write!(svg, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"2.6\"/>");
                }
            }
            svg.push_str("</g>");
        }
    });
    let keys = legend([("c5".to_owned(), "resume"), ("c1".to_owned(), "suspend")]);
    format!("<div class=\"charts\"><figure>{svg}{keys}</figure></div>")
}

/// Rows that a reader compares at a glance.
const MOST_ROWS: usize = 25;

/// In units of the drawing.
const LINE: f64 = 11.0;
const BOTTOM: f64 = 40.0;

/// The slowest devices: a tick at the median, a line from the shortest to the longest, a colour for
/// each machine.
pub fn devices(machines: &[Machine]) -> String {
    let mut chosen = slowest(machines);
    chosen.truncate(MOST_ROWS);
    if chosen.is_empty() {
        return String::new();
    }
    let spreads = chosen.iter();
    let spreads = spreads.flat_map(|one| machines.iter().filter_map(|machine| own(machine, one)));
    let longest = spreads.map(|spread| spread.max).max().unwrap_or(1);
    let axis = Axis::from_zero(longest as f64 * 1e3);
    let names = chosen.iter().map(|one| &*one.device);
    let drawing = rows::drawn(names, |shape| drawn(machines, &chosen, axis, shape));
    let keys = machines.iter().enumerate();
    let keys = keys.map(|(number, machine)| (colour(number + 4), &machine.name));
    let keys = match machines.len() {
        0 | 1 => String::new(),
        _ => legend(keys),
    };
    let title = "The slowest devices in the resume: median, shortest and longest";
    figure(title, &(keys + &drawing), "")
}

fn drawn(machines: &[Machine], chosen: &[&DeviceSpread], axis: Axis, shape: &Shape) -> String {
    let x = |us: Us| shape.left + shape.width * axis.fraction(us as f64 * 1e3);
    // A line for each machine that has the device.
    let lines = |device: &DeviceSpread| {
        let machines = machines.iter().enumerate();
        let of = machines.filter_map(|(number, one)| Some((number, one, own(one, device)?)));
        of.collect::<Vec<_>>()
    };
    let bars = |device: &DeviceSpread| LINE * lines(device).len() as f64 + 7.0;
    let row = |device: &DeviceSpread| shape.head + bars(device);
    let high = chosen.iter().map(|device| row(device)).sum::<f64>();
    let mut svg = format!(
        "<svg class=\"{}\" viewBox=\"0 0 {} {:.0}\" role=\"img\" aria-label=\"Times of the slowest \
         devices in the resume, with their spread\">{}",
        shape.class,
        shape.full,
        high + BOTTOM,
        axis.below_rows(shape.left, shape.width, high, quantity::duration)
    );
    let mut top = 0.0;
    for device in chosen {
        svg += &shape.name(&device.device, top, bars(device));
        for (line, (number, machine, spread)) in lines(device).into_iter().enumerate() {
            let y = top + shape.head + 3.5 + LINE * (line as f64 + 0.5);
            let _ = write!(
                svg,
                "<g class=\"spread {}\"><path class=\"stem\" d=\"M{} {y:.1}H{:.1}\"/>\
                 <path d=\"M{:.1} {y:.1}H{:.1}\"/><path class=\"median\" d=\"M{:.1} {:.1}v8\"/><title>{}</title></g>",
                colour(number + 4),
                shape.left,
                x(spread.min),
                x(spread.min),
                x(spread.max),
                x(spread.median),
                y - 4.0,
                escape(&format!(
                    "{}, {}: {} ({} to {})",
                    device.device,
                    machine.name,
                    time(spread.median),
                    time(spread.min),
                    time(spread.max)
                ))
            );
        }
        top += row(device);
    }
    svg + "</svg>"
}
