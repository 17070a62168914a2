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
        self.text.push_str(self.name);
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
