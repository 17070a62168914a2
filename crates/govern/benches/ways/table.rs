//! The tables.

use std::fmt::Write as _;
use std::time::Duration;

use reveille_figures::interval;
use reveille_figures::quantile::{MEDIAN, P99};
use reveille_figures::rounds::Estimate;
use reveille_kernel::{Idle, Result};

use crate::Plan;
use crate::load::{BURSTS, PAUSE};
use crate::settings::{Next, Outcome, Programs, QUIET, Setting, Sums};

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
pub fn table(programs: &Programs, results: &[Outcome]) -> Result<String> {
    let mut text = String::from(
        "| setting | after a first packet: chosen, stayed | after the others: chosen, stayed | first answers, \
         median | others, median | others, p99 |\n|---|---|---|---|---|---|\n",
    );
    let mut costs = String::from(
        "\n| setting | at the packet | helper, a burst | timer interrupts, a burst | wake-ups in bursts | awake \
         in bursts: runs, polls | asleep in pauses | in allowed states in pauses |\n|---|---|---|---|---|---|---|---|\n",
    );
    for setting in programs.settings() {
        let (outcome, sums) = (&results[setting as usize], programs.sums(setting)?);
        answers(&mut text, setting, outcome, &sums);
        cost(&mut costs, programs, setting, outcome, &sums);
        if sums.strayed + sums.refused > 0 {
            let (strayed, refused) = (sums.strayed, sums.refused);
            let name = setting.name();
            println!(
                "{name}: {strayed} timers fired on another CPU, {refused} starts were refused"
            );
        }
    }
    Ok(text + &costs)
}

fn answers(text: &mut String, setting: Setting, outcome: &Outcome, sums: &Sums) {
    let us = |ns: f64| format!("{:.1}", ns / 1000.0);
    let over = |figure: &dyn Fn(&mut Vec<u64>) -> Option<f64>, first: bool| {
        let turns = outcome.turns.iter().filter_map(|turn| {
            let mut sample = if first {
                turn.first.clone()
            } else {
                turn.rest.clone()
            };
            sample.sort_unstable();
            figure(&mut sample)
        });
        Estimate::over(turns).map_or("-".into(), |estimate| format!("{} µs", estimate.text(us)))
    };
    let median = |sample: &mut Vec<u64>| MEDIAN.of(sample).map(|ns| ns as f64);
    let p99 = |sample: &mut Vec<u64>| P99.of(sample).map(|ns| ns as f64);
    let _ = writeln!(
        text,
        "| {} | {} | {} | {} | {} | {} |",
        setting.name(),
        shares(&sums.first),
        shares(&sums.rest),
        over(&median, true),
        over(&median, false),
        over(&p99, false),
    );
}

/// Both shares, with the second one's interval.
fn shares(next: &Next) -> String {
    let share = |hits: u64| 100.0 * hits as f64 / next.entries.max(1) as f64;
    let (low, high) = interval::of_share(next.stayed, next.entries.max(1));
    format!(
        "{:.1}%, {:.1}% [{:.1}, {:.1}] of {}",
        share(next.chosen),
        share(next.stayed),
        100.0 * low,
        100.0 * high,
        next.entries
    )
}

fn cost(text: &mut String, programs: &Programs, setting: Setting, outcome: &Outcome, sums: &Sums) {
    let bursts = (outcome.turns.len() as u32 * BURSTS).max(1);
    let burst_time: Duration = outcome.turns.iter().map(|turn| turn.bursts).sum();
    let polling = programs.polling.map_or(usize::MAX, |index| index as usize);
    let asleep = |of: &[u64], wanted: &dyn Fn(usize) -> bool| -> u64 {
        let states = of.iter().enumerate();
        states
            .filter(|&(index, _)| wanted(index))
            .map(|(_, ns)| ns)
            .sum()
    };
    let percent = |part: u64, whole: Duration| 100.0 * part as f64 / whole.as_nanos().max(1) as f64;
    let is_forbidden = |index: usize| programs.forbidden & 1 << index != 0;
    let sleeps = |index: usize| index != polling;
    let helper = match setting {
        Setting::Thread => outcome.thread,
        Setting::Work => Duration::from_nanos(sums.loop_ns),
        _ => Duration::ZERO,
    } / bursts;
    let idle_ns: u64 = sums.burst_ns.iter().sum();
    let _ = writeln!(
        text,
        "| {} | {} ns | {:.1} µs, {:.1} times | {:.1} | {:.0} | {:.1}%, {:.1}% | {:.1}% | {:.1}% |",
        setting.name(),
        outcome.packet.own_ns / outcome.packet.runs.max(1),
        helper.as_nanos() as f64 / 1000.0,
        (sums.rung + sums.fired + sums.looped) as f64 / f64::from(bursts),
        outcome.timer_interrupts as f64 / f64::from(bursts),
        asleep(&sums.entries, &sleeps) as f64 / f64::from(bursts),
        100.0 - percent(idle_ns, burst_time),
        percent(
            asleep(&sums.burst_ns, &|index| index == polling),
            burst_time
        ),
        percent(asleep(&sums.pause_ns, &is_forbidden), PAUSE * bursts),
        percent(
            asleep(&sums.pause_ns, &|index| sleeps(index)
                && !is_forbidden(index)),
            PAUSE * bursts
        ),
    );
}
