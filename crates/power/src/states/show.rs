//! What idle states save, for people.

use std::fmt::Write as _;

use reveille_show::axis::Axis;
use reveille_show::chart::{self, Frame, Quantity, colour, legend};
use reveille_show::columns;
use reveille_show::quantity::duration;
use reveille_show::sheet::{Column, Heading, Section, Sheet, Table, Value};
use reveille_trial::show::compared;

use super::fit::BreakEven;
use super::result::{State, States};

const FOOT: &str = "Only one state is allowed at a time; CPUs wake at several rates, in shuffled order, round by round. In \
                    each round the power is a line over the entries: its start is the power in the state, its slope the \
                    energy of an entry. Break-even against the next shallower state: the number of CPUs, times what an \
                    entry costs more, by what the state saves: the ratio of the means over rounds, with Fieller's 95% \
                    interval. Other figures are medians over rounds with the sign test's interval. Both need six rounds.";

const STATES: &[Column<State>] = &columns!(|one|
    words "name", "state", one.name.as_str(), "The driver's name of the state";
    measured(Of("W")) "power_w", "power [95%]", one.power_w.as_ref().map_or(Value::Unknown, Value::from),
        "Power while all CPUs stay in it, with its 95% interval";
    estimated(Of("W")) "saves_w", "saves [95%]", one.saves_w.as_ref().map_or(Value::Unknown, Value::from),
        "How much less than in the next shallower state, with its 95% interval";
    measured(Of("µJ")) "entry_uj", "an entry [95%]", one.entry_uj.as_ref().map_or(Value::Unknown, Value::from),
        "Energy of an entry and the way back, with its 95% interval";
    words "break_even", "break-even [95%]", one.break_even.as_ref().map(words),
        "From which stay on it takes less than the next shallower state; `not below` where the interval is open, `at most` where it begins at \
         0";
    driver(Us) "target_residency_us", "target", one.target_residency_us, "The driver's target residency";
    measured(Count) detail "dropped", "dropped", one.dropped,
        "Turns that do not count, for too many entries went to other states";
);

/// `500 µs [450 µs, 560 µs]`, or the bound that the data carry. No stay is shorter than none: where that is not
/// excluded, the entry is not shown to cost anything.
pub fn words(one: &BreakEven) -> String {
    let time = |us: f64| duration(us * 1e3);
    match (one.carried(), one.estimate_us, one.low_us) {
        (Some(all), ..) => match all.interval {
            Some((_, high)) if high <= 0.0 => "any length".to_owned(),
            Some((low, high)) if low <= 0.0 => format!("at most {}", time(high)),
            _ => all.text(time),
        },
        (None, _, Some(low_us)) => format!("not below {}", time(low_us)),
        (None, Some(us), None) => format!("about {}, without an interval", time(us)),
        (None, None, None) => "unknown: it is not shown to save power".to_owned(),
    }
}

/// The columns of the table, by the list of its rows in `power-states.json`.
pub fn reference() -> Vec<(&'static str, Vec<Heading>)> {
    vec![("idle_states[]", Column::headings(STATES))]
}

/// The result for every medium.
pub fn sheet(states: &States) -> Sheet<'_> {
    let mut sheet = compared::sheet(
        "Power of idle states",
        &reveille_meter::show::words(&states.meter),
        &states.about,
    );
    sheet.answer = answer(states);
    sheet.fact("Meter", reveille_meter::show::words(&states.meter));
    let [dwell, settle] = [states.dwell_s, states.settle_s].map(|s| duration(s * 1e9));
    let rounds = format!(
        "{} in shuffled order, seed {}; {dwell} each after {settle} of warm-up; {} CPUs are woken",
        states.rounds, states.seed, states.cpus
    );
    sheet.fact("Rounds", rounds);
    sheet.notes.extend(states.notes.iter().cloned());
    sheet.foot = FOOT;
    let chart = Section::new("chart", "Power by entries").leading();
    sheet.section(chart.chart(|| drawn(states)));
    let table = Table::of("Idle states", STATES, &states.idle_states).whole();
    sheet.section(Section::new("states", "Idle states").table(table));
    sheet
}

/// `C6 pays from stays of 510 µs [480, 550] on, against C1; the driver says 600 µs.`
fn answer(states: &States) -> String {
    let sentence = |state: &State| {
        let (name, shallower) = (&state.name, state.shallower.as_ref()?);
        let even = state.break_even.as_ref()?;
        let driver = state
            .target_residency_us
            .map(|us| duration(us as f64 * 1e3));
        let driver = driver.map_or(String::new(), |us| {
            format!("; the driver's target residency is {us}")
        });
        Some(match even.carried() {
            Some(_) => {
                format!(
                    "{name} pays from stays of {} on, against {shallower}{driver}.",
                    words(even)
                )
            }
            None => format!(
                "{name}'s break-even against {shallower} is {}{driver}.",
                words(even)
            ),
        })
    };
    let sentences: Vec<String> = states.idle_states.iter().filter_map(sentence).collect();
    match sentences.is_empty() {
        true => "No two states could be compared.".to_owned(),
        false => sentences.join(" "),
    }
}

fn drawn(states: &States) -> String {
    const TITLE: &str = "Power by entries to the state";
    let turns = &states.turns;
    let most =
        |figure: &dyn Fn(&super::result::Turn) -> f64| turns.iter().map(figure).fold(0.0, f64::max);
    if turns.is_empty() {
        return chart::not_drawn(TITLE, "no round was complete");
    }
    let frame = Frame {
        x: Axis::from_zero(most(&|turn| turn.entries_per_s)),
        y: Axis::from_zero(most(&|turn| turn.power_w)),
        x_name: "entries/s, all CPUs together",
        y_name: "power",
        x_quantity: Quantity::Number,
        y_quantity: Quantity::Watts,
    };
    let svg = frame.svg(
        "Power by entries, the turns of each state as dots and its line",
        "",
        |svg| {
            for (place, state) in states.idle_states.iter().enumerate() {
                let class = colour(place);
                let _ = write!(svg, "<g class=\"rounds {class}\">");
                for turn in turns.iter().filter(|turn| turn.state == state.name) {
                    let (x, y) = (frame.x(turn.entries_per_s), frame.y(turn.power_w));
                    let _ = write!(svg, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"2\"/>");
                }
                svg.push_str("</g>");
                if let (Some(power), Some(entry)) = (&state.power_w, &state.entry_uj) {
                    let at = |rate: f64| frame.y(power.estimate + entry.estimate * 1e-6 * rate);
                    let (from, to) = (frame.x(0.0), frame.x(frame.x.max));
                    let _ = write!(
                        svg,
                        "<path class=\"curve {class}\" d=\"M{from:.1} {:.1}L{to:.1} {:.1}\"/>",
                        at(0.0),
                        at(frame.x.max)
                    );
                }
            }
        },
    );
    let keys = states.idle_states.iter().enumerate();
    let keys = legend(keys.map(|(place, state)| (colour(place), state.name.as_str())));
    let explained = "Dots are turns. A line begins at the power in the state and rises with the energy of an entry; lines \
                     cross at the break-even.";
    chart::figure(TITLE, &format!("{svg}{keys}"), explained)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;
    use std::time::Duration;

    use reveille_kernel::{Identity, IdleState, Root};
    use reveille_meter::{About as Meter, Counts, Scope, Watched};
    use reveille_results::description::Ended;
    use reveille_results::kept::About;
    use reveille_show::sheet::not_in_json;
    use reveille_trial::setting::Machine;

    use super::super::result::{Ran, SCHEMA_VERSION};
    use super::super::run::{Wakes, Woken};
    use super::super::{Options, RATES, run};
    use super::*;
    use crate::Result;
    use crate::dwell::Times;

    /// Each state's power, W, and the energy of an entry, J; four CPUs, and noise of 5% of each of 30 readings.
    const TRUE: [(&str, f64, f64); 4] = [
        ("C0a", 60.0, 0.0005),
        ("C1", 40.0, 0.0010),
        ("C1E", 30.0, 0.0020),
        ("C6", 12.0, 0.0080),
    ];

    const CPUS: usize = 4;

    struct Simulated {
        random: fastrand::Rng,
        /// Of entries to C1E.
        share_percent: f64,
    }

    impl Wakes for Simulated {
        fn wake(&mut self, state: &str, rate_per_s: f64, _: &AtomicBool) -> Result<Option<Woken>> {
            let (_, power_w, entry_j) = TRUE.into_iter().find(|one| one.0 == state).unwrap();
            let entries_per_s = CPUS as f64 * rate_per_s + self.random.f64() * 20.0;
            let true_w = power_w + entry_j * entries_per_s;
            let mut noise = || 1.0 + 0.05 * 3_f64.sqrt() * (2.0 * self.random.f64() - 1.0);
            let sum: f64 = (0..30).map(|_| true_w * noise()).sum();
            let share_percent = if state == "C1E" {
                self.share_percent
            } else {
                99.0
            };
            Ok(Some(Woken {
                power_w: sum / 30.0,
                entries_per_s,
                share_percent,
            }))
        }
    }

    fn simulated(rounds: u32, share_percent: f64) -> States {
        // Its states are none of this machine's: nothing is limited.
        let mut machine = Machine::read(Root::default()).unwrap();
        let folder = tempfile::tempdir().unwrap();
        machine.root = Root::at(folder.path());
        machine.journal_folder = folder.path().join("journal");
        let state = |(index, one): (usize, &(&str, f64, f64))| IdleState {
            index: index as u32,
            name: one.0.to_owned(),
            description: None,
            exit_latency_us: Some(index as u64),
            target_residency_us: Some(100 * index as u64),
            disabled: Some(false),
            enabled_by_default: None,
            usage: None,
            time_us: None,
            rejected: None,
            above: None,
            below: None,
        };
        let states: Vec<IdleState> = TRUE.iter().enumerate().map(state).collect();
        let cpus = folder.path().join("sys/devices/system/cpu");
        for (index, state) in states.iter().enumerate() {
            let folder = cpus.join(format!("cpu0/cpuidle/state{index}"));
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(folder.join("name"), &state.name).unwrap();
            std::fs::write(folder.join("disable"), "0").unwrap();
        }
        std::fs::write(cpus.join("present"), "0").unwrap();
        std::fs::write(cpus.join("online"), "0").unwrap();
        let machine = Machine {
            idle: reveille_kernel::Idle::read(&machine.root).unwrap(),
            ..machine
        };
        let names: Vec<String> = states.iter().map(|state| state.name.clone()).collect();
        let times = Times {
            dwell: Duration::from_secs(30),
            settle: Duration::from_secs(1),
            refresh: Duration::from_secs(1),
        };
        let options = Options {
            rounds,
            rates_per_s: RATES.to_vec(),
            seed: 1,
        };
        let mut wakes = Simulated {
            random: fastrand::Rng::with_seed(11),
            share_percent,
        };
        let stop = AtomicBool::new(false);
        let (turns, ended) = run(
            &machine,
            &mut wakes,
            &names,
            &options,
            &times,
            &stop,
            &mut |_| (),
        )
        .unwrap();
        assert_eq!(ended, Ended::Completed);
        for index in 0..states.len() {
            let file = cpus.join(format!("cpu0/cpuidle/state{index}/disable"));
            assert_eq!(
                std::fs::read_to_string(file).unwrap().trim(),
                "0",
                "restored"
            );
        }
        let about = About {
            schema_version: SCHEMA_VERSION,
            tool: "reveille".into(),
            name: "simulated".into(),
            started: "2026-11-25T23:00:00Z".into(),
            command_line: vec!["reveille".into()],
            ended,
            machine: Identity::read(&Root::at("/nonexistent")),
            driver: None,
            governor: None,
        };
        let meter = Watched {
            about: Meter {
                name: "made-up".into(),
                scope: Scope::Other,
                counts: Counts::Power,
                resolution: None,
                range_j: None,
            },
            readings: 3,
            reading_s: 0.1,
            refresh_s: Some(1.0),
            least_change: None,
            power_w: Some(20.0),
        };
        let ran = Ran {
            rounds,
            seed: 1,
            cpus: CPUS,
            turns,
        };
        let states: Vec<&IdleState> = states.iter().collect();
        States::of(about, meter, &times, &states, ran, Vec::new())
    }

    #[test]
    fn the_break_evens_of_four_states_are_found_within_a_tenth_in_noise_of_five_per_cent() {
        let states = simulated(30, 99.0);
        for (place, state) in states.idle_states.iter().enumerate().skip(1) {
            let [(_, shallow_w, shallow_j), (_, power_w, entry_j)] = [TRUE[place - 1], TRUE[place]];
            let true_us = 1e6 * CPUS as f64 * (entry_j - shallow_j) / (shallow_w - power_w);
            let even = state.break_even.as_ref().unwrap();
            let off = even.estimate_us.unwrap() / true_us - 1.0;
            assert!(off.abs() < 0.1, "{}: {even:?}, true {true_us}", state.name);
            assert!(even.carried().is_some(), "{even:?}");
            assert_eq!(state.shallower.as_deref(), Some(TRUE[place - 1].0));
        }
        let answer = answer(&states);
        assert!(answer.starts_with("C1 pays from stays of "), "{answer}");
        assert!(
            answer.contains("against C1E; the driver's target residency is 300 µs."),
            "{answer}"
        );
        assert!(drawn(&states).contains("<circle"));
    }

    #[test]
    fn turns_whose_entries_went_elsewhere_are_dropped_and_the_state_before_is_compared() {
        let states = simulated(6, 94.0);
        let (c1e, c6) = (&states.idle_states[2], &states.idle_states[3]);
        assert_eq!(
            (c1e.dropped, &c1e.power_w, &c1e.break_even),
            (24, &None, &None)
        );
        assert_eq!(c6.shallower.as_deref(), Some("C1"));
        assert!(
            states.notes[0].contains("24 turns of C1E do not count"),
            "{:?}",
            states.notes
        );
    }

    #[test]
    fn a_claim_that_the_data_cannot_carry_is_not_made() {
        let few = simulated(3, 99.0);
        assert!(
            answer(&few).contains("without an interval"),
            "{}",
            answer(&few)
        );
        let open = BreakEven {
            estimate_us: Some(500.0),
            low_us: Some(300.0),
            high_us: None,
            rounds: 6,
        };
        assert_eq!(words(&open), "not below 300 µs");
        let never = BreakEven {
            estimate_us: None,
            low_us: None,
            ..open
        };
        assert!(words(&never).starts_with("unknown"));
        let between = |low_us, high_us| {
            words(&BreakEven {
                estimate_us: Some(0.0),
                low_us: Some(low_us),
                high_us: Some(high_us),
                rounds: 6,
            })
        };
        assert_eq!(between(-100.0, 300.0), "at most 300 µs");
        assert_eq!(between(0.0, 300.0), "at most 300 µs");
        assert_eq!(between(-10.0, 0.0), "any length");
    }

    #[test]
    fn every_column_is_a_field_of_the_json_and_a_kept_result_is_the_same() {
        let states = simulated(6, 99.0);
        let json = serde_json::to_value(&states).unwrap();
        for (list, headings) in reference() {
            assert_eq!(not_in_json(&json, list, &headings), [""; 0]);
        }
        let again = super::super::parse(&serde_json::to_vec(&states).unwrap()).unwrap();
        assert_eq!(again.idle_states.len(), states.idle_states.len());
        assert_eq!(sheet(&again).answer, sheet(&states).answer);
    }
}
