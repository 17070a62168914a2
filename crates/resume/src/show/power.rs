//! What the machine drew meanwhile (figures 3 and 6 of Xi and others).

use std::fmt::Write as _;

use reveille_resume::analysis::Machine;
use reveille_resume::power::beside::{LaidBy, Mean, Power};

use super::time;
use reveille_show::axis::Axis;
use reveille_show::chart::{Frame, Quantity};
use reveille_show::html_table::{Origin, Table, known};
use reveille_show::markup::escape;
use reveille_show::quantity::{count, share, three_digits};

pub fn power(machine: &Machine) -> String {
    let Some(power) = &machine.power else {
        return String::new();
    };
    let by = match power.laid_by {
        LaidBy::WallClock => "by the wall clocks of both",
        LaidBy::Offset => "by the offset that was given",
        LaidBy::Drop => "by the drop in power while the machine slept",
    };
    let left = match power.left_out.all() {
        0 => String::new(),
        lines => format!(" {} lines gave no sample.", count(lines as u64)),
    };
    let gaps = match power.gaps {
        0 => String::new(),
        gaps => format!(
            " Samples are missing {} times, {} in all; nothing is averaged over these gaps.",
            count(gaps as u64),
            time(power.gaps_us)
        ),
    };
    let mut html = format!(
        "<p>{} samples, one every {}, laid beside the log {by}.{left}{gaps}</p>",
        count(power.samples as u64),
        time(power.interval_us)
    );
    for note in &power.notes {
        let _ = write!(
            html,
            "<p class=\"notice\" role=\"note\">{}</p>",
            escape(note)
        );
    }
    let _ = write!(
        html,
        "<div class=\"charts\"><figure><figcaption>Power over time; shaded: asleep</figcaption>{}\
         </figure></div>{}",
        chart(power),
        table(power)
    );
    html
}

fn chart(power: &Power) -> String {
    let (Some(first), Some(last)) = (power.series.first(), power.series.last()) else {
        return String::new();
    };
    let ns = |us: i64| (us - first.at_us) as f64 * 1e3;
    let most = power
        .series
        .iter()
        .map(|point| point.max_w)
        .fold(0.0, f64::max);
    let frame = Frame {
        x: Axis::from_zero(ns(last.at_us)),
        y: Axis::from_zero(most * 1.05),
        x_name: "time from the first sample",
        y_name: "power",
        x_quantity: Quantity::Duration,
        y_quantity: Quantity::Watts,
    };
    frame.svg("Power over time", "", |svg| {
        svg.push_str("<g class=\"asleep\">");
        for cycle in &power.cycles {
            let (from, to) = (frame.x(ns(cycle.suspended_us)), frame.x(ns(cycle.woken_us)));
            let (top, bottom) = (frame.y(frame.y.max), frame.y(0.0));
            let _ = write!(
                svg,
                "<rect x=\"{from:.1}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"{:.1}\"/>",
                (to - from).max(0.5),
                bottom - top
            );
        }
        svg.push_str("</g><path class=\"curve c5\" d=\"");
        for (place, point) in power.series.iter().enumerate() {
            let x = frame.x(ns(point.at_us));
            let pen = if place == 0 || point.after_gap {
                'M'
            } else {
                'L'
            };
            let _ = write!(svg, "{pen}{x:.1} {:.1}", frame.y(point.max_w));
            if point.min_w < point.max_w {
                let _ = write!(svg, "V{:.1}", frame.y(point.min_w));
            }
        }
        svg.push_str("\"/>");
    })
}

fn table(power: &Power) -> String {
    let measured = Some(Origin::Measured);
    let heads = [
        ("when", None),
        ("samples", None),
        ("mean", measured),
        ("of idle", None),
        ("standard deviation", measured),
        ("least", measured),
        ("most", measured),
    ];
    let mut table = Table::new("Means of samples that lie wholly there", 1, &heads);
    let watts = |watts: f64| format!("{} W", three_digits(watts));
    let rows: [(&str, &Mean); 4] = [
        ("outside of cycles (idle)", &power.idle),
        ("suspend", &power.suspend),
        ("asleep", &power.asleep),
        ("resume", &power.resume),
    ];
    for (name, mean) in rows {
        let of_idle = mean
            .mean_w
            .zip(power.idle_w)
            .filter(|(_, idle)| *idle > 0.0);
        table.row(&[
            name.to_owned(),
            count(mean.samples as u64),
            known(mean.mean_w, watts),
            known(of_idle, |(mean, idle)| share(mean / idle)),
            known(mean.standard_deviation_w, watts),
            known(mean.min_w, watts),
            known(mean.max_w, watts),
        ]);
    }
    let energy = power.energy_j.map_or(String::new(), |joules| {
        format!(
            "<p>A cycle took {} J from suspend to resume (median).</p>",
            three_digits(joules)
        )
    });
    format!("{}{energy}", table.html())
}
