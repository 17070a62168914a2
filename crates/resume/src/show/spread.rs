//! Several cycles of a machine, and several machines, side by side.

use std::fmt::Write as _;

use reveille_resume::analysis::{DeviceSpread, Machine, Spread};
use reveille_resume::cycle::Us;

use super::below_bars;
use super::time;
use reveille_show::axis::Axis;
use reveille_show::chart::{Frame, Quantity, colour};
use reveille_show::html_table::{Origin, Table, known};
use reveille_show::markup::escape;
use reveille_show::quantity::count;

/// The machines' times in a table, and their devices; empty where there is one machine.
pub fn machines(machines: &[Machine], top: usize) -> String {
    if machines.len() < 2 {
        return String::new();
    }
    let measured = Some(Origin::Measured);
    let heads = [
        ("machine", None),
        ("cycles", None),
        ("suspend", measured),
        ("asleep", measured),
        ("resume", measured),
        ("shortest", measured),
        ("longest", measured),
    ];
    let mut table = Table::new("Medians of all whole cycles", 1, &heads);
    let median = |spread: Spread| time(spread.median);
    for machine in machines {
        table.row(&[
            machine.name.clone(),
            count(machine.cycles.len() as u64),
            known(machine.suspend_us, median),
            known(machine.asleep_us, median),
            known(machine.resume_us, median),
            known(machine.resume_us, |all| time(all.min)),
            known(machine.resume_us, |all| time(all.max)),
        ]);
    }
    format!(
        "<section><h2>Side by side</h2>{}{}</section>",
        table.html(),
        devices(machines, top.min(MOST_ROWS))
    )
}

/// Rows that a reader compares at a look.
const MOST_ROWS: usize = 25;

/// The cycles of one machine; empty where there is one cycle.
pub fn cycles(machine: &Machine, top: usize) -> String {
    if machine.cycles.len() < 2 {
        return String::new();
    }
    format!(
        "<div class=\"charts\"><figure><figcaption>Resume and suspend of each cycle</figcaption>{}\
         <p class=\"keys\"><span class=\"key c5\"><i></i>resume</span> <span class=\"key \
         c1\"><i></i>suspend</span></p></figure></div>{}",
        over_cycles(machine),
        devices(std::slice::from_ref(machine), top.min(MOST_ROWS))
    )
}

fn over_cycles(machine: &Machine) -> String {
    let last = machine
        .cycles
        .iter()
        .map(|cycle| cycle.number)
        .max()
        .unwrap_or(1);
    let times = machine
        .cycles
        .iter()
        .flat_map(|cycle| [cycle.resume_us, cycle.suspend_us]);
    let most = times.flatten().max().unwrap_or(1);
    let frame = Frame {
        x: Axis::from_zero(last as f64 + 1.0),
        y: Axis::from_zero(most as f64 * 1.05e3),
        x_name: "cycle",
        y_name: "time",
        x_quantity: Quantity::Number,
        y_quantity: Quantity::Duration,
    };
    frame.svg("Time of resume and suspend by cycle", "", |svg| {
        for (class, is_resume) in [("c1", false), ("c5", true)] {
            let _ = write!(svg, "<g class=\"over-time {class}\">");
            for cycle in &machine.cycles {
                let us = if is_resume {
                    cycle.resume_us
                } else {
                    cycle.suspend_us
                };
                if let Some(us) = us {
                    let _ = write!(
                        svg,
                        "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"2.6\"/>",
                        frame.x(cycle.number as f64),
                        frame.y(us as f64 * 1e3)
                    );
                }
            }
            svg.push_str("</g>");
        }
    })
}

/// The drawing of devices, in its own units.
const LEFT: f64 = 230.0;
const WIDTH: f64 = 660.0;
const FULL_WIDTH: f64 = 1000.0;
const LINE: f64 = 11.0;
const BOTTOM: f64 = 40.0;

/// The slowest devices: a tick at the median, a line from the shortest to the longest, a colour for
/// each machine.
fn devices(machines: &[Machine], top: usize) -> String {
    let chosen = slowest(machines, top);
    if chosen.is_empty() {
        return String::new();
    }
    let longest = chosen
        .iter()
        .flat_map(|device| machines.iter().filter_map(|one| own(one, device)))
        .map(|spread| spread.max)
        .max()
        .unwrap_or(1);
    let axis = Axis::from_zero(longest as f64 * 1e3);
    let x = |us: Us| LEFT + WIDTH * axis.fraction(us as f64 * 1e3);
    let row = LINE * machines.len() as f64 + 7.0;
    let high = row * chosen.len() as f64;
    let mut svg = format!(
        "<svg class=\"bars\" viewBox=\"0 0 {FULL_WIDTH} {:.0}\" role=\"img\" aria-label=\"Times of \
         the slowest devices in the resume, with their spread\"><path class=\"grid\" d=\"",
        high + BOTTOM
    );
    for tick in axis.ticks() {
        let _ = write!(
            svg,
            "M{:.1} 0v{high:.0}",
            LEFT + WIDTH * axis.fraction(tick.value)
        );
    }
    svg.push_str("\"/>");
    for (place, device) in chosen.iter().enumerate() {
        let top = row * place as f64;
        let _ = write!(
            svg,
            "<text text-anchor=\"end\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            LEFT - 8.0,
            top + row / 2.0 + 4.0,
            escape(&device.device.chars().take(32).collect::<String>())
        );
        for (number, machine) in machines.iter().enumerate() {
            let Some(spread) = own(machine, device) else {
                continue;
            };
            let y = top + 3.5 + LINE * (number as f64 + 0.5);
            let _ = write!(
                svg,
                "<g class=\"spread {}\"><path d=\"M{:.1} {y:.1}H{:.1}\"/><path class=\"median\" \
                 d=\"M{:.1} {:.1}v8\"/><title>{}</title></g>",
                colour(number + 4),
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
    }
    below_bars(&mut svg, &axis, LEFT, WIDTH, high);
    svg.push_str("</svg>");
    let mut keys = String::new();
    if machines.len() > 1 {
        keys.push_str("<p class=\"keys\">");
        for (number, machine) in machines.iter().enumerate() {
            let _ = write!(
                keys,
                "<span class=\"key {}\"><i></i>{}</span> ",
                colour(number + 4),
                escape(&machine.name)
            );
        }
        keys.push_str("</p>");
    }
    format!(
        "<figure><figcaption>The slowest devices in the resume: median, shortest and \
         longest</figcaption>{keys}{svg}</figure>"
    )
}

fn own(machine: &Machine, device: &DeviceSpread) -> Option<Spread> {
    let mut all = machine.devices.iter();
    let own = all.find(|one| one.device == device.device && one.driver == device.driver);
    own.map(|one| one.resume_us)
}

/// Each device once, the longest median of any machine first.
fn slowest(machines: &[Machine], top: usize) -> Vec<&DeviceSpread> {
    let mut all: Vec<&DeviceSpread> = machines.iter().flat_map(|one| &one.devices).collect();
    all.sort_by_key(|device| std::cmp::Reverse(device.resume_us.median));
    let mut once: Vec<&DeviceSpread> = Vec::new();
    for device in all {
        let is_same =
            |one: &&DeviceSpread| one.device == device.device && one.driver == device.driver;
        if once.len() < top && !once.iter().any(is_same) {
            once.push(device);
        }
    }
    once
}
