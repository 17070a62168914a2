//! The names, units and sentences of `cost`'s figures.

mod distributions;

use reveille_figures::rounds::Estimate;
use reveille_kernel::driver_and_governor;
use reveille_results::description;
use reveille_show::chart::Bars;
use reveille_show::chart::bars::{Part, Row};
use reveille_show::columns;
use reveille_show::quantity::{counted, duration, share};
use reveille_show::sheet::{
    Column, EXIT, EXIT_LATENCY, Heading, Section, Sheet, Table, Unit, Value,
};
use reveille_show::text::alone;

use super::result::{
    Cost, CpuCost, Ended, Forbidding, InterruptCost, PairCost, Replacement, StateCost,
};

/// A loss below this share of the time is not worth a setting.
const WORTH: f64 = 0.001;

/// From this share of the loss on, one thread's loss is reported as the workload's.
const ALONE: f64 = 0.95;

/// The most bars of pairs; the table has all of them.
const MOST_BARS: usize = 12;

const FOOT: &str = "Waits are summed over threads, which may wait at the same time. The loss is the \
                    time that CPUs took to leave idle states, without interrupt, scheduler and \
                    queueing. If the instant of an event is unknown, nothing is counted; estimates \
                    are labelled.";

const STATES: &[Column<StateCost>] = &columns!(|state|
    words "state", "CPU was", state.state.as_str(),
        "State of the CPU when the wait began: an idle state, `awake`, or `busy` with another task";
    driver(Us) "driver_exit_latency_us", EXIT, state.driver_exit_latency_us,
        EXIT_LATENCY;
    measured(Ns) "mean_stay_ns", "stay", state.mean_stay_ns,
        "Mean stay in the state, from its entry to the event that ended it";
    measured(Count) "waits", "waits", state.waits,
        "Waits for a CPU in this state; a wake-up may wait for two: the one that takes the \
         interrupt and the one that runs the task";
    measured(Ns) "leaving_ns", "lost", sleeps(state, state.waited.leaving_ns),
        "Time CPUs took to leave the state, over all waits";
    measured(Ns) "mean_leaving_ns", "mean", against_exit(state, state.mean_leaving_ns),
        "Mean time to leave the state, over waits of known instant";
    measured(Ns) "median_leaving_ns", "median", against_exit(state, state.median_leaving_ns),
        "Median time to leave the state; like the other quantiles unknown with fewer than ten \
         waits beyond it";
    measured(Ns) detail "p90_leaving_ns", "p90", against_exit(state, state.p90_leaving_ns),
        "90th percentile of the time to leave the state";
    measured(Ns) "p99_leaving_ns", "p99", against_exit(state, state.p99_leaving_ns),
        "99th percentile of the time to leave the state";
    measured(Ns) "longest_leaving_ns", "max",
        against_exit(state, sleeps(state, state.waited.longest_leaving_ns)),
        "Maximum time to leave the state";
    measured(Ns) "scheduling_ns", "sched", state.waited.scheduling_ns,
        "Time in interrupt and scheduler on a CPU that was awake by then, over all waits";
    measured(Ns) "queueing_ns", "queue", state.waited.queueing_ns,
        "Time behind other tasks, over all waits";
);

/// A time to leave the state, against the driver's exit latency.
fn against_exit(state: &StateCost, ns: impl Into<Value>) -> Value {
    let exit = state.driver_exit_latency_us.filter(|us| *us > 0);
    ns.into().within(exit.map(|us| us as f64 * 1e3))
}

/// `busy` and `awake` are not left.
fn sleeps(state: &StateCost, ns: u64) -> Value {
    state.mean_leaving_ns.map(|_| ns).into()
}

/// A sum or a maximum over waits, some for a sleeping CPU: of these each takes some time, so with none the
/// instant of every one is unknown.
fn lost_by(asleep: u64, ns: u64) -> Option<u64> {
    (asleep == 0 || ns > 0).then_some(ns)
}

fn waker(pair: &PairCost) -> String {
    match pair.by_interrupt {
        true => format!("[{}]", pair.waker),
        false => pair.waker.clone(),
    }
}

const PAIRS: &[Column<PairCost>] = &columns!(|pair|
    words "waker", "woken by", waker(pair),
        "The waking thread's name, or the interrupt in brackets";
    words "wakee", "task", pair.wakee.as_str(), "The woken threads' name";
    measured(Count) "wakeups", "wake-ups", pair.wakeups, "Wake-ups of this pair";
    measured(Count) "asleep", "asleep", pair.asleep,
        "Of these, those that met a CPU in an idle state other than polling";
    measured(Ns) "leaving_ns", "lost", lost_by(pair.asleep, pair.waited.leaving_ns),
        "Time CPUs took to leave idle states, over all wake-ups of this pair";
    measured(Ns) "scheduling_ns", "sched", pair.waited.scheduling_ns,
        "Time in interrupt and scheduler, over all wake-ups of this pair";
    measured(Ns) "queueing_ns", "queue", pair.waited.queueing_ns,
        "Time behind other tasks, over all wake-ups of this pair";
    measured(Ns) detail "longest_leaving_ns", "max",
        lost_by(pair.asleep, pair.waited.longest_leaving_ns),
        "Maximum time to leave an idle state";
);

const INTERRUPTS: &[Column<InterruptCost>] = &columns!(|one|
    words "interrupt", "interrupt", one.interrupt.as_str(), "`timer`, `another CPU`, or the device";
    measured(Count) "wakeups", "wake-ups", one.wakeups, "Wake-ups by this interrupt";
    measured(Count) "asleep", "asleep", one.asleep,
        "Of these, those that met a CPU in an idle state other than polling";
    measured(Ns) "leaving_ns", "lost", lost_by(one.asleep, one.waited.leaving_ns),
        "Time CPUs took to leave idle states, over these wake-ups";
    measured(Ns) "longest_leaving_ns", "max",
        lost_by(one.asleep, one.waited.longest_leaving_ns),
        "Maximum time to leave an idle state";
);

const CPUS: &[Column<CpuCost>] = &columns!(|cpu|
    words "cpu", "CPU", cpu.cpu.to_string(), "The CPU's number";
    measured(Count) "waits", "waits", cpu.waits, "Waits for this CPU";
    measured(Count) "asleep", "asleep", cpu.asleep,
        "Of these, those that met it in an idle state other than polling";
    measured(Ns) "leaving_ns", "lost", lost_by(cpu.asleep, cpu.waited.leaving_ns),
        "Time this CPU took to leave idle states, over all waits";
    measured(Ns) "longest_leaving_ns", "max",
        lost_by(cpu.asleep, cpu.waited.longest_leaving_ns),
        "Maximum time to leave an idle state";
    measured(Ns) detail "scheduling_ns", "sched", cpu.waited.scheduling_ns,
        "Time in interrupt and scheduler, over all waits";
    measured(Ns) detail "queueing_ns", "queue", cpu.waited.queueing_ns,
        "Time behind other tasks, over all waits";
);

fn replacement(by: Replacement) -> &'static str {
    match by {
        Replacement::Seen => "mean observed wait",
        Replacement::Driver => "the driver's exit latency",
        Replacement::Nothing => "no wait",
    }
}

const FORBIDDING: &[Column<Forbidding>] = &columns!(|one|
    words "deepest_allowed", "deepest allowed",
        one.deepest_allowed.as_deref().unwrap_or("no sleep"),
        "The deepest allowed idle state; `no sleep`: none";
    words "replaced_by", "replacement", replacement(one.replaced_by),
        "What replaces each wait for a CPU in a forbidden state";
    estimated(Ns) "saved_ns", "would save", one.saved_ns, "Time saved, over all waits";
    estimated(Ns) "saved_low_ns", "95% from", one.saved_low_ns, "Lower end of its 95% interval";
    estimated(Ns) "saved_high_ns", "to", one.saved_high_ns, "Upper end of its 95% interval";
);

/// The columns of every table, by the list of its rows in `cost.json`.
pub fn reference() -> Vec<(&'static str, Vec<Heading>)> {
    vec![
        ("by_state[]", Column::headings(STATES)),
        ("by_pair[]", Column::headings(PAIRS)),
        ("by_interrupt[]", Column::headings(INTERRUPTS)),
        ("by_cpu[]", Column::headings(CPUS)),
        ("forbidding[]", Column::headings(FORBIDDING)),
    ]
}

/// The result as a sheet.
pub fn sheet(cost: &Cost) -> Sheet<'_> {
    let mut about = vec![counted(cost.wakeups, "wake-up"), time(cost.elapsed_ns)];
    about.extend(cost.subject.machine.words());
    about.extend([cost.subject.started.clone(), cost.subject.tool.clone()]);
    let mut sheet = Sheet {
        title: format!("Cost of waking: {}", cost.subject.workload),
        about: vec![about.join(" · ")],
        answer: answer(cost),
        foot: FOOT,
        ..Sheet::default()
    };
    facts(cost, &mut sheet);
    sheet.notes = cost.by_state.iter().filter_map(unknown).collect();
    sheet.notes.extend(cost.notes.iter().cloned());
    if cost.wakeups == 0 {
        return sheet;
    }
    let states = Table::of("Waits by idle state", STATES, &cost.by_state);
    sheet.section(Section::new("states", "By idle state").table(states));
    if let Some(chart) = distributions::Chart::of(cost) {
        let section = Section::new(
            "distributions",
            "Exceedance of the time to leave idle states",
        );
        sheet.section(section.chart(move || chart.html()));
    }
    let pairs = Table::of("Wake-ups by waker and task", PAIRS, &cost.by_pair).first(5);
    sheet.section(
        Section::new("pairs", "By waker and task")
            .bars(bars(cost))
            .table(pairs),
    );
    let interrupts = Table::of("Wake-ups by interrupt", INTERRUPTS, &cost.by_interrupt);
    let section = Section::new("interrupts", "By interrupt").detail();
    sheet.section(section.table(interrupts));
    let mut cpus: Vec<&CpuCost> = cost.by_cpu.iter().collect();
    cpus.sort_by_key(|cpu| std::cmp::Reverse((cpu.waited.leaving_ns, cpu.waits)));
    let cpus = Table::of("Waits by CPU", CPUS, cpus);
    sheet.section(Section::new("cpus", "By CPU").detail().table(cpus));
    let table = Table::of("Deeper idle states forbidden", FORBIDDING, &cost.forbidding);
    let heading = "Savings by forbidding idle states";
    sheet.section(Section::new("forbidding", heading).table(table));
    sheet
}

fn facts(cost: &Cost, sheet: &mut Sheet<'_>) {
    let elapsed = time(cost.elapsed_ns);
    sheet.fact("Followed", format!("{}, {elapsed}", cost.subject.workload));
    if cost.subject.ended == Ended::Interrupted {
        sheet.fact("Ended", description::Ended::INTERRUPTED);
    }
    let (driver, governor) = (&cost.subject.driver, &cost.subject.governor);
    sheet.detail(
        "Idle",
        driver_and_governor(driver.as_deref(), governor.as_deref()),
    );
    let mut wakeups = format!(
        "{}, {} met a sleeping CPU",
        cost.wakeups, cost.met_sleeping_cpu
    );
    if cost.met_polling_cpu > 0 {
        wakeups += &format!(", {} a polling one", cost.met_polling_cpu);
    }
    sheet.fact("Wake-ups", wakeups);
    let waited = &cost.waited;
    let lost = lost_by(cost.met_sleeping_cpu, waited.leaving_ns);
    if let Some((lost, of_time)) = lost.zip(cost.lost_share) {
        let (lost, of_time) = (time(lost), share(of_time));
        sheet.fact(
            "Lost",
            format!("{lost} waiting for CPUs to leave idle states, {of_time} of the time"),
        );
    }
    let (scheduling, queueing) = (time(waited.scheduling_ns), time(waited.queueing_ns));
    sheet.fact(
        "Other",
        format!("{scheduling} in interrupt and scheduler, {queueing} queueing behind others"),
    );
    let overhead = &cost.overhead;
    if let (Some(ns), Some(of_time)) = (overhead.per_wakeup_ns, overhead.share_of_cpu_time) {
        sheet.detail(
            "Cost",
            format!(
                "{} for each of {} wake-ups on the machine, {} of CPU time",
                duration(ns),
                overhead.machine_wakeups,
                share(of_time)
            ),
        );
    }
}

/// A note on waits of unknown instant.
fn unknown(state: &StateCost) -> Option<String> {
    let waits = state.unknown_waits;
    (waits > 0).then(|| {
        let estimate = match &state.estimate {
            Some(estimate) => format!(
                "Estimate: {}, by the {}.",
                time(estimate.leaving_ns),
                estimate.by
            ),
            None => "For an estimate, use --result.".to_owned(),
        };
        format!(
            "The event's instant is unknown for {} for CPUs in {} (a device's interrupt); the loss \
             does not include them. {estimate}",
            counted(waits, "wait"),
            state.state
        )
    })
}

/// The pairs that waited longest.
fn bars(cost: &Cost) -> Bars {
    let part = |name: &str, letter| Part {
        name: name.to_owned(),
        letter,
        is_estimate: false,
    };
    let row = |pair: &PairCost| {
        let waited = &pair.waited;
        let lengths = [waited.leaving_ns, waited.scheduling_ns, waited.queueing_ns];
        Row {
            name: format!("{} → {}", pair.waker, pair.wakee),
            lengths: lengths.iter().map(|ns| *ns as f64).enumerate().collect(),
            total_ns: lengths.iter().sum::<u64>() as f64,
        }
    };
    let mut rows: Vec<Row> = cost.by_pair.iter().map(row).collect();
    rows.sort_by(|a, b| b.total_ns.total_cmp(&a.total_ns));
    rows.truncate(MOST_BARS);
    Bars {
        label: "Waiting time by waker and task".to_owned(),
        axis: "total waiting time",
        parts: vec![
            part("leaving the idle state", 'l'),
            part("interrupt and scheduler", 's'),
            part("queueing behind others", 'q'),
        ],
        rows,
        on_terminals: false,
    }
}

/// Why a workload has no wake-up.
const NO_WAKEUP: &str = "ran without a pause, or not at all";

/// The error if no wake-up was seen.
pub fn nothing(cost: &Cost) -> String {
    format!("no wake-up was seen: {} {NO_WAKEUP}", cost.subject.workload)
}

/// The notice on files of wakers that could not be opened.
pub fn unopened(files: usize) -> String {
    format!(
        "--stacks: files that wakers had mapped and that could not be opened: {files}; their \
         functions are called by the file"
    )
}

/// The conclusion, in a few sentences.
pub(super) fn answer(cost: &Cost) -> String {
    if cost.wakeups == 0 {
        return format!(
            "The workload had no wake-up in {}: it {NO_WAKEUP}.",
            time(cost.elapsed_ns)
        );
    }
    let sleeping = cost.by_state.iter().filter(|state| !state.polling);
    let worst = sleeping.max_by_key(|state| state.waited.leaving_ns);
    let Some(worst) = worst.filter(|state| state.waited.leaving_ns > 0) else {
        return match cost.met_sleeping_cpu {
            0 => "No wake-up met a sleeping CPU: nothing was lost.",
            _ => "No wait for a sleeping CPU has a known length: the loss is unknown.",
        }
        .to_owned();
    };
    let lost = lost(cost, &worst.state, worst.waited.leaving_ns);
    let queued = queued(cost);
    if cost.lost_share.is_some_and(|share| share < WORTH) {
        return format!("{lost}: less than 0.1% of the time, and not worth a setting.{queued}");
    }
    let of_worst = |one: &&Forbidding| one.forbidden.first() == Some(&worst.state);
    let by_forbidding = match cost.forbidding.iter().find(of_worst) {
        Some(forbidding) if forbidding.saved_low_ns > 0 => saving(cost, forbidding),
        Some(forbidding) if forbidding.saved_ns > 0 => {
            "by these waits, forbidding it is not shown to save anything.".to_owned()
        }
        Some(_) => "by these waits, forbidding it would save nothing.".to_owned(),
        None => "too few waits are known to estimate the saving by forbidding it.".to_owned(),
    };
    format!("{lost}; {by_forbidding}{queued}")
}

/// What takes longer than leaving idle states.
fn queued(cost: &Cost) -> String {
    let queueing_ns = cost.waited.queueing_ns;
    match queueing_ns > cost.waited.leaving_ns {
        true => format!(
            " Queueing behind other threads took {}, which no idle setting shortens.",
            time(queueing_ns)
        ),
        false => String::new(),
    }
}

fn lost(cost: &Cost, state: &str, leaving_ns: u64) -> String {
    let (elapsed, leaving) = (time(cost.elapsed_ns), time(leaving_ns));
    let most = cost.most_delayed_thread.as_ref();
    let alone = most.filter(|most| most.leaving_ns as f64 >= ALONE * cost.waited.leaving_ns as f64);
    match (alone, most) {
        (None, Some(most)) => format!(
            "Waits for CPUs in {state} add up to {leaving} over all threads in {elapsed}, and the \
             thread that lost most, {} ({}), lost {}",
            most.name,
            most.pid,
            time(most.leaving_ns)
        ),
        _ => format!("{leaving} of {elapsed} were waits for CPUs in {state}"),
    }
}

/// The setting, its effect and its price.
fn saving(cost: &Cost, forbidding: &Forbidding) -> String {
    let (driver, governor) = (&cost.subject.driver, cost.subject.governor.as_deref());
    // What honours no bound but 0, or none, can only be kept from sleeping at all.
    let honours_bounds = driver.is_some() && governor.is_some_and(|name| name != "haltpoll");
    let left = forbidding.deepest_allowed.as_ref();
    let left = left.filter(|_| honours_bounds && forbidding.latency_bound_us > 0);
    let (bound, then) = match left {
        Some(left) => (
            format!("{}us", forbidding.latency_bound_us),
            format!("sleep no deeper than {left}"),
        ),
        None => ("0".to_owned(), "never sleep".to_owned()),
    };
    let saved = Estimate {
        estimate: forbidding.saved_ns as f64,
        interval: Some((
            forbidding.saved_low_ns as f64,
            forbidding.saved_high_ns as f64,
        )),
        rounds: 0,
    };
    let saved = alone(Unit::Ns, &(&saved).into()).unwrap_or_default();
    format!(
        "`reveille hold --latency {bound}` would save {saved}. Its price: CPUs then {then}; what that \
         takes was not measured (`reveille trial`)."
    )
}

fn time(ns: u64) -> String {
    duration(ns as f64)
}
