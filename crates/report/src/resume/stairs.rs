//! What-ifs as a staircase: each change on top of those before it.

use std::fmt::Write as _;

use reveille_resume::analysis::{Machine, counted};
use reveille_resume::cycle::Us;

use super::bars::{below_bars, time};
use reveille_show::axis::Axis;
use reveille_show::markup::escape;

/// The drawing, in its own units.
const LEFT: f64 = 270.0;
const WIDTH: f64 = 620.0;
const FULL_WIDTH: f64 = 1000.0;
const ROW: f64 = 26.0;
const BAR: f64 = 17.0;
const BOTTOM: f64 = 40.0;

/// A tread: what was changed, the resume's time with it.
struct Step {
    name: String,
    total: Us,
    told: String,
}

/// The changes that were asked for, then the best removals, one after the other; empty where there
/// is neither.
pub fn stairs(machine: &Machine) -> String {
    let steps = steps(machine);
    if steps.len() < 2 {
        return String::new();
    }
    let mut html = format!(
        "<p>Each row has the changes of those above it, too (cycle {}).</p><figure>{}</figure>",
        machine.shown,
        svg(&steps)
    );
    for replay in machine.what_if.iter().flat_map(|one| &one.replays) {
        let Some(last) = replay.deferred.iter().max_by_key(|one| one.ready_us) else {
            continue;
        };
        let _ = write!(
            html,
            "<p class=\"about\">{}</p>",
            escape(&format!(
                "{}: {}; the last, {}, is ready {} after the resume's begin.",
                replay.change,
                counted(replay.deferred.len(), "device"),
                last.device,
                time(last.ready_us)
            ))
        );
    }
    html
}

fn steps(machine: &Machine) -> Vec<Step> {
    let cycle = machine.shown();
    let measured: Us = cycle.path.iter().map(|link| link.duration_us).sum();
    let mut steps = vec![Step {
        name: "as measured".to_owned(),
        total: measured,
        told: time(measured),
    }];
    for replay in machine.what_if.iter().flat_map(|one| &one.replays) {
        let names: Vec<&str> = replay.removed.iter().map(|name| &**name).collect();
        steps.push(Step {
            name: replay.change.clone(),
            total: replay.total_us,
            told: format!(
                "{}: saves {}. {}",
                replay.change,
                time(replay.saves_us),
                names.join(", ")
            ),
        });
    }
    for removal in &machine.steps {
        let below = match removal.with_below {
            0 => String::new(),
            below => format!(" and {below} below it"),
        };
        steps.push(Step {
            name: format!("without {}", removal.device),
            total: removal.total_us,
            told: format!(
                "without {}{below}: saves {}",
                removal.device,
                time(removal.saves_us)
            ),
        });
    }
    steps
}

fn svg(steps: &[Step]) -> String {
    let most = steps.iter().map(|step| step.total).max().unwrap_or(1);
    let axis = Axis::from_zero(most as f64 * 1e3);
    let x = |us: Us| LEFT + WIDTH * axis.fraction(us as f64 * 1e3);
    let high = ROW * steps.len() as f64;
    let mut svg = format!(
        "<svg class=\"bars\" viewBox=\"0 0 {FULL_WIDTH} {:.0}\" role=\"img\" aria-label=\"Time of \
         the resume after each change\"><path class=\"grid\" d=\"",
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
    let mut before = steps[0].total;
    for (place, step) in steps.iter().enumerate() {
        let middle = ROW * place as f64 + ROW / 2.0;
        let name: String = match step.name.chars().count() > 36 {
            true => step.name.chars().take(35).chain(['…']).collect(),
            false => step.name.clone(),
        };
        let top = middle - BAR / 2.0;
        let _ = write!(
            svg,
            "<text text-anchor=\"end\" x=\"{:.1}\" y=\"{:.1}\">{}</text><g class=\"c5\"><rect \
             class=\"stage\" x=\"{LEFT}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"{BAR}\"><title>{}\
             </title></rect></g>",
            LEFT - 8.0,
            middle + 4.0,
            escape(&name),
            x(step.total) - LEFT,
            escape(&step.told)
        );
        if before > step.total {
            let _ = write!(
                svg,
                "<rect class=\"unseen\" x=\"{:.1}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"{BAR}\"/>",
                x(step.total),
                x(before) - x(step.total)
            );
        }
        let _ = write!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            x(before.max(step.total)) + 6.0,
            middle + 4.0,
            time(step.total)
        );
        before = step.total;
    }
    below_bars(&mut svg, &axis, LEFT, WIDTH, high);
    let _ = write!(
        svg,
        "<text class=\"name\" text-anchor=\"end\" x=\"{:.1}\" y=\"{:.1}\">time of the \
         resume</text></svg>",
        LEFT + WIDTH,
        high + BOTTOM - 6.0
    );
    svg
}
