//! Power against busy CPUs for people.

use std::fmt::Write as _;

use reveille_figures::rounds::Estimate;
use reveille_show::axis::Axis;
use reveille_show::chart::{self, Frame, Quantity, colour, legend};
use reveille_show::columns;
use reveille_show::quantity::{duration, three_digits};
use reveille_show::sheet::{Column, Heading, Section, Sheet, Table, Value};
use reveille_trial::show::compared;

use super::result::{Cpus, Curve, Point};

const FOOT: &str = "Turns are in shuffled order, round by round; the warm-up of each is dropped. Figures are \
                    medians over rounds with the sign test's 95% intervals, which need six rounds. All CPUs sleep \
                    together at least and at most as long as is given: cpuidle counts each CPU apart.";

const POINTS: &[Column<Point>] = &columns!(|one|
    measured(Count) "busy", "busy CPUs", one.busy, "Busy CPUs";
    measured(Of("W")) "power_w", "power [95%]", Value::from(&one.power_w), "Power, with its 95% interval";
    estimated(Of("W")) "step_w", "each more [95%]", Value::difference(one.step_w.as_ref()),
        "What each CPU costs more than with the next smaller number of busy ones";
    measured(Percent) "joint_percent.0", "all asleep ≥", one.joint_percent.map(|(least, _)| least),
        "All CPUs slept at once at least so long, of the time";
    measured(Percent) "joint_percent.1", "all asleep ≤", one.joint_percent.map(|(_, most)| most),
        "All CPUs slept at once at most so long, of the time";
    measured(Percent) "package_percent", "package asleep", one.package_percent,
        "Residency in package states, a mean over packages; unknown without such counters";
);

/// The columns of the tables, by the list of their rows in `power-cpus.json`.
pub fn reference() -> Vec<(&'static str, Vec<Heading>)> {
    vec![("orders[].points[]", Column::headings(POINTS))]
}

/// The result for every medium.
pub fn sheet(cpus: &Cpus) -> Sheet<'_> {
    let mut sheet = compared::sheet(
        "Power against busy CPUs",
        &reveille_meter::show::words(&cpus.meter),
        &cpus.about,
    );
    sheet.answer = answer(cpus);
    sheet.fact("Meter", reveille_meter::show::words(&cpus.meter));
    let [dwell, settle] = [cpus.dwell_s, cpus.settle_s].map(|s| duration(s * 1e9));
    let words = format!(
        "{} in shuffled order, seed {}; {dwell} each after {settle} of warm-up",
        cpus.rounds, cpus.seed
    );
    sheet.fact("Rounds", words);
    sheet.notes.extend(cpus.notes.iter().cloned());
    sheet.foot = FOOT;
    let chart = Section::new("chart", "Power against busy CPUs").leading();
    sheet.section(chart.chart(|| drawn(cpus)));
    for curve in &cpus.orders {
        let name = curve.way.order.name();
        let caption = format!("Order {name}");
        let table = Table::of(caption.as_str(), POINTS, &curve.points)
            .whole()
            .known();
        let section = Section::new("order", caption).titled();
        let words: Vec<String> = curve.way.cpus.iter().map(u32::to_string).collect();
        let section = section.text(format!(
            "CPUs become busy in this order: {}",
            words.join(", ")
        ));
        sheet.section(section.table(table));
    }
    sheet
}

/// `The first busy CPU costs 37 W, each further one 8 W.`
fn answer(cpus: &Cpus) -> String {
    let several = cpus.orders.len() > 1;
    let sentences = cpus.orders.iter().map(|curve| {
        let order = match several {
            true => format!("In order {}: ", curve.way.order.name()),
            false => String::new(),
        };
        match sentence(curve) {
            words if several => format!("{order}{}{}", words[..1].to_lowercase(), &words[1..]),
            words => words,
        }
    });
    sentences.collect::<Vec<_>>().join(" ")
}

fn sentence(curve: &Curve) -> String {
    let watts = |one: &Estimate| one.text(three_digits) + " W";
    let Some(first) = &curve.first_w else {
        return "No round was complete.".to_owned();
    };
    let further = curve.further_w.as_ref();
    if first.interval.is_none() {
        let further = further.map_or(String::new(), |one| {
            format!(", each further one {}", watts(one))
        });
        return format!(
            "The first busy CPU costs about {}{further}: too few rounds for an interval.",
            watts(first)
        );
    }
    let cost = |one: &Estimate| match one.is_above_zero() {
        true => format!("costs {}", watts(one)),
        false => format!("costs nothing that this meter shows ({})", watts(one)),
    };
    match further {
        None => format!("The busy CPU {}.", cost(first)),
        Some(one) if first.is_above_zero() && one.is_above_zero() => format!(
            "The first busy CPU costs {}, each further one {}.",
            watts(first),
            watts(one)
        ),
        Some(one) => format!(
            "The first busy CPU {}; each further one {}.",
            cost(first),
            cost(one)
        ),
    }
}

fn drawn(cpus: &Cpus) -> String {
    const TITLE: &str = "Power against busy CPUs";
    let all = || cpus.orders.iter().flat_map(|curve| &curve.points);
    let most = all().map(|point| point.busy).max().unwrap_or(0);
    if most == 0 {
        return chart::not_drawn(TITLE, "no round was complete");
    }
    let high = |point: &Point| {
        point
            .power_w
            .interval
            .map_or(point.power_w.estimate, |(_, high)| high)
    };
    let frame = Frame {
        x: Axis::from_zero(most as f64),
        y: Axis::from_zero(all().map(high).fold(0.0, f64::max)),
        x_name: "busy CPUs",
        y_name: "power",
        x_quantity: Quantity::Number,
        y_quantity: Quantity::Watts,
    };
    let svg = frame.svg(
        "Power by the number of busy CPUs, a line for each order",
        "",
        |svg| {
            for (place, curve) in cpus.orders.iter().enumerate() {
                let class = colour(place);
                let at =
                    |point: &Point| (frame.x(point.busy as f64), frame.y(point.power_w.estimate));
                let mut path = String::new();
                for (number, point) in curve.points.iter().enumerate() {
                    let (x, y) = at(point);
                    let _ = write!(path, "{}{x:.1} {y:.1}", if number == 0 { "M" } else { "L" });
                    if let Some((low, high)) = point.power_w.interval {
                        let _ = write!(
                            path,
                            "M{x:.1} {:.1}V{:.1}M{x:.1} {y:.1}",
                            frame.y(low),
                            frame.y(high)
                        );
                    }
                }
                let _ = write!(
                    svg,
                    "<path class=\"curve {class}\" d=\"{path}\"/><g class=\"setting {class}\">"
                );
                for point in &curve.points {
                    let (x, y) = at(point);
                    let _ = write!(svg, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\"/>");
                }
                svg.push_str("</g>");
            }
        },
    );
    let keys = cpus.orders.iter().enumerate();
    let keys = legend(keys.map(|(place, curve)| (colour(place), curve.way.order.name())));
    let explained =
        "A disc is the median over rounds; a line up and down from it is its 95% interval.";
    chart::figure(TITLE, &format!("{svg}{keys}"), explained)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;
    use std::time::Duration;

    use reveille_kernel::{Identity, Root};
    use reveille_meter::{About as Meter, Counts, Scope, Watched};
    use reveille_results::description::Ended;
    use reveille_results::kept::About;
    use reveille_show::sheet::not_in_json;
    use reveille_trial::setting::Machine;

    use super::super::order::Order;
    use super::super::result::{SCHEMA_VERSION, Way};
    use super::super::{Options, run};
    use super::*;
    use crate::Result;
    use crate::dwell::{Dwell, Dwells, Times};

    /// 20 W asleep, 37 W more for the first CPU, 8 for each further one, and noise of 5% of each reading's.
    struct Simulated {
        random: fastrand::Rng,
        readings: u32,
        /// CPUs of the second package, which takes 20 W more while one of them is busy.
        second: Vec<u32>,
    }

    impl Dwells for Simulated {
        fn dwell(&mut self, busy: &[u32], _: &AtomicBool) -> Result<Option<Dwell>> {
            let true_w = match busy.len() {
                0 => 20.0,
                busy => 57.0 + 8.0 * (busy - 1) as f64,
            };
            let is_second = busy.iter().any(|cpu| self.second.contains(cpu));
            let true_w = if is_second { true_w + 20.0 } else { true_w };
            // Uniform of a standard deviation of 5%.
            let mut noise = || 1.0 + 0.05 * 3_f64.sqrt() * (2.0 * self.random.f64() - 1.0);
            let sum: f64 = (0..self.readings).map(|_| true_w * noise()).sum();
            Ok(Some(Dwell {
                power_w: sum / f64::from(self.readings),
                joint_percent: Some((0.0, 100.0)),
                package_percent: None,
            }))
        }
    }

    fn simulated(rounds: u32, ways: &[Way]) -> Cpus {
        simulated_with(&[], rounds, ways)
    }

    fn simulated_with(second: &[u32], rounds: u32, ways: &[Way]) -> Cpus {
        let machine = Machine::read(Root::default()).unwrap();
        let times = Times {
            dwell: Duration::from_secs(30),
            settle: Duration::from_secs(1),
            refresh: Duration::from_secs(1),
        };
        let options = Options {
            rounds,
            orders: ways.iter().map(|way| way.order).collect(),
            seed: 1,
        };
        let mut dwells = Simulated {
            random: fastrand::Rng::with_seed(7),
            readings: 30,
            second: second.to_vec(),
        };
        let stop = AtomicBool::new(false);
        let (turns, ended) = run(
            &machine,
            &mut dwells,
            ways,
            &options,
            &times,
            &stop,
            &mut |_| (),
        )
        .unwrap();
        let about = About {
            schema_version: SCHEMA_VERSION,
            tool: "reveille".into(),
            name: "simulated".into(),
            started: "2026-11-25T23:00:00Z".into(),
            command_line: vec!["reveille".into()],
            ended: Ended::Completed,
            machine: Identity::read(&Root::at("/nonexistent")),
            driver: None,
            governor: None,
        };
        assert_eq!(ended, Ended::Completed);
        let meter = Watched {
            about: Meter {
                name: "made-up".into(),
                scope: Scope::Wall,
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
        Cpus::of(
            about,
            meter,
            &times,
            rounds,
            1,
            ways.to_vec(),
            turns,
            Vec::new(),
        )
    }

    fn way(order: Order, cpus: &[u32]) -> Way {
        let cpus = cpus.to_vec();
        Way { order, cpus }
    }

    #[test]
    fn a_known_curve_is_found_within_two_per_cent_in_noise_of_five() {
        let cpus = simulated(10, &[way(Order::Fill, &[0, 1, 2, 3])]);
        let curve = &cpus.orders[0];
        for (point, true_w) in curve.points.iter().zip([20.0, 57.0, 65.0, 73.0, 81.0]) {
            let off = point.power_w.estimate / true_w - 1.0;
            assert!(off.abs() < 0.01, "{point:?}");
            let (low, high) = point.power_w.interval.unwrap();
            assert!(low < high && point.power_w.rounds == 10);
        }
        let off =
            |one: &Option<Estimate>, true_w: f64| one.as_ref().unwrap().estimate / true_w - 1.0;
        assert!(
            off(&curve.first_w, 37.0).abs() < 0.02,
            "{:?}",
            curve.first_w
        );
        // A third of the difference of two powers of 57 and 81 W, of which each has 0.3% of noise.
        assert!(
            off(&curve.further_w, 8.0).abs() < 0.03,
            "{:?}",
            curve.further_w
        );
        let answer = answer(&cpus);
        assert!(answer.starts_with("The first busy CPU costs 3"), "{answer}");
        assert!(answer.contains("each further one "), "{answer}");
        let few = simulated(3, &[way(Order::Fill, &[0])]);
        assert!(
            sheet(&few).answer.contains("too few rounds"),
            "{}",
            sheet(&few).answer
        );
    }

    #[test]
    fn every_column_is_a_field_of_the_json_and_a_kept_result_is_the_same() {
        let ways = [
            way(Order::Fill, &[0, 2, 1, 3]),
            way(Order::Spread, &[0, 1, 2, 3]),
        ];
        let cpus = simulated(6, &ways);
        let json = serde_json::to_value(&cpus).unwrap();
        for (list, headings) in reference() {
            assert_eq!(not_in_json(&json, list, &headings), [""; 0]);
        }
        let text = serde_json::to_vec(&cpus).unwrap();
        let again = super::super::parse(&text).unwrap();
        assert_eq!((again.orders.len(), &again.about), (2, &cpus.about));
        assert!(super::super::parse(&text[..40]).is_err());
        let shown = sheet(&again);
        assert!(
            shown.answer.contains("In order spread: the first busy CPU"),
            "{}",
            shown.answer
        );
        assert!(drawn(&again).contains("<circle"));
        let row = &Table::of("", POINTS, &again.orders[0].points).rows[0];
        assert_eq!(row[3..5], [Value::from(0.0), Value::from(100.0)]);
    }

    #[test]
    fn the_least_power_is_that_of_an_order_if_no_chance() {
        let idle = super::super::order::tests::machine();
        let ways = [Order::Spread, Order::Fill, Order::SiblingsLast].map(|order| {
            let cpus = order.cpus(&idle, &[0, 1, 2, 3]);
            Way { order, cpus }
        });
        let cpus = simulated_with(&[2, 3], 8, &ways);
        let least = |cpus: &Cpus, busy| cpus.least(&idle, busy);
        let why = |cpus: &Cpus| least(cpus, 2).unwrap_err();
        // One busy CPU is the same in each.
        assert_eq!(least(&cpus, 1), Ok(None));
        let two = least(&cpus, 2).unwrap().unwrap();
        assert_eq!(two.cpus, [0, 1]);
        assert_ne!(two.took.order, Order::Spread);
        assert!((60.0..70.0).contains(&two.took.power_w), "{two:?}");
        let [spread] = two.than[..] else {
            panic!("{two:?}");
        };
        assert_eq!(spread.order, Order::Spread);
        assert!((80.0..90.0).contains(&spread.power_w), "{two:?}");
        // As many as were measured.
        assert_eq!(least(&cpus, 9), least(&cpus, 4));

        let mut none = cpus.clone();
        none.turns.retain(|turn| turn.busy == 0);
        assert!(why(&none).contains("no turn with 2"));
        none.turns.clear();
        assert!(why(&none).contains("--out"));
        assert!(why(&simulated(8, &ways[..1])).contains("one order"));
        let few = why(&simulated_with(&[2, 3], 3, &ways));
        assert!(few.contains("3 whole rounds with 2 busy CPUs; 6"), "{few}");
        // A round without one of the orders is none.
        let mut early = simulated_with(&[2, 3], 6, &ways);
        early
            .turns
            .retain(|turn| (turn.round, turn.order) != (5, Order::Fill));
        assert!(why(&early).contains("5 whole rounds"));
        let mut absurd = cpus.clone();
        absurd
            .turns
            .iter_mut()
            .for_each(|turn| turn.power_w = 1e300);
        assert!(why(&absurd).contains("no power of a machine"));
        // Of another machine, or of one package of two.
        let mut other = cpus.clone();
        other.orders[0].way.cpus.swap(0, 1);
        assert!(why(&other).contains("not those of this machine: 0-3 in order spread"));
        other.orders[0].way.cpus = vec![0];
        assert!(why(&other).contains("not those of this machine"));
        let mut part = cpus.clone();
        part.meter.about.scope = Scope::Package;
        assert!(why(&part).contains("several packages"));
    }

    #[test]
    fn a_cost_that_may_be_zero_is_not_claimed() {
        let mut cpus = simulated(6, &[way(Order::Fill, &[0, 1])]);
        cpus.orders[0].further_w.as_mut().unwrap().interval = Some((-1.0, 9.0));
        let answer = answer(&cpus);
        assert!(
            answer.contains("each further one costs nothing that this meter shows"),
            "{answer}"
        );
    }
}
