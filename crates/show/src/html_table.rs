//! HTML tables; the head of each column has the origin of its figures.

use std::fmt::Write as _;

use crate::markup::escape;
use crate::sheet::Judgement;
pub use crate::sheet::Origin;

/// Letters of words that may be broken into lines, and keep some room.
const LONG: usize = 20;

/// A table, built row by row. Cells are text, which is escaped here.
#[derive(Debug, Clone)]
pub struct Table {
    html: String,
    columns: usize,
    text_columns: usize,
}

impl Table {
    /// A table with these heads. The first `text_columns` contain words, the others numbers.
    pub fn new(caption: &str, text_columns: usize, heads: &[(&str, Option<Origin>)]) -> Self {
        let mut html = format!(
            "<div class=\"table\" tabindex=\"0\" role=\"region\" aria-label=\"{caption}\">\
             <table><caption>{caption}</caption><thead><tr>",
            caption = escape(caption)
        );
        for (place, (head, origin)) in heads.iter().enumerate() {
            // Writing to a String cannot fail.
            let _ = write!(
                html,
                "<th scope=\"col\"{}>{}",
                word(place, text_columns),
                escape(head)
            );
            if let Some(origin) = origin {
                let _ = write!(html, "<small>{}</small>", origin.word());
            }
            html.push_str("</th>");
        }
        html.push_str("</tr></thead><tbody>");
        Self {
            html,
            columns: heads.len(),
            text_columns,
        }
    }

    /// Adds a row; its first cell is its name. An unknown value is a dash.
    pub fn row(&mut self, cells: &[(Option<Judgement>, String)]) {
        self.html.push_str("<tr>");
        for (place, (judgement, cell)) in cells.iter().take(self.columns).enumerate() {
            let text = match cell.split_once(" [") {
                _ if cell.is_empty() => "–".to_owned(),
                // A line may break before an interval, and not within it.
                Some((figure, interval)) if place >= self.text_columns => {
                    let interval = interval.replace(' ', "\u{a0}");
                    format!("{} [{}", escape(figure), escape(&interval))
                }
                _ => escape(cell),
            };
            let is_word = place < self.text_columns;
            let kind = match () {
                () if is_word && cell.chars().count() > LONG => "word long",
                () if is_word => "word",
                () if cell.contains(" [") => "interval",
                () => "",
            };
            let judgement = match judgement {
                Some(Judgement::Good) => "good",
                Some(Judgement::Notable) => "notable",
                Some(Judgement::Bad) => "bad",
                None => "",
            };
            let class = match format!("{kind} {judgement}").trim() {
                "" => String::new(),
                class => format!(" class=\"{class}\""),
            };
            let _ = match place {
                0 => write!(self.html, "<th scope=\"row\"{class}>{text}</th>"),
                _ => write!(self.html, "<td{class}>{text}</td>"),
            };
        }
        self.html.push_str("</tr>");
    }

    /// The table's HTML.
    pub fn html(mut self) -> String {
        self.html.push_str("</tbody></table></div>");
        self.html
    }
}

fn word(place: usize, text_columns: usize) -> &'static str {
    if place < text_columns {
        " class=\"word\""
    } else {
        ""
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_may_break_before_an_interval_only() {
        let mut table = Table::new("", 1, &[("state [95%]", None), ("median", None)]);
        let faster = Some(Judgement::Good);
        table.row(&[
            (None, "C1 [x y]".into()),
            (faster, "+10 [+9, +11] µs".into()),
        ]);
        let html = table.html();
        assert!(
            html.contains("<td class=\"interval good\">+10 [+9,\u{a0}+11]\u{a0}µs</td>"),
            "{html}"
        );
        assert!(html.contains("C1 [x y]</th>"), "{html}");
    }

    #[test]
    fn only_long_words_have_a_minimum_width() {
        let mut table = Table::new("", 2, &[("result", None), ("verdict", None)]);
        table.row(&[(None, "A".into()), (None, "nic".into())]);
        assert!(!table.clone().html().contains("long"));
        let bad = Some(Judgement::Bad);
        table.row(&[(None, "A".into()), (bad, "x".repeat(LONG + 1))]);
        assert!(table.html().contains("<td class=\"word long bad\">xxx"));
    }
}
