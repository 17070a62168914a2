//! Every state by itself.

use std::fmt::Write as _;

use super::{
    LAUNCH_DISTANCE, Over, SILENT_TIME, caption, dots, key_colour, key_name, latency_heat, tail,
};
use crate::show::groups::Key;
use crate::show::view::{View, Views};
use reveille_show::axis::Axis;
use reveille_show::chart::curves::{self, Curve};
use reveille_show::chart::{Mark, colour, figure, legend, not_drawn};
use reveille_show::markup::escape;
use reveille_show::quantity::{counted, duration};

/// Every state by itself, with all results in its curves.
pub fn states(views: &Views<'_>) -> String {
    let keys = views.keys();
    let mut html = String::new();
    for key in &keys {
        // Writing to a String cannot fail.
        let _ = write!(
            html,
            "<h3>{}</h3>{}",
            escape(&key_name(key)),
            verdicts(views, key)
        );
        html.push_str("<div class=\"charts\">");
        html.push_str(&state_curves(views, key));
        // One state alone is what the overview shows already.
        if keys.len() > 1 {
            for over in [SILENT_TIME, LAUNCH_DISTANCE] {
                for (place, view) in views.views.iter().enumerate() {
                    html.push_str(&of_state(views, view, place, key, &over));
                }
            }
        }
        html.push_str("</div>");
    }
    html
}

fn verdicts(views: &Views<'_>, key: &Key) -> String {
    let mut html = String::from("<p>");
    for view in &views.views {
        let who = view.who();
        let words = match view.input.statistics(key) {
            Some(one) => format!(
                "{who}{} ({}). ",
                one.verdict,
                counted(one.wake_latency.count, "datapoint")
            ),
            None => format!("{who}no datapoint. "),
        };
        html.push_str(&escape(&words));
    }
    html.push_str("</p>");
    html
}

fn state_curves(views: &Views<'_>, key: &Key) -> String {
    let several = views.views.len() > 1;
    let mut curves = Vec::new();
    let mut keys = Vec::new();
    for (place, view) in views.views.iter().enumerate() {
        let Some(group) = view.groups.get(key) else {
            continue;
        };
        let class = match several {
            true => format!("{} dash{place}", colour(place)),
            false => key_colour(views, key),
        };
        if several {
            keys.push((class.clone(), view.title()));
        }
        curves.push(Curve {
            class,
            latencies: &group.latencies,
            tail: tail(view, key),
        });
    }
    let marks = state_marks(views, key);
    let mut html = String::new();
    for (title, draw) in [
        (
            "Histogram",
            curves::histogram as fn(Axis, &str, &[Curve<'_>], &[Mark]) -> String,
        ),
        ("Exceedance", curves::exceedance),
    ] {
        let label = format!(
            "{title} of the wake latency of {} on logarithmic axes",
            key_name(key)
        );
        let title = format!("{}: {title}", key_name(key));
        let chart = draw(views.axes.of(key).figures, &label, &curves, &marks);
        let keys = match several {
            true => legend(keys.clone()),
            false => String::new(),
        };
        html.push_str(&figure(&title, &format!("{keys}{chart}"), ""));
    }
    html
}

/// The driver's figure and the floor; no other than one above zero has a place on the axis.
fn marks(view: &View<'_>, key: &Key) -> impl Iterator<Item = Mark> {
    let (driver, floor) = (view.input.driver_figure(key), view.input.floor(key));
    let figures = [("driver", driver), ("floor", floor)].into_iter();
    let figures = figures.filter_map(|(class, value)| Some((class, value.filter(|ns| *ns > 0.0)?)));
    figures.map(|(class, value)| Mark {
        value,
        text: format!("{class} {}", duration(value)),
        class: class.to_owned(),
    })
}

/// Those of each result once.
fn state_marks(views: &Views<'_>, key: &Key) -> Vec<Mark> {
    let mut all: Vec<(Mark, Vec<&str>)> = Vec::new();
    for view in &views.views {
        let letter = view.letter.as_deref().unwrap_or("");
        for mark in marks(view, key) {
            let mut others = all.iter_mut();
            match others.find(|(one, _)| one.class == mark.class && one.value == mark.value) {
                Some((_, letters)) => letters.push(letter),
                None => all.push((mark, vec![letter])),
            }
        }
    }
    let named = all.into_iter().map(|(mut mark, letters)| {
        if letters.len() < views.views.len() {
            let _ = write!(mark.text, " ({})", letters.join(", "));
        }
        mark
    });
    named.collect()
}

fn of_state(views: &Views<'_>, view: &View<'_>, place: usize, key: &Key, over: &Over) -> String {
    let title = caption(view, &format!("{}: against {}", key_name(key), over.name));
    let Some(group) = view.groups.get(key) else {
        return not_drawn(&title, "this result has no datapoint of this state");
    };
    let plane = (over.plane)(view).zip((over.axis)(views));
    let density = plane.and_then(|(plane, axis)| Some((plane.groups.get(view.place(key)?)?, axis)));
    let Some((density, axis)) = density.filter(|(density, _)| density.total() > 0) else {
        return not_drawn(&title, over.missing);
    };
    let marks: Vec<Mark> = marks(view, key).collect();
    let dots = [dots(
        view,
        over.column,
        &group.outliers,
        key_colour(views, key),
    )];
    latency_heat(
        &title,
        over,
        (axis, views.axes.of(key).datapoints),
        place,
        density,
        &marks,
        &dots,
    )
}
