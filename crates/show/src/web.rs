//! A sheet as a page: the answer first, then charts and tables.

use std::fmt::Write as _;

use serde_json::json;

use crate::html_table;
use crate::markup::{escape, prose};
use crate::page::framed;
use crate::sheet::{Part, Section, Sheet, Table, Unit};
use crate::text::alone;

/// The maximum rows of a table on a page; the result's file has all.
const MOST: usize = 200;

/// The sheet as a self-contained page.
pub fn page(sheet: &Sheet<'_>) -> String {
    let mut body = String::new();
    content(sheet, Place::Page, &mut body);
    for (number, subject) in sheet.subjects.iter().enumerate() {
        // Writing to a String cannot fail.
        let _ = write!(
            body,
            "<h2 id=\"subject-{number}\">{}</h2>",
            escape(&subject.title)
        );
        content(subject, Place::Subject(number), &mut body);
    }
    let mut scripts = [sheet]
        .into_iter()
        .chain(&sheet.subjects)
        .map(|one| one.script);
    if let Some(script) = scripts.find(|script| !script.is_empty()) {
        let _ = write!(body, "<script>{script}</script>");
    }
    let none = json!([]);
    let data = match sheet.data.is_null() {
        true => &none,
        false => &sheet.data,
    };
    framed(&sheet.title, &sheet.about, &body, sheet.foot, data)
}

/// Where a sheet stands.
#[derive(Clone, Copy)]
enum Place {
    Page,
    /// Below another one, with this number.
    Subject(usize),
}

fn content(sheet: &Sheet<'_>, place: Place, body: &mut String) {
    if !sheet.answer.is_empty() {
        let _ = write!(body, "<p class=\"headline\">{}</p>", prose(&sheet.answer));
    }
    for (how, what) in sheet.failures.iter().take(MOST) {
        let _ = write!(
            body,
            "<p class=\"notice strong\" role=\"alert\"><b>{}:</b> {}</p>",
            escape(how),
            prose(what)
        );
    }
    match sheet.failures.len().saturating_sub(MOST) {
        0 => {}
        rest => {
            let _ = write!(body, "<p class=\"notice strong\">And {rest} more.</p>");
        }
    }
    let sections = || {
        let sections = sheet.sections.iter().enumerate();
        sections.map(|(index, one)| {
            let before = &sheet.sections[..index];
            let before = before.iter().filter(|other| other.id == one.id).count();
            (one, before)
        })
    };
    for (one, before) in sections().filter(|(one, _)| one.leads) {
        section(one, place, before, body);
    }
    for note in &sheet.notes {
        let _ = write!(body, "<p class=\"notice\">{}</p>", prose(note));
    }
    if sheet.all_facts().next().is_some() {
        body.push_str("<dl class=\"facts\">");
        for (word, figures) in sheet.all_facts() {
            let _ = write!(body, "<dt>{}</dt><dd>{}</dd>", escape(word), prose(figures));
        }
        body.push_str("</dl>");
    }
    for (one, before) in sections().filter(|(one, _)| !one.leads) {
        section(one, place, before, body);
    }
}

/// `before`: the number of sections with the same id before it.
fn section(section: &Section<'_>, place: Place, before: usize, html: &mut String) {
    let (mut id, heading) = (section.id.to_owned(), escape(&section.heading));
    if before > 0 {
        let _ = write!(id, "-{}", before + 1);
    }
    let _ = match place {
        // The page's or the subject's own heading stands above.
        _ if section.leads => write!(html, "<section id=\"{id}\" aria-label=\"{heading}\">"),
        Place::Page => write!(html, "<section id=\"{id}\"><h2>{heading}</h2>"),
        Place::Subject(number) => {
            write!(html, "<section id=\"{id}-{number}\"><h3>{heading}</h3>")
        }
    };
    for part in &section.parts {
        match part {
            Part::Table(one) => html.push_str(&table(one)),
            Part::Text(text) => {
                let _ = write!(html, "<p>{}</p>", prose(text));
            }
            Part::Command(command) => {
                let _ = write!(html, "<pre>{}</pre>", escape(command));
            }
            Part::Bars(bars) => html.push_str(&bars.html()),
            Part::Chart(chart) => html.push_str(&chart()),
        }
    }
    html.push_str("</section>");
}

/// A table, each figure in a suitable unit.
pub fn table(table: &Table) -> String {
    let heads: Vec<_> = table
        .headings
        .iter()
        .map(|heading| (&*heading.name, heading.origin))
        .collect();
    let words = table
        .headings
        .iter()
        .take_while(|heading| heading.unit == Unit::Words)
        .count();
    let mut html = html_table::Table::new(&table.caption, words, &heads);
    for row in table.rows.iter().take(MOST) {
        let cells = table.headings.iter().zip(row);
        let cells = cells.map(|(heading, value)| {
            let text = alone(heading.unit, value).unwrap_or_default();
            (value.judgement(), text)
        });
        html.row(&cells.collect::<Vec<_>>());
    }
    match table.rows.len().saturating_sub(MOST) {
        0 => html.html(),
        rest => format!(
            "{}<p>And {rest} more, in the result's file.</p>",
            html.html()
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sheet::tests::{COLUMNS, STATES};

    #[test]
    fn a_page_has_the_answer_before_the_figures_and_no_foreign_markup() {
        let mut sheet = Sheet {
            title: "Wakes".into(),
            answer: "<b>".into(),
            ..Sheet::default()
        };
        sheet.fact("Measured", "CPU 1");
        let states = Section::new("states", "States").chart(|| "<svg></svg>".into());
        sheet.section(states.table(Table::of("By state", COLUMNS, &STATES)));
        sheet.section(Section::new("states", "States again").text("none"));
        let html = page(&sheet);
        assert!(html.contains("<section id=\"states\"><h2>States</h2>"));
        assert!(html.contains("<section id=\"states-2\"><h2>States again</h2>"));
        assert!(html.contains("id=\"outliers\">[]</script>"));
        sheet.data = json!([{ "count": 1 }]);
        assert!(page(&sheet).contains("id=\"outliers\">[{\"count\":1}]</script>"));
        let place = |text: &str| {
            html.find(text)
                .unwrap_or_else(|| panic!("{text} in {html}"))
        };
        assert!(place("&lt;b&gt;") < place("<dt>Measured</dt>"));
        assert!(place("<svg></svg>") < place("exit<small>driver's table</small>"));
        assert!(html.contains("<td>2 µs</td><td>2.5 µs</td><td>12,345</td>"));
        assert!(html.contains("C6, &quot;deep&quot; &lt;</th><td>–</td>"));
    }

    #[test]
    fn what_leads_stands_between_failures_and_notes() {
        let mut sheet = Sheet {
            answer: "Slow.".into(),
            failures: vec![("failed", "sda".into())],
            notes: vec!["A note.".into()],
            ..Sheet::default()
        };
        sheet.fact("Measured", "CPU 1");
        sheet.section(Section::new("more", "More").text("Rest."));
        let leading = Section::new("lead", "By \"state\"").leading();
        sheet.section(leading.chart(|| "<svg></svg>".into()).text("Table."));
        let html = page(&sheet);
        let places: Vec<usize> = [
            "Slow.", "sda", "<svg>", "Table.", "A note.", "CPU 1", "Rest.",
        ]
        .map(|text| {
            html.find(text)
                .unwrap_or_else(|| panic!("{text} in {html}"))
        })
        .to_vec();
        assert!(places.is_sorted(), "{places:?}");
        assert!(html.contains("<section id=\"lead\" aria-label=\"By &quot;state&quot;\"><svg>"));
    }

    #[test]
    fn subjects_follow_with_ids_of_their_own_and_the_script_comes_once() {
        let subject = |script| {
            let mut sheet = Sheet {
                title: "<laptop>".into(),
                failures: vec![("failed", "<sda>".into())],
                script,
                ..Sheet::default()
            };
            sheet.section(Section::new("states", "States").text("<none>"));
            sheet
        };
        let sheet = Sheet {
            subjects: vec![subject("let a;"), subject("let a;")],
            ..Sheet::default()
        };
        let html = page(&sheet);
        assert_eq!(html.matches("<script>let a;</script>").count(), 1);
        assert!(html.contains("<h2 id=\"subject-1\">&lt;laptop&gt;</h2>"));
        assert!(html.contains("<section id=\"states-1\"><h3>States</h3><p>&lt;none&gt;</p>"));
        assert!(html.contains("role=\"alert\"><b>failed:</b> &lt;sda&gt;</p>"));
    }
}
