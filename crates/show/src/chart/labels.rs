//! Words beside points, where they cover neither each other nor a point.

use super::frame::{HEIGHT, LEFT, TOP, WIDTH};
use crate::markup::escape;

/// A letter's width and a line's height, in units of the drawing: those of a narrow window, which are the
/// greatest.
const LETTER: f64 = 10.0;
const LINE: f64 = 18.0;
/// From a point to its words.
const ASIDE: f64 = 9.0;

/// From left, top, right to bottom.
type Area = [f64; 4];

/// Occupied areas.
#[derive(Debug, Default)]
pub struct Labels(Vec<Area>);

impl Labels {
    /// With points of that radius, which no words cover.
    pub fn among(points: impl IntoIterator<Item = (f64, f64)>, radius: f64) -> Self {
        let area = |(x, y): (f64, f64)| [x - radius, y - radius, x + radius, y + radius];
        Self(points.into_iter().map(area).collect())
    }

    /// Whether nothing there is covered.
    pub(super) fn is_free(&self, area: &Area) -> bool {
        !self.0.iter().any(|other| overlap(area, other))
    }

    /// Nothing else is to be written there.
    pub(super) fn cover(&mut self, area: Area) {
        self.0.push(area);
    }

    /// The words beside a point, in the nearest free place; a line leads there from far away.
    pub fn write(&mut self, (x, y): (f64, f64), words: &str) -> String {
        let width = LETTER * words.chars().count() as f64;
        // Above, beside and below, then line by line further away.
        let near = [
            ("middle", x, y - LINE),
            ("start", x + ASIDE, y),
            ("end", x - ASIDE, y),
        ];
        let far = (1..16).flat_map(|line| [1.0, -1.0].map(|way| y + way * LINE * f64::from(line)));
        let far = far.flat_map(|middle| {
            let beside = [("start", x + ASIDE), ("end", x - ASIDE), ("middle", x)];
            beside.map(|(anchor, at)| (anchor, at, middle))
        });
        let places = near.into_iter().chain(far);
        let area = |(anchor, at, middle): (&str, f64, f64)| {
            let left = match anchor {
                "start" => at,
                "end" => at - width,
                _ => at - width / 2.0,
            };
            [left, middle - LINE / 2.0, left + width, middle + LINE / 2.0]
        };
        let is_free = |place: &(&str, f64, f64)| {
            let one = area(*place);
            let inside = one[0] >= LEFT
                && one[2] <= LEFT + WIDTH
                && one[1] >= TOP - LINE
                && one[3] <= TOP + HEIGHT;
            inside && self.is_free(&one)
        };
        let place = places.clone().find(is_free).unwrap_or(near[0]);
        self.cover(area(place));
        let (anchor, at, middle) = place;
        let leads = match (middle - y).abs() > 1.5 * LINE {
            true => format!("<path class=\"leads\" d=\"M{x:.1} {y:.1}L{at:.1} {middle:.1}\"/>"),
            false => String::new(),
        };
        format!(
            "{leads}<text text-anchor=\"{anchor}\" x=\"{at:.1}\" y=\"{:.1}\">{}</text>",
            middle + 4.5,
            escape(words)
        )
    }
}

fn overlap(one: &Area, other: &Area) -> bool {
    one[0] < other[2] && other[0] < one[2] && one[1] < other[3] && other[1] < one[3]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The anchor and the place of the words.
    fn place(labels: &mut Labels, point: (f64, f64)) -> (String, f64, f64) {
        let text = labels.write(point, "words");
        let field = |name: &str| {
            let rest = text.split_once(&format!(" {name}=\"")).unwrap().1;
            rest.split('"').next().unwrap().to_owned()
        };
        let number = |name| field(name).parse::<f64>().unwrap();
        (field("text-anchor"), number("x"), number("y") - 4.5)
    }

    #[test]
    fn words_are_beside_their_point_where_they_cover_nothing() {
        let mut labels = Labels::among([(300.0, 100.0), (320.0, 100.0)], 6.0);
        assert_eq!(
            place(&mut labels, (300.0, 100.0)),
            ("middle".into(), 300.0, 82.0)
        );
        // Above are the first words, and the other point is to the left.
        assert_eq!(
            place(&mut labels, (320.0, 100.0)),
            ("start".into(), 329.0, 100.0)
        );
        // The plane ends above and to the right.
        assert_eq!(place(&mut labels, (550.0, TOP)), ("end".into(), 541.0, TOP));
        let below = place(&mut labels, (300.0, 100.0 + LINE));
        assert_eq!(below, ("start".into(), 309.0, 100.0 + LINE));
    }

    #[test]
    fn words_have_no_place_twice_and_far_ones_a_line() {
        let mut labels = Labels::default();
        let all: Vec<String> = (0..20)
            .map(|_| labels.write((300.0, 150.0), "words"))
            .collect();
        for (number, one) in labels.0.iter().enumerate() {
            assert!(
                !labels.0[..number].iter().any(|other| overlap(one, other)),
                "{number}"
            );
        }
        assert!(
            !all[0].contains("leads") && all[19].contains("leads"),
            "{}",
            all[19]
        );
    }
}
