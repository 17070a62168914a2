//! The tables of statistics, verdicts and tails.

use reveille_figures::tail::Tail;
use reveille_results::statistics::StateStatistics;
use reveille_results::verdict::Exceedance;

use crate::view::{View, Views};
use reveille_show::html_table::Origin::{Driver, Estimated, Measured};
use reveille_show::html_table::{Table, known};
use reveille_show::quantity::{count, duration, nanoseconds, share};

/// The table that answers the first question: does each state keep to the driver's figure?
pub fn summary(views: &Views<'_>) -> String {
    let mut table = Table::new(
        "Wake latency by idle state",
        2,
        &[
            ("state", None),
            ("verdict", None),
            ("exit latency", Some(Driver)),
            ("wakes beyond it", Some(Measured)),
            ("95 % interval", Some(Measured)),
            ("median", Some(Measured)),
            ("above the floor", Some(Measured)),
            ("p99", Some(Measured)),
            ("maximum", Some(Measured)),
            ("datapoints", Some(Measured)),
        ],
    );
    for (view, one) in rows(views) {
        let sample = &one.wake_latency;
        let exceedance = one.exceedance.as_ref();
        table.row(&[
            row_name(view, one),
            one.verdict.to_string(),
            known(one.driver_exit_latency_us, |us| duration(us as f64 * 1e3)),
            known(exceedance, |exceedance| share(exceedance.share)),
            known(exceedance, interval),
            nanoseconds(sample.median_ns),
            known(one.median_above_floor_ns, nanoseconds),
            known(sample.p99_ns, nanoseconds),
            nanoseconds(sample.max_ns),
            count(sample.count),
        ]);
    }
    table.html()
}

/// All figures of each state.
pub fn details(views: &Views<'_>) -> String {
    let mut table = Table::new(
        "Statistics of the wake latency",
        1,
        &[
            ("state", None),
            ("datapoints", Some(Measured)),
            ("minimum", Some(Measured)),
            ("median", Some(Measured)),
            ("p90", Some(Measured)),
            ("p99", Some(Measured)),
            ("p99.9", Some(Measured)),
            ("p99.99", Some(Measured)),
            ("maximum", Some(Measured)),
            ("mean", Some(Measured)),
            ("standard deviation", Some(Measured)),
        ],
    );
    for (view, one) in rows(views) {
        let sample = &one.wake_latency;
        table.row(&[
            row_name(view, one),
            count(sample.count),
            nanoseconds(sample.min_ns),
            nanoseconds(sample.median_ns),
            known(sample.p90_ns, nanoseconds),
            known(sample.p99_ns, nanoseconds),
            known(sample.p99_9_ns, nanoseconds),
            known(sample.p99_99_ns, nanoseconds),
            nanoseconds(sample.max_ns),
            duration(sample.mean_ns),
            known(sample.standard_deviation_ns, duration),
        ]);
    }
    table.html()
}

/// What may lie beyond the data.
pub fn tails(views: &Views<'_>) -> String {
    let mut table = Table::new(
        "Beyond the data: an estimate, not a measurement",
        2,
        &[
            ("state", None),
            ("reached by", None),
            ("latency", Some(Estimated)),
            ("95 % interval", Some(Estimated)),
            ("shape ξ", Some(Estimated)),
            ("fit's p-value", Some(Estimated)),
            ("threshold", Some(Measured)),
            ("wakes beyond it", Some(Measured)),
        ],
    );
    let mut refused = Vec::new();
    for (view, one) in rows(views) {
        match &one.tail {
            Tail::Estimated(tail) => table.row(&[
                row_name(view, one),
                format!("1 wake in {}", count(tail.exceeded_by_one_in)),
                nanoseconds(tail.quantile_ns),
                format!(
                    "{} to {}",
                    nanoseconds(tail.quantile_low_ns),
                    nanoseconds(tail.quantile_high_ns)
                ),
                format!("{:.3}", tail.shape),
                format!("{:.2}", tail.fit_p_value),
                nanoseconds(tail.threshold_ns),
                count(tail.exceedances),
            ]),
            Tail::Refused(why) => refused.push((row_name(view, one), why.clone())),
        }
    }
    let mut html = match refused.len() == rows(views).count() {
        true => String::new(),
        false => table.html(),
    };
    if !refused.is_empty() {
        let mut table = Table::new(
            "States without an estimate of the tail",
            2,
            &[("state", None), ("why", None)],
        );
        for (name, why) in refused {
            table.row(&[name, why]);
        }
        html.push_str(&table.html());
    }
    html
}

/// Every result's statistics, state by state so that results stand one below the other.
fn rows<'a>(views: &'a Views<'a>) -> impl Iterator<Item = (&'a View<'a>, &'a StateStatistics)> {
    let mut rows: Vec<_> = views
        .views
        .iter()
        .flat_map(|view| {
            view.input
                .loaded
                .description
                .statistics
                .iter()
                .map(move |one| (view, one))
        })
        .collect();
    // Stable: results stay in their order.
    rows.sort_by_key(|(_, one)| (one.index.unwrap_or(i32::MAX), &one.state, &one.source));
    rows.into_iter()
}

fn row_name(view: &View<'_>, one: &StateStatistics) -> String {
    let letter = view
        .letter
        .as_ref()
        .map_or(String::new(), |letter| format!("{letter} · "));
    format!("{letter}{} · {}", one.state, one.source)
}

fn interval(exceedance: &Exceedance) -> String {
    format!("{} to {}", share(exceedance.low), share(exceedance.high))
}
