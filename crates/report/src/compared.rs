//! What the pages of `trial` and `anticipate bench` have in common.

use reveille_results::kept::About;
use reveille_show::axis::Axis;
use reveille_show::markup::escape;

/// The line below the title: `what` was run, on which machine, when.
pub fn about(about: &About, what: &[String]) -> String {
    let machine = &about.machine;
    let kernel = machine.kernel.as_ref();
    let known = [
        machine.hostname.clone(),
        machine.cpu_model.clone(),
        kernel.map(|kernel| format!("Linux {kernel}")),
        Some(about.started.clone()),
        Some(about.tool.clone()),
    ];
    let all = what.iter().cloned().chain(known.into_iter().flatten());
    let known: Vec<String> = all.filter(|word| !word.is_empty()).collect();
    known.join(" · ")
}

/// The sentences and notes above the charts.
pub fn headline(sentences: &[String], notes: &[String]) -> String {
    let line = |attributes: &str, text: &str| {
        let text = escape(&quoted(text));
        format!("<p class={attributes}>{text}</p>")
    };
    let class = |place| match place {
        0 => "\"headline\"",
        _ => "\"notice\"",
    };
    let sentences = sentences.iter().enumerate();
    let sentences = sentences.map(|(place, sentence)| line(class(place), sentence));
    let notes = notes.iter();
    let notes = notes.map(|note| line("\"notice\" role=\"note\"", note));
    sentences.chain(notes).collect()
}

/// Quotation marks instead of the terminal's backquotes.
fn quoted(sentence: &str) -> String {
    let mut open = false;
    let quote = |character: char| match character {
        '`' => {
            open = !open;
            if open { '“' } else { '”' }
        }
        other => other,
    };
    sentence.chars().map(quote).collect()
}

/// Which colour is which setting: colours and names.
pub fn legend<'a>(keys: impl Iterator<Item = (String, &'a str)>) -> String {
    let key = |(colour, name)| {
        let name = escape(name);
        format!("<span class=\"key {colour}\"><i></i>{name}</span> ")
    };
    format!(
        "<p class=\"keys\">{}</p>",
        keys.map(key).collect::<String>()
    )
}

/// The last section: how it was measured, and what each setting changed.
pub fn setup(about: &About, title: &str, how: &str, changes: &str) -> String {
    let how = format!(
        "{how} Idle driver {}, governor {}.",
        about.driver.as_deref().unwrap_or("none"),
        about.governor.as_deref().unwrap_or("none")
    );
    format!(
        "<section><h2>{title}</h2><p>{}</p>{changes}<p class=\"about\">{}</p></section>",
        escape(&how),
        escape(&about.command_line.join(" "))
    )
}

/// From zero where the figures are alike, logarithmic where they are not.
pub fn axis(figures: impl Iterator<Item = f64> + Clone) -> Axis {
    /// Above this ratio small figures would lie on the axis.
    const RATIO: f64 = 8.0;
    let max = figures.clone().fold(f64::MIN, f64::max);
    let min = figures.fold(f64::MAX, f64::min);
    match min > 0.0 && max / min > RATIO {
        true => Axis::logarithmic(min, max),
        false => Axis::from_zero(max * 1.1),
    }
}

/// A chart or what stands in its place, below its title.
pub fn figure(title: &str, body: &str) -> String {
    let title = escape(title);
    format!("<figure><figcaption>{title}</figcaption>{body}</figure>")
}

/// The number with its sign: `+1.5`, `−1.5`.
pub fn signed(value: f64, number: impl Fn(f64) -> String) -> String {
    match value > 0.0 {
        true => format!("+{}", number(value)),
        false => number(value).replace('-', "−"),
    }
}
