//! A strict reader of Prometheus' text format 0.0.4, which takes less than Prometheus does.

// Each test uses a part of it.
#![allow(dead_code)]

use std::collections::{BTreeMap, BTreeSet};

/// Labels of a metric, with their values.
pub type Labels = BTreeMap<String, String>;

/// What was read: kinds and values by name.
#[derive(Debug, Default)]
pub struct Scrape {
    /// `counter`, `gauge` or `histogram`.
    pub kinds: BTreeMap<String, String>,
    /// By name and labels.
    pub values: BTreeMap<(String, Labels), f64>,
}

impl Scrape {
    /// The value of that name and these labels, exactly.
    pub fn value(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        let labels = labels
            .iter()
            .map(|(label, value)| (label.to_string(), value.to_string()));
        self.values
            .get(&(name.to_owned(), labels.collect()))
            .copied()
    }

    /// All values of that name.
    pub fn all(&self, name: &str) -> Vec<(&Labels, f64)> {
        let all = self.values.iter().filter(|((of, _), _)| of == name);
        all.map(|((_, labels), value)| (labels, *value)).collect()
    }
}

/// Reads a text: of each name HELP, TYPE and then the values, once and together; counters end in `_total`
/// and are not negative; no labels twice; seconds, not parts of them.
///
/// # Panics
/// If anything is otherwise.
pub fn read(text: &str) -> Scrape {
    assert!(text.ends_with('\n'), "the last line has an end");
    let mut scrape = Scrape::default();
    let mut seen = BTreeSet::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let help = line
            .strip_prefix("# HELP ")
            .unwrap_or_else(|| panic!("no HELP: {line}"));
        let (name, help) = help.split_once(' ').expect("a help");
        assert!(help.ends_with(['.', '?']) && !help.contains('\\'), "{help}");
        check_name(name);
        assert!(name.starts_with("reveille_"), "{name}");
        assert!(seen.insert(name), "{name} again");
        let kind = lines.next().expect("a TYPE").strip_prefix("# TYPE ");
        let kind = kind
            .and_then(|rest| rest.strip_prefix(name))
            .expect("its TYPE")
            .trim_start();
        assert!(["counter", "gauge", "histogram"].contains(&kind), "{kind}");
        assert_eq!(kind == "counter", name.ends_with("_total"), "{name}");
        scrape.kinds.insert(name.to_owned(), kind.to_owned());
        while let Some(line) = lines.next_if(|line| !line.starts_with('#')) {
            let rest = line
                .strip_prefix(name)
                .unwrap_or_else(|| panic!("not of {name}: {line}"));
            let parts = ["_bucket", "_sum", "_count"].into_iter();
            let part = parts.filter(|_| kind == "histogram");
            let part = part
                .filter(|part| rest.starts_with(part))
                .collect::<String>();
            assert_eq!(part.is_empty(), kind != "histogram", "{line}");
            let (labels, value) = labels(&rest[part.len()..]);
            let value = value.strip_prefix(' ').expect("one space before the value");
            assert!(!value.contains(' '), "a time: {line}");
            let value: f64 = value
                .parse()
                .unwrap_or_else(|_| panic!("no number: {line}"));
            assert!(value.is_finite() && value >= 0.0, "{line}");
            let before = scrape
                .values
                .insert((format!("{name}{part}"), labels), value);
            assert_eq!(before, None, "twice: {line}");
        }
        if kind == "histogram" {
            check_histogram(&scrape, name);
        }
    }
    scrape
}

/// Each limit has at least as many as the one below it, and the last one, +Inf, has all.
fn check_histogram(scrape: &Scrape, name: &str) {
    for (labels, count) in scrape.all(&format!("{name}_count")) {
        let buckets = scrape.all(&format!("{name}_bucket")).into_iter();
        let buckets = buckets.filter_map(|(of, value)| {
            let mut of = of.clone();
            let limit = of.remove("le").expect("a bucket has a limit");
            let limit: f64 = limit.parse().expect("a limit is a number");
            (&of == labels).then_some((limit, value))
        });
        let mut buckets: Vec<(f64, f64)> = buckets.collect();
        buckets.sort_by(|one, other| one.0.total_cmp(&other.0));
        assert!(
            buckets.is_sorted_by(|one, other| one.1 <= other.1),
            "{buckets:?}"
        );
        assert_eq!(buckets.last(), Some(&(f64::INFINITY, count)), "{buckets:?}");
        assert!(
            scrape
                .values
                .contains_key(&(format!("{name}_sum"), labels.clone()))
        );
    }
}

fn check_name(name: &str) {
    let plain =
        |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '_';
    assert!(!name.is_empty() && name.chars().all(plain), "{name}");
    assert!(
        !name.starts_with(|letter: char| letter.is_ascii_digit()),
        "{name}"
    );
}

/// The labels at the start, and what comes after them.
fn labels(text: &str) -> (Labels, &str) {
    let mut labels = Labels::new();
    let Some(mut rest) = text.strip_prefix('{') else {
        return (labels, text);
    };
    loop {
        let (label, after) = rest.split_once("=\"").expect("a label");
        check_name(label);
        let mut value = String::new();
        let mut letters = after.char_indices();
        let end = loop {
            match letters.next().expect("the label's end") {
                (at, '"') => break at,
                (_, '\\') => value.push(match letters.next() {
                    Some((_, 'n')) => '\n',
                    Some((_, letter @ ('\\' | '"'))) => letter,
                    other => panic!("escaped {other:?}"),
                }),
                (_, letter) => value.push(letter),
            }
        };
        assert_eq!(
            labels.insert(label.to_owned(), value),
            None,
            "{label} twice"
        );
        rest = &after[end + 1..];
        match rest.split_at(1) {
            (",", more) => rest = more,
            ("}", more) => return (labels, more),
            _ => panic!("after a label: {rest}"),
        }
    }
}
