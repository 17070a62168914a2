//! The text that Prometheus reads: version 0.0.4 of its format, which each of its versions takes.
//!
//! Source: prometheus.io/docs/instrumenting/exposition_formats. All that it needs is below, and all values
//! are known when the text is made, so there is no registry of a crate between.

use std::fmt::Write;

/// The content type of the text.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// What a value means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Grows; a smaller value is a new start.
    Counter,
    /// As it is now.
    Gauge,
    /// How many values are below which limits.
    Histogram,
}

/// The text so far.
#[derive(Debug, Default)]
pub struct Exposition(String);

/// Metrics of one name.
pub struct Family<'a> {
    name: &'static str,
    text: &'a mut String,
}

impl Exposition {
    /// Begins the metrics of a name. `help` is one line.
    pub fn family(&mut self, kind: Kind, name: &'static str, help: &str) -> Family<'_> {
        let kind = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        };
        let text = &mut self.0;
        let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
        Family { name, text }
    }

    /// The metrics of a name of which there is one.
    pub fn one(&mut self, kind: Kind, name: &'static str, help: &str, value: f64) {
        self.family(kind, name, help).add(&[], value);
    }

    /// The whole text.
    pub fn into_text(self) -> String {
        self.0
    }
}

impl Family<'_> {
    /// Adds a value; labels of one name differ. Values of labels may have any character.
    pub fn add(&mut self, labels: &[(&str, &str)], value: f64) {
        self.line("", labels, value);
    }

    /// Adds a histogram with one label: pairs of a limit and how many values are below it, ascending; the sum
    /// of all values, and how many there are.
    pub fn histogram(
        &mut self,
        label: (&str, &str),
        below: impl Iterator<Item = (f64, u64)>,
        (sum, count): (f64, u64),
    ) {
        for (limit, below) in below {
            self.line(
                "_bucket",
                &[label, ("le", &limit.to_string())],
                below as f64,
            );
        }
        self.line("_bucket", &[label, ("le", "+Inf")], count as f64);
        self.line("_sum", &[label], sum);
        self.line("_count", &[label], count as f64);
    }

    fn line(&mut self, what: &str, labels: &[(&str, &str)], value: f64) {
        self.text.push_str(self.name);
        self.text.push_str(what);
        for (nth, (label, value)) in labels.iter().enumerate() {
            self.text.push(if nth == 0 { '{' } else { ',' });
            let _ = write!(self.text, "{label}=\"");
            for letter in value.chars() {
                match letter {
                    '\\' => self.text.push_str("\\\\"),
                    '"' => self.text.push_str("\\\""),
                    '\n' => self.text.push_str("\\n"),
                    letter => self.text.push(letter),
                }
            }
            self.text.push('"');
        }
        if !labels.is_empty() {
            self.text.push('}');
        }
        let _ = writeln!(self.text, " {value}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_histogram_has_its_limits_and_all() {
        let mut text = Exposition::default();
        let mut family = text.family(Kind::Histogram, "a", "An a.");
        let below = [(0.5, 1), (1.0, 3)].into_iter();
        family.histogram(("state", "C6"), below, (2.25, 4));
        assert_eq!(
            text.into_text(),
            "# HELP a An a.\n# TYPE a histogram\n\
             a_bucket{state=\"C6\",le=\"0.5\"} 1\na_bucket{state=\"C6\",le=\"1\"} 3\n\
             a_bucket{state=\"C6\",le=\"+Inf\"} 4\na_sum{state=\"C6\"} 2.25\n\
             a_count{state=\"C6\"} 4\n"
        );
    }

    #[test]
    fn a_label_cannot_add_a_line_or_a_label() {
        let mut text = Exposition::default();
        let mut family = text.family(Kind::Gauge, "a", "An a.");
        family.add(&[("rule", "x\"} 1\nb{c=\"\\"), ("cpu", "ä")], 0.000_05);
        family.add(&[], 3.0);
        assert_eq!(
            text.into_text(),
            "# HELP a An a.\n# TYPE a gauge\n\
             a{rule=\"x\\\"} 1\\nb{c=\\\"\\\\\",cpu=\"ä\"} 0.00005\na 3\n"
        );
    }
}
