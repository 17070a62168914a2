//! The charts: all datapoints together here; the first of the page, state by state and residency in files of
//! their own.

mod lead;
mod residency;
mod states;

pub use lead::lead;
pub use residency::residency;
pub use states::states;

use std::fmt::Write as _;

use reveille_figures::tail::{Estimate, Tail};

use crate::show::groups::Key;
use crate::show::view::{Plane, View, Views};
use reveille_show::axis::Axis;
use reveille_show::chart::heat::{self, Dots};
use reveille_show::chart::{Frame, Mark, Quantity, colour, figure, not_drawn};
use reveille_show::density::Density;
use reveille_show::markup::escape;
use reveille_show::quantity::counted;

/// One kind of picture that every result gets: latency over a quantity.
struct Over {
    column: &'static str,
    name: &'static str,
    plane: for<'a> fn(&'a View<'_>) -> Option<&'a Plane>,
    axis: fn(&Views<'_>) -> Option<Axis>,
    /// Why it is not drawn, if so.
    missing: &'static str,
}

const SILENT_TIME: Over = Over {
    column: "silent_time_ns",
    name: "silent time",
    plane: |view| view.silent_time.as_ref(),
    axis: |views| views.axes.silent_time,
    missing: "no datapoint has a silent time (the user probe does not see when the CPU went \
              idle, and a CPU that was awake has none)",
};
const LAUNCH_DISTANCE: Over = Over {
    column: "launch_distance_ns",
    name: "launch distance",
    plane: |view| view.launch_distance.as_ref(),
    axis: |views| views.axes.launch_distance,
    missing: "no datapoint has a launch distance",
};
const TIME: Over = Over {
    column: "time_ns",
    name: "time since the start",
    plane: |view| view.time.as_ref(),
    axis: |views| views.axes.time,
    missing: "no datapoint has a time",
};

/// How charts are to be read.
const OVERVIEW: &str = "Shades count datapoints per cell. Datapoints beyond the 99.9th percentile of \
    their state are dots in the state's colour (of fewer than 1000 datapoints, the greatest): point at \
    one, tap it, or focus a chart and use the arrow keys to read all its fields. Dotted ends of curves, \
    with a bar for the 95% interval, are estimates of the tail.";

/// All states together.
pub fn overview(views: &Views<'_>) -> String {
    let mut html = format!("<p>{}</p>{}", escape(OVERVIEW), key_legend(views));
    html.push_str("<div class=\"charts\">");
    for over in [SILENT_TIME, LAUNCH_DISTANCE, TIME] {
        for (place, view) in views.views.iter().enumerate() {
            html.push_str(&whole(views, view, place, &over));
        }
    }
    html.push_str("</div>");
    html
}

/// Which colour is which state; which dashes, which source.
fn key_legend(views: &Views<'_>) -> String {
    let mut html = String::from("<p class=\"keys\">");
    for (place, key) in views.keys().iter().enumerate() {
        // Writing to a String cannot fail.
        let _ = write!(
            html,
            "<span class=\"key {}\"><i></i>{}</span> ",
            colour(place),
            escape(&key_name(key))
        );
    }
    html.push_str("</p>");
    html
}

fn key_name(key: &Key) -> String {
    format!("{} · {}", key.state, key.source)
}

fn key_colour(views: &Views<'_>, key: &Key) -> String {
    colour(
        views
            .keys()
            .iter()
            .position(|other| other == key)
            .unwrap_or(0),
    )
}

fn whole(views: &Views<'_>, view: &View<'_>, place: usize, over: &Over) -> String {
    let title = caption(view, &format!("Wake latency against {}", over.name));
    let Some((plane, axis)) = (over.plane)(view).zip((over.axis)(views)) else {
        return not_drawn(&title, over.missing);
    };
    let dots: Vec<Dots> = view
        .groups
        .groups
        .iter()
        .map(|group| {
            dots(
                view,
                over.column,
                &group.outliers,
                key_colour(views, &group.key),
            )
        })
        .collect();
    let axes = (axis, views.axes.latency);
    latency_heat(&title, over, axes, place, &plane.whole, &[], &dots)
}

/// Draws latency over a quantity, on axes given as (across, up).
fn latency_heat(
    title: &str,
    over: &Over,
    (across, up): (Axis, Axis),
    place: usize,
    density: &Density,
    marks: &[Mark],
    dots: &[Dots],
) -> String {
    let frame = Frame {
        x: across,
        y: up,
        x_name: over.name,
        y_name: "wake latency",
        x_quantity: Quantity::Duration,
        y_quantity: Quantity::Duration,
    };
    let singly: usize = dots.iter().map(|dots| dots.dots.len()).sum();
    let label = format!(
        "{title}: density of {}, {singly} of them drawn individually",
        counted(density.total(), "datapoint")
    );
    figure(
        title,
        &heat::heat(&frame, &label, place, density, marks, dots),
        "",
    )
}

/// The outliers among `rows` that have a value in that column.
fn dots(view: &View<'_>, column: &str, rows: &[u32], class: String) -> Dots {
    let columns = &view.input.loaded.columns;
    let values = columns.integers(column).unwrap_or(&[]);
    let latency = columns.integers("wake_latency_ns").unwrap_or(&[]);
    let dots = rows.iter().filter_map(|row| {
        let place = view.outliers.binary_search(row).ok()?;
        let row = *row as usize;
        let x = *values.get(row).filter(|value| **value != crate::NULL)?;
        Some((place, x as f64, latency[row] as f64))
    });
    Dots {
        class,
        dots: dots.collect(),
    }
}

fn tail<'a>(view: &'a View<'_>, key: &Key) -> Option<&'a Estimate> {
    match &view.input.statistics(key)?.tail {
        Tail::Estimated(tail) => Some(tail),
        Tail::Refused(_) => None,
    }
}

fn caption(view: &View<'_>, words: &str) -> String {
    match &view.letter {
        Some(_) => format!("{} — {words}", view.title()),
        None => words.to_owned(),
    }
}
