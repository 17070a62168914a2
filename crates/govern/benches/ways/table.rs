//! The tables.

use std::fmt::Write as _;
use std::time::Duration;

use reveille_figures::interval;
use reveille_figures::quantile::{MEDIAN, P99, Share};
use reveille_figures::rounds::Estimate;
use reveille_kernel::Idle;

use crate::Plan;
use crate::load::{BURSTS, PAUSE};
use crate::programs::{Next, Programs, QUIET};
use crate::turn::{Setting, Turn};

/// What the figures are of.
pub fn heading(plan: &Plan, idle: &Idle, programs: &Programs) -> String {
    let states = idle.cpu(plan.cpu).map_or(&[][..], |cpu| &cpu.states);
    let forbidden = states
        .iter()
        .filter(|state| programs.forbidden & 1 << state.index != 0);
    let forbidden: Vec<&str> = forbidden.map(|state| state.name.as_str()).collect();
    format!(
        "driver {}, governor {}; CPU {} serves, CPU {} asks; a bound of {} µs forbids {}; quiet after {:?}; \
         B's period {:?}, {}\n",
        idle.driver.as_deref().unwrap_or("-"),
        idle.governor.as_deref().unwrap_or("-"),
        plan.cpu,
        plan.client,
        plan.bound_us,
        forbidden.join(" "),
        QUIET,
        programs.period,
        match programs.pins {
            true => "pinned by its flag",
            false => "pinned by kernel.timer_migration=0",
        },
    )
}

/// Both tables: what comes after packets and how long answers take; and what it costs.
pub fn table(programs: &Programs, results: &[(Setting, Vec<Turn>)]) -> String {
    let mut text = String::from(
        "| setting | after a first packet: chosen, stayed | after the others: chosen, stayed | first answers, \
         median | others, median | others, p99 |\n|---|---|---|---|---|---|\n",
    );
    let mut costs = String::from(
        "\n| setting | at the packet | helper in a burst | starts | timer interrupts | wake-ups in a burst \
         | runs in bursts | polls in bursts | asleep in pauses | allowed sleep in pauses | turns \
         |\n|---|---|---|---|---|---|---|---|---|---|---|\n",
    );
    for (setting, turns) in results {
        answers(&mut text, *setting, turns);
        cost(&mut costs, programs, *setting, turns);
        let strayed: u64 = turns.iter().map(|turn| turn.sums.strayed).sum();
        let refused: u64 = turns.iter().map(|turn| turn.sums.refused).sum();
        if strayed + refused > 0 {
            let name = setting.name();
            println!(
                "{name}: {strayed} timers fired on another CPU, {refused} starts were refused"
            );
        }
    }
    text + &costs
}

/// A figure of each turn: the median over turns, and its interval.
fn over(turns: &[Turn], figure: impl Fn(&Turn) -> Option<f64>, digits: usize) -> String {
    let estimate = Estimate::over(turns.iter().filter_map(figure));
    estimate.map_or("-".into(), |estimate| {
        estimate.text(|figure| format!("{figure:.digits$}"))
    })
}

fn quantile_us(sample: &[u64], share: Share) -> Option<f64> {
    let mut sample = sample.to_vec();
    sample.sort_unstable();
    share.of(&sample).map(|ns| ns as f64 / 1000.0)
}

fn answers(text: &mut String, setting: Setting, turns: &[Turn]) {
    let _ = writeln!(
        text,
        "| {} | {} | {} | {} µs | {} µs | {} µs |",
        setting.name(),
        shares(turns, |turn| &turn.sums.first),
        shares(turns, |turn| &turn.sums.rest),
        over(turns, |turn| quantile_us(&turn.answers.first, MEDIAN), 1),
        over(turns, |turn| quantile_us(&turn.answers.rest, MEDIAN), 1),
        over(turns, |turn| quantile_us(&turn.answers.rest, P99), 1),
    );
}

/// Both shares over all turns, and the second one's interval.
fn shares(turns: &[Turn], of: impl Fn(&Turn) -> &Next) -> String {
    let sum = |number: fn(&Next) -> u64| turns.iter().map(|turn| number(of(turn))).sum::<u64>();
    let (entries, chosen, stayed) = (
        sum(|next| next.entries),
        sum(|next| next.chosen),
        sum(|next| next.stayed),
    );
    if entries == 0 {
        return "- of 0".into();
    }
    let share = |hits: u64| 100.0 * hits as f64 / entries as f64;
    let (low, high) = interval::of_share(stayed, entries);
    format!(
        "{:.1}%, {:.1}% [{:.1}, {:.1}] of {entries}",
        share(chosen),
        share(stayed),
        100.0 * low,
        100.0 * high,
    )
}

fn cost(text: &mut String, programs: &Programs, setting: Setting, turns: &[Turn]) {
    let polling = programs.polling.map_or(usize::MAX, |index| index as usize);
    let sum = |of: &[u64], wanted: &dyn Fn(usize) -> bool| -> f64 {
        let states = of.iter().enumerate();
        let wanted = states.filter(|&(index, _)| wanted(index));
        wanted.map(|(_, &number)| number as f64).sum()
    };
    let polls = |index: usize| index == polling;
    let is_forbidden = |index: usize| programs.forbidden & 1 << index != 0;
    let is_allowed = |index: usize| !polls(index) && !is_forbidden(index);
    let a_burst = f64::from(BURSTS);
    let percent = |part: f64, whole: Duration| Some(100.0 * part / whole.as_nanos() as f64);
    let helper = |turn: &Turn| match setting {
        Setting::Thread | Setting::IdleClass => turn.thread.as_nanos() as f64,
        _ => turn.sums.loop_ns as f64,
    };
    let starts = |turn: &Turn| turn.sums.rung + turn.sums.fired + turn.sums.looped;
    let bursts = |turn: &Turn| turn.answers.bursts;
    let pauses = PAUSE * BURSTS;
    let figures = [
        over(turns, |turn| Some(turn.packet_ns), 0) + " ns",
        over(turns, |turn| Some(helper(turn) / a_burst / 1000.0), 1) + " µs",
        over(turns, |turn| Some(starts(turn) as f64 / a_burst), 1),
        over(
            turns,
            |turn| Some(turn.timer_interrupts as f64 / a_burst),
            0,
        ),
        over(
            turns,
            |turn| Some(sum(&turn.sums.entries, &|index| !polls(index)) / a_burst),
            0,
        ),
        over(
            turns,
            |turn| {
                percent(sum(&turn.sums.burst_ns, &|_| true), bursts(turn)).map(|idle| 100.0 - idle)
            },
            1,
        ) + "%",
        over(
            turns,
            |turn| percent(sum(&turn.sums.burst_ns, &polls), bursts(turn)),
            1,
        ) + "%",
        over(
            turns,
            |turn| percent(sum(&turn.sums.pause_ns, &is_forbidden), pauses),
            1,
        ) + "%",
        over(
            turns,
            |turn| percent(sum(&turn.sums.pause_ns, &is_allowed), pauses),
            1,
        ) + "%",
        turns.len().to_string(),
    ];
    let _ = writeln!(text, "| {} | {} |", setting.name(), figures.join(" | "));
}
