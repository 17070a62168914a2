//! The chart that shows the answer: how many wakes take longer than what, against the driver's figures.

use std::cmp::Reverse;
use std::fmt::Write as _;

use super::{key_colour, key_name};
use crate::compare::Comparisons;
use crate::show::difference;
use crate::show::groups::{Group, Key, named};
use crate::show::verdicts::{figures, judgement, ranked};
use crate::show::view::{View, Views};
use crate::statistics::StateStatistics;
use crate::verdict::Verdict;
use reveille_show::axis::Axis;
use reveille_show::chart::limits::{Limited, against_limits};
use reveille_show::chart::{COLOURS, not_drawn};
use reveille_show::markup::escape;
use reveille_show::quantity::{counted, duration};

/// States with a chart of their own beside each other.
const CHARTS: usize = 6;

/// Results in one chart: as many as there are dashes.
const RESULTS: usize = 6;

const READING: &str = "A curve shows how many wakes take longer than the latency below it. Vertical line: \
    the driver's figure of the state.";

/// Of one result, whose curves have no dashes.
const BEYOND: &str = "Thick: beyond the driver's figure.";

/// One result's states in one chart; of several results a chart for each state.
pub fn lead(views: &Views<'_>, comparisons: &[Comparisons]) -> String {
    let keys = views.keys();
    match (&views.views[..], &keys[..]) {
        (_, []) => not_drawn("Wake latency exceedance", "no datapoints"),
        ([view], _) => of_one(views, view),
        (all, [key]) => {
            let shown = &all[..all.len().min(RESULTS)];
            let lines = shown.iter().map(|view| {
                let stands = view
                    .input
                    .statistics(key)
                    .map_or_else(|| "no datapoint".to_owned(), in_words);
                format!("{}{} {stands}", dashes(views, view), bold(&view.title()))
            });
            let more = left_out(all.len() - shown.len(), "result");
            let caption = caption(views, comparisons, key);
            let svg = of_state(views, key, views.axes.measured);
            let chart = format!("<figcaption>{caption}</figcaption>{svg}");
            beside(&chart, lines, &more, READING)
        }
        (all, _) => {
            let mut html = String::from("<p class=\"keys\">");
            for view in all.iter().take(RESULTS) {
                // Writing to a String cannot fail.
                let title = escape(&view.title());
                let _ = write!(html, "<span>{}{title}</span>", dashes(views, view));
            }
            let reading = escape(READING);
            let _ = write!(
                html,
                "</p><p class=\"about\">{reading}</p><div class=\"charts\">"
            );
            let shown = telling(&keys, comparisons);
            for key in &shown {
                let caption = caption(views, comparisons, key);
                let svg = of_state(views, key, views.axes.of(key).measured);
                let _ = write!(
                    html,
                    "<figure><figcaption>{caption}</figcaption>{svg}</figure>"
                );
            }
            html.push_str("</div>");
            html.push_str(&left_out(keys.len() - shown.len(), "state"));
            html.push_str(&left_out(all.len().saturating_sub(RESULTS), "result"));
            html
        }
    }
}

fn of_one(views: &Views<'_>, view: &View<'_>) -> String {
    let all = in_order(view);
    let shown = &all[..all.len().min(COLOURS)];
    let figures = |group: &Group| view.input.driver_figure(&group.key).filter(|ns| *ns > 0.0);
    let is_alone = shown
        .iter()
        .filter(|(group, _)| figures(group).is_some())
        .count()
        == 1;
    let curves: Vec<Limited<'_>> = shown
        .iter()
        .map(|(group, _)| Limited {
            class: key_colour(views, &group.key),
            name: name(view, &group.key),
            latencies: &group.latencies,
            limit: figures(group).map(|ns| {
                let whose = match is_alone {
                    true => "driver".to_owned(),
                    // Sources share it.
                    false => format!("{}:", group.key.state),
                };
                (ns, format!("{whose} {}", duration(ns)))
            }),
        })
        .collect();
    let label = "Wake latency exceedance, by state, on logarithmic axes";
    let svg = against_limits(views.axes.measured, label, &curves);
    let lines = shown.iter().map(|(group, one)| {
        let colour = key_colour(views, &group.key);
        let words = one.map_or(String::new(), in_words);
        let name = bold(&name(view, &group.key));
        format!("<span class=\"key {colour}\"><i></i></span>{name} {words}")
    });
    let more = left_out(all.len() - shown.len(), "state");
    beside(&svg, lines, &more, &format!("{READING} {BEYOND}"))
}

/// A chart with the lines of its legend, the first the most telling, and words on what is left out.
fn beside(chart: &str, lines: impl Iterator<Item = String>, more: &str, reading: &str) -> String {
    let mut list = String::new();
    for line in lines {
        let _ = write!(list, "<li>{line}</li>");
    }
    format!(
        "<div class=\"lead\"><figure>{chart}</figure><div><ul>{list}</ul>{more}<p class=\"about\">{}</p>\
         </div></div>",
        escape(reading)
    )
}

fn bold(name: &str) -> String {
    format!("<b>{}</b>", escape(name))
}

/// The state's figures, and in the verdict's colour what they are against the driver's.
fn in_words(one: &StateStatistics) -> String {
    let class = match one.verdict {
        Verdict::ExceededByOneIn(_) => "bad",
        Verdict::Within => "good",
        _ => "",
    };
    let (figures, judgement) = (escape(&figures(one)), escape(&judgement(one)));
    format!("{figures}; <span class=\"{class}\">{judgement}</span>")
}

/// Groups in order of rank.
fn in_order<'v>(view: &'v View<'_>) -> Vec<(&'v Group, Option<&'v StateStatistics>)> {
    let ranked = ranked(&view.input.loaded.description.statistics);
    let rank = |key: &Key| {
        let mut ranked = ranked.iter();
        let place = ranked.position(|one| one.state == key.state && one.source == key.source);
        place.unwrap_or(usize::MAX)
    };
    let groups = view.groups.groups.iter();
    let mut groups: Vec<_> = groups
        .map(|group| (group, view.input.statistics(&group.key)))
        .collect();
    groups.sort_by_key(|(group, _)| rank(&group.key));
    groups
}

/// The state; with its source if the result has several.
fn name(view: &View<'_>, key: &Key) -> String {
    let groups = view.groups.groups.iter();
    named(
        &key.state,
        &key.source,
        groups.map(|group| &group.key.source),
    )
}

/// All results' curves of that state.
fn of_state(views: &Views<'_>, key: &Key, axis: Axis) -> String {
    let shown = views.views.iter().take(RESULTS);
    let with: Vec<(usize, &View<'_>, &Group)> = shown
        .enumerate()
        .filter_map(|(place, view)| Some((place, view, view.groups.get(key)?)))
        .collect();
    let figure = |view: &View<'_>| view.input.driver_figure(key).filter(|ns| *ns > 0.0);
    let is_same = with
        .iter()
        .all(|(_, view, _)| figure(view) == figure(with[0].1));
    let curves: Vec<Limited<'_>> = with
        .iter()
        .map(|(place, view, group)| {
            let letter = view.letter.clone().unwrap_or_default();
            let whose = if is_same { "driver" } else { &letter };
            Limited {
                class: format!("{} dash{place}", key_colour(views, key)),
                limit: figure(view).map(|ns| (ns, format!("{whose} {}", duration(ns)))),
                name: letter,
                latencies: &group.latencies,
            }
        })
        .collect();
    let label = format!(
        "{}: wake latency exceedance of each result, on logarithmic axes",
        key_name(key)
    );
    against_limits(axis, &label, &curves)
}

/// The state in its colour, and what differs.
fn caption(views: &Views<'_>, comparisons: &[Comparisons], key: &Key) -> String {
    let words = difference::of_state(views, comparisons, key);
    let keys = views.keys();
    let name = named(&key.state, &key.source, keys.iter().map(|key| &key.source));
    format!(
        "<span class=\"key {}\"><i></i></span>{}: {}",
        key_colour(views, key),
        escape(&name),
        escape(match words.as_str() {
            "" => "too few wakes to compare",
            words => words,
        })
    )
}

/// A line in the result's dashes.
fn dashes(views: &Views<'_>, view: &View<'_>) -> String {
    let place = views.views.iter().position(|one| one.letter == view.letter);
    format!(
        "<svg class=\"dashes\" viewBox=\"0 0 40 8\" role=\"img\" aria-label=\"Dashes of {}\"><path \
         class=\"curve dash{}\" d=\"M0 4h40\"/></svg>",
        escape(view.letter.as_deref().unwrap_or_default()),
        place.unwrap_or(0)
    )
}

/// As many states as have room, that of the largest difference first, as in the answer.
fn telling(keys: &[Key], comparisons: &[Comparisons]) -> Vec<Key> {
    let difference = |key: &Key| {
        let all = comparisons.iter().flat_map(|one| &one.states);
        let differing = all.filter(|one| {
            one.is_significant() && one.state == key.state && one.source == key.source
        });
        let by = differing.map(|one| one.comparison.median.difference_ns.unsigned_abs());
        by.max()
    };
    let mut keys = keys.to_vec();
    keys.sort_by_key(|key| Reverse(difference(key)));
    keys.truncate(CHARTS);
    keys
}

fn left_out(number: usize, noun: &str) -> String {
    match number {
        0 => String::new(),
        more => format!(
            "<p class=\"about\">Not drawn here: {}; see <a href=\"#states\">State by state</a>.</p>",
            counted(more as u64, &format!("more {noun}"))
        ),
    }
}
