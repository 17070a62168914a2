//! Where and how it was measured: machine, driver's table, settings, characterisation, counts.

use std::fmt::Write as _;

use reveille_results::Description;

use crate::view::{View, Views};
use reveille_show::html_table::Origin::{Driver, Measured};
use reveille_show::html_table::{Table, known};
use reveille_show::markup::escape;
use reveille_show::quantity::{count, duration, nanoseconds, share};

/// All of it, result by result.
pub fn settings(views: &Views<'_>) -> String {
    let mut html = String::from("<section id=\"setting\"><h2>Machine, settings and counts</h2>");
    html.push_str(&machines(views));
    for view in &views.views {
        if view.letter.is_some() {
            // Writing to a String cannot fail.
            let _ = write!(html, "<h3>{}</h3>", escape(&view.title()));
        }
        html.push_str(&states(view));
        html.push_str(&characterisation(view));
        html.push_str(&counts(view));
    }
    html.push_str("</section>");
    html
}

/// What can be said in a word, with the results side by side.
fn machines(views: &Views<'_>) -> String {
    let titles: Vec<String> = views.views.iter().map(View::title).collect();
    let mut heads = vec![("", None)];
    heads.extend(titles.iter().map(|title| (title.as_str(), None)));
    let mut table = Table::new("Machine and settings", heads.len(), &heads);
    let mut add = |name: &str, value: &dyn Fn(&Description) -> Option<String>| {
        let values = views
            .views
            .iter()
            .map(|view| value(&view.input.loaded.description));
        let values: Vec<String> = values
            .map(|value| value.filter(|text| !text.is_empty()).unwrap_or_default())
            .collect();
        if values.iter().any(|value| !value.is_empty()) {
            let mut row = vec![name.to_owned()];
            row.extend(values);
            table.row(&row);
        }
    };
    add("host", &|of| of.machine.hostname.clone());
    add("CPU model", &|of| of.machine.cpu_model.clone());
    add("hypervisor", &|of| of.machine.hypervisor.clone());
    add("CPUs online", &|of| {
        Some(of.machine.cpus_online?.to_string())
    });
    add("microcode", &|of| of.machine.microcode.clone());
    add("kernel", &|of| of.machine.kernel.clone());
    add("architecture", &|of| of.machine.architecture.clone());
    add("kernel's command line", &|of| {
        of.machine.command_line.clone()
    });
    add("clock source", &|of| of.machine.clock_source.clone());
    add("idle driver", &|of| of.driver.clone());
    add("idle governor", &|of| of.governor.clone());
    add("measured by", &|of| Some(of.tool.clone()));
    add("probe", &|of| Some(super::probe(of.probe, &of.tool)));
    add("started", &|of| Some(of.started.clone()));
    add("command", &|of| Some(of.command_line.join(" ")));
    add("measured CPU", &|of| {
        of.settings.cpu.map(|cpu| cpu.to_string())
    });
    add("sources", &|of| Some(of.settings.sources.join(", ")));
    add("deepest states allowed", &|of| {
        Some(of.settings.deepest_states.join(", "))
    });
    add("launch distance", &|of| {
        let (low, high) = (of.settings.distance_min_ns, of.settings.distance_max_ns);
        let text = format!("{} to {}", duration(low as f64), duration(high as f64));
        (high > 0).then(|| format!("{text}, {}", of.settings.protocol))
    });
    add("arming", &|of| Some(of.settings.arming.clone()));
    add("other CPUs offline", &|of| {
        of.settings.offline_others.then(|| "yes".to_owned())
    });
    table.html()
}

fn states(view: &View<'_>) -> String {
    let description = &view.input.loaded.description;
    if description.states.is_empty() {
        return "<p>The result does not hold the driver's table of idle states.</p>".to_owned();
    }
    let mut table = Table::new(
        "Idle states of the measured CPU",
        2,
        &[
            ("state", None),
            ("description", None),
            ("exit latency", Some(Driver)),
            ("target residency", Some(Driver)),
            ("enabled", None),
        ],
    );
    for state in &description.states {
        table.row(&[
            state.name.clone(),
            state.description.clone().unwrap_or_default(),
            known(state.exit_latency_us, |us| duration(us as f64 * 1e3)),
            known(state.target_residency_us, |us| duration(us as f64 * 1e3)),
            known(state.disabled, |disabled| {
                if disabled { "no" } else { "yes" }.to_owned()
            }),
        ]);
    }
    table.html()
}

fn characterisation(view: &View<'_>) -> String {
    let of = &view.input.loaded.description.characterisation;
    let mut html = String::new();
    if !of.floors.is_empty() {
        let mut table = Table::new(
            "The floor: the same event on a CPU where nothing sleeps",
            2,
            &[
                ("state", None),
                ("source", None),
                ("datapoints", Some(Measured)),
                ("median", Some(Measured)),
                ("p90", Some(Measured)),
                ("p99", Some(Measured)),
                ("maximum", Some(Measured)),
            ],
        );
        for floor in &of.floors {
            table.row(&[
                floor.state.clone(),
                floor.source.clone(),
                count(floor.count),
                nanoseconds(floor.median_ns),
                known(floor.p90_ns, nanoseconds),
                known(floor.p99_ns, nanoseconds),
                nanoseconds(floor.max_ns),
            ]);
        }
        html.push_str(&table.html());
    }
    if !of.costs.is_empty() {
        let mut table = Table::new(
            "What the instrument costs here",
            1,
            &[
                ("what", None),
                ("tried", Some(Measured)),
                ("median", Some(Measured)),
                ("mean", Some(Measured)),
                ("minimum", Some(Measured)),
                ("maximum", Some(Measured)),
            ],
        );
        for (name, cost) in &of.costs {
            table.row(&[
                name.replace('_', " "),
                count(cost.count),
                cost.median_ns.map_or_else(|| "-".to_owned(), duration),
                duration(cost.mean_ns),
                duration(cost.min_ns),
                duration(cost.max_ns),
            ]);
        }
        html.push_str(&table.html());
    }
    if html.is_empty() {
        return "<p>The result holds no characterisation: there is no floor to compare with, and \
                nothing was subtracted.</p>"
            .to_owned();
    }
    let mut words = format!(
        "{} was subtracted from every latency as the instrument's overhead.",
        nanoseconds(of.overhead_ns)
    );
    if let Some(cost) = of.probe_cost_per_idle_ns {
        let _ = write!(
            words,
            " The probes cost the measured CPU {} per idle entry and exit together.",
            duration(cost)
        );
    }
    if !of.clock.is_empty() {
        let _ = write!(words, " Clock: {}.", of.clock);
    }
    format!("{html}<p>{}</p>", escape(&words))
}

fn counts(view: &View<'_>) -> String {
    let of = &view.input.loaded.description.counts;
    if of.launched == 0 {
        return "<p>The result does not tell how many wake-ups were launched, nor what was dropped.</p>"
            .to_owned();
    }
    let mut table = Table::new(
        "What became of the wake-ups",
        1,
        &[
            ("wake-ups", None),
            ("count", Some(Measured)),
            ("of those launched", Some(Measured)),
        ],
    );
    let mut add = |name: String, number: u64| {
        table.row(&[
            name,
            count(number),
            share(number as f64 / of.launched as f64),
        ]);
    };
    add("launched".to_owned(), of.launched);
    add("kept as datapoints".to_owned(), of.kept);
    for (reason, dropped) in &of.dropped {
        add(format!("dropped: {}", reason.replace('_', " ")), *dropped);
    }
    let mut words = format!("Measured for {}.", duration(of.elapsed_s * 1e9));
    if let Some(possible) = of.possible.filter(|possible| *possible > 0) {
        let _ = write!(
            words,
            " The launch distances allow {} wake-ups in that time; {} of them became datapoints.",
            count(possible),
            share(of.kept as f64 / possible as f64)
        );
    }
    if of.ring_buffer_full > 0 {
        let _ = write!(
            words,
            " {} events found the ring buffer full.",
            count(of.ring_buffer_full)
        );
    }
    format!("{}<p>{}</p>", table.html(), escape(&words))
}
