//! Where the time of each pair's wake-ups went, as stacked bars.

use std::fmt::Write as _;

use reveille_watch::cost::{Cost, PairCost};

use reveille_show::axis::Axis;
use reveille_show::chart::colour;
use reveille_show::markup::escape;
use reveille_show::quantity::{duration, nanoseconds};

/// The drawing, in its own units.
const LEFT: f64 = 300.0;
const WIDTH: f64 = 580.0;
const FULL_WIDTH: f64 = 980.0;
const ROW: f64 = 30.0;
const BAR: f64 = 20.0;
const BOTTOM: f64 = 44.0;

/// Bars; the others are in the table below.
const MOST: usize = 12;

/// Letters of a bar's name.
const NAME: usize = 40;

const PARTS: [&str; 3] = [
    "leaving the idle state",
    "interrupt and scheduler",
    "queueing behind others",
];

/// The pairs that waited longest, a bar each.
pub fn pairs(cost: &Cost) -> String {
    let mut longest: Vec<&PairCost> = cost.by_pair.iter().collect();
    longest.sort_by_key(|pair| std::cmp::Reverse(whole(pair)));
    longest.truncate(MOST);
    let Some(most) = longest.first().map(|pair| whole(pair)).filter(|ns| *ns > 0) else {
        return "<section id=\"pairs\"><h2>By pair</h2></section>".to_owned();
    };
    let axis = Axis::from_zero(most as f64);
    let height = ROW * longest.len() as f64;
    let x = |ns: u64| LEFT + WIDTH * axis.fraction(ns as f64);
    let mut svg = format!(
        "<svg class=\"bars\" viewBox=\"0 0 {FULL_WIDTH} {:.0}\" role=\"img\" aria-label=\"Waiting time \
         of each pair of waker and task, by its parts\"><path class=\"grid\" d=\"",
        height + BOTTOM
    );
    for tick in axis.ticks() {
        // Writing to a String cannot fail.
        let _ = write!(svg, "M{:.1} 0v{height:.0}", x(tick.value as u64));
    }
    svg.push_str("\"/>");
    for (place, pair) in longest.iter().enumerate() {
        bar(pair, ROW * place as f64, &x, &mut svg);
    }
    let _ = write!(
        svg,
        "<path class=\"axis\" d=\"M{LEFT} 0v{height:.0}h{WIDTH}\"/><g class=\"ticks\">"
    );
    for tick in axis.ticks() {
        let _ = write!(
            svg,
            "<text text-anchor=\"middle\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            x(tick.value as u64),
            height + 17.0,
            duration(tick.value)
        );
    }
    let _ = write!(
        svg,
        "</g><text class=\"name\" text-anchor=\"end\" x=\"{:.1}\" y=\"{:.1}\">waited in all</text></svg>",
        LEFT + WIDTH,
        height + BOTTOM - 6.0
    );
    format!(
        "<section id=\"pairs\"><h2>By pair</h2>{}<figure>{svg}</figure></section>",
        legend()
    )
}

fn parts(pair: &PairCost) -> [u64; 3] {
    let waited = &pair.waited;
    [waited.leaving_ns, waited.scheduling_ns, waited.queueing_ns]
}

fn whole(pair: &PairCost) -> u64 {
    parts(pair).iter().sum()
}

fn bar(pair: &PairCost, top: f64, x: &impl Fn(u64) -> f64, svg: &mut String) {
    let middle = top + ROW / 2.0;
    let mut name = format!("{} → {}", pair.waker, pair.wakee);
    if name.chars().count() > NAME {
        name = name.chars().take(NAME - 1).chain(['…']).collect();
    }
    let _ = write!(
        svg,
        "<text text-anchor=\"end\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
        LEFT - 8.0,
        middle + 4.0,
        escape(&name)
    );
    let mut from = 0;
    for (place, (part, ns)) in PARTS.iter().zip(parts(pair)).enumerate() {
        let _ = write!(
            svg,
            "<g class=\"{}\"><rect class=\"stage\" x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" \
             height=\"{BAR}\"><title>{part}: {}</title></rect></g>",
            colour(place),
            x(from),
            middle - BAR / 2.0,
            x(from + ns) - x(from),
            nanoseconds(ns as i64)
        );
        from += ns;
    }
    let _ = write!(
        svg,
        "<text x=\"{:.1}\" y=\"{:.1}\">{}</text>",
        x(from) + 6.0,
        middle + 4.0,
        nanoseconds(from as i64)
    );
}

fn legend() -> String {
    let keys = PARTS
        .iter()
        .enumerate()
        .map(|(place, part)| format!("<span class=\"key {}\"><i></i>{part}</span>", colour(place)));
    format!("<div class=\"keys\">{}</div>", keys.collect::<String>())
}
