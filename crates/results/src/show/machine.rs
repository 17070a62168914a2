//! Where and how it was measured: machine, driver's table, settings, characterisation, counts.

use std::fmt::Write as _;

use reveille_kernel::{IdleState, PreWake};
use reveille_show::columns;
use reveille_show::quantity::{count, duration, nanoseconds, share};
use reveille_show::sheet::{Column, EXIT, EXIT_LATENCY, Heading, Section, Table, Unit};

use super::notices::by_probe;
use super::view::Views;
use crate::Description;
use crate::description::{Cost, Counts};
use crate::statistics::Floor;

/// A property of machine or settings, by result.
struct Property {
    name: &'static str,
    values: Vec<Option<String>>,
}

const PROPERTY: &[Column<Property>] = &columns!(|one|
    words "name", "", one.name, "What it is";
);

/// The driver's table.
pub const STATES: &[Column<IdleState>] = &columns!(|state|
    words "name", "state", state.name.as_str(), "The idle state";
    words "description", "description", state.description.clone(), "The driver's description";
    driver(Us) "exit_latency_us", EXIT, state.exit_latency_us,
        EXIT_LATENCY;
    driver(Us) "target_residency_us", "target", state.target_residency_us,
        "The driver's target residency";
    words "disabled", "was", state.disabled.map(|disabled| if disabled { "off" } else { "on" }),
        "On or off when the run started";
);

/// The floor of the method: the same event on a CPU where nothing sleeps.
pub const FLOOR: &[Column<Floor>] = &columns!(|floor|
    words "state", "state", floor.state.as_str(),
        "The poll state, or `awake`: nothing sleeps there";
    words "source", "source", floor.source.as_str(), "What woke the CPU";
    measured(Count) "count", "count", floor.count, "Datapoints";
    measured(Ns) "median_ns", "median", floor.median_ns, "Median latency";
    measured(Ns) "p90_ns", "p90", floor.p90_ns, "90th percentile";
    measured(Ns) "p99_ns", "p99", floor.p99_ns, "99th percentile";
    measured(Ns) "max_ns", "max", floor.max_ns, "Maximum latency";
);

const COSTS: &[Column<(String, Cost)>] = &columns!(|one|
    words "name", "what", one.0.replace('_', " "), "What was tried";
    measured(Count) "count", "tried", one.1.count, "How often";
    measured(Ns) "median_ns", "median", one.1.median_ns, "Median";
    measured(Ns) "mean_ns", "mean", one.1.mean_ns, "Mean";
    measured(Ns) "min_ns", "min", one.1.min_ns, "The least";
    measured(Ns) "max_ns", "max", one.1.max_ns, "The most";
);

/// What became of some wake-ups.
struct LaunchOutcome {
    name: String,
    count: u64,
    share: f64,
}

const LAUNCHES: &[Column<LaunchOutcome>] = &columns!(|one|
    words "name", "wake-ups", one.name.as_str(), "Launched, kept or dropped";
    measured(Count) "count", "count", one.count, "How many";
    measured(Share) "share", "of those launched", one.share, "Their share of the launches";
);

/// All of it, result by result.
pub fn settings(views: &Views<'_>) -> Section<'static> {
    let section = Section::new("setting", "Machine, settings and counts").table(machines(views));
    views.views.iter().fold(section, |section, view| {
        let (who, of) = (view.who(), &view.input.loaded.description);
        let section = states(section, &who, of);
        let section = characterisation(section, &who, of);
        counts(section, &who, &of.counts)
    })
}

/// Properties of machine and settings, with the results side by side.
fn machines(views: &Views<'_>) -> Table {
    let mut properties = Vec::new();
    let mut add = |name, value: &dyn Fn(&Description) -> Option<String>| {
        let values = views.views.iter();
        let values = values.map(|view| value(&view.input.loaded.description));
        let values: Vec<_> = values
            .map(|value| value.filter(|text| !text.is_empty()))
            .collect();
        if values.iter().any(Option::is_some) {
            properties.push(Property { name, values });
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
    add("C-state pre-wake", &|of| {
        Some(match of.machine.c_state_pre_wake.as_ref()? {
            PreWake::On => "on".to_owned(),
            PreWake::Off => "off".to_owned(),
            PreWake::Unknown(why) => format!("unknown: {why}"),
        })
    });
    add("idle driver", &|of| of.driver.clone());
    add("idle governor", &|of| of.governor.clone());
    add("measured by", &|of| Some(of.tool.clone()));
    add("probe", &|of| Some(by_probe(of)));
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
    add("caches", &|of| {
        let cold = of.settings.cold_bytes;
        (cold > 0).then(|| {
            format!(
                "cold: {} KiB read before each idle period",
                count(cold / 1024)
            )
        })
    });
    add("other CPUs offline", &|of| {
        of.settings.offline_others.then(|| "yes".to_owned())
    });
    let table = Table::of("Machine and settings", PROPERTY, &properties);
    views
        .views
        .iter()
        .enumerate()
        .fold(table, |table, (place, view)| {
            let heading = Heading {
                key: "value",
                name: view.title().into(),
                unit: Unit::Words,
                origin: None,
                about: "Of this result",
                detail: false,
            };
            let values = properties.iter();
            table.column(heading, values.map(|one| one.values[place].clone().into()))
        })
}

fn states<'a>(section: Section<'a>, who: &str, of: &Description) -> Section<'a> {
    if of.states.is_empty() {
        return section.text(format!(
            "{who}The result does not hold the driver's table of idle states."
        ));
    }
    let caption = format!("{who}Idle states of the measured CPU");
    section.table(Table::of(caption, STATES, &of.states))
}

fn characterisation<'a>(section: Section<'a>, who: &str, of: &Description) -> Section<'a> {
    let of = &of.characterisation;
    if of.floors.is_empty() && of.costs.is_empty() {
        return section.text(format!(
            "{who}The result holds no characterisation: no floor to compare with, no \
             overhead subtracted."
        ));
    }
    let floors = format!("{who}The floor: the same event on a CPU where nothing sleeps");
    let costs: Vec<(String, Cost)> = of.costs.clone().into_iter().collect();
    let caption = format!("{who}Overhead of the instrument");
    let section = section
        .table(Table::of(floors, FLOOR, &of.floors))
        .table(Table::of(caption, COSTS, &costs));
    let mut words = format!(
        "{who}{} was subtracted from every latency as the instrument's overhead.",
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
    section.text(words)
}

fn counts<'a>(section: Section<'a>, who: &str, of: &Counts) -> Section<'a> {
    if of.launched == 0 {
        return section.text(format!(
            "{who}The result does not hold how many wake-ups were launched, nor what was dropped."
        ));
    }
    let outcome = |name: String, count: u64| LaunchOutcome {
        name,
        count,
        share: count as f64 / of.launched as f64,
    };
    let mut outcomes = vec![
        outcome("launched".to_owned(), of.launched),
        outcome("kept as datapoints".to_owned(), of.kept),
    ];
    let dropped = of.dropped.iter();
    outcomes.extend(dropped.map(|(reason, dropped)| {
        outcome(format!("dropped: {}", reason.replace('_', " ")), *dropped)
    }));
    let caption = format!("{who}Wake-ups launched, kept and dropped");
    let section = section.table(Table::of(caption, LAUNCHES, &outcomes));
    let mut words = format!("{who}Measured for {}.", duration(of.elapsed_s * 1e9));
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
    section.text(words)
}
