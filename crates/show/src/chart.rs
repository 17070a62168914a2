//! Charts as SVG, coloured by the page's style sheet, readable without a script.

pub mod bars;
pub mod curves;
pub mod frame;
pub mod heat;
pub mod labels;
pub mod limits;
pub mod rows;

pub use bars::Bars;
pub use frame::{Frame, Mark, Quantity};

use crate::markup::escape;

/// The number of colours of states or results; they repeat.
pub const COLOURS: usize = 7;

/// The class of the colour with this index.
pub fn colour(place: usize) -> String {
    format!("c{}", place % COLOURS + 1)
}

/// The legend: names with the classes of their colours.
pub fn legend<S: AsRef<str>>(keys: impl IntoIterator<Item = (String, S)>) -> String {
    let key = |(class, name): (String, S)| {
        let name = escape(name.as_ref());
        format!("<span class=\"key {class}\"><i></i>{name}</span> ")
    };
    let keys: String = keys.into_iter().map(key).collect();
    format!("<p class=\"keys\">{keys}</p>")
}

/// A drawing below its title, with words on how to read it; without words if they are empty.
pub fn figure(title: &str, drawing: &str, explained: &str) -> String {
    let explained = match explained {
        "" => String::new(),
        words => format!("<p class=\"about\">{}</p>", escape(words)),
    };
    let title = escape(title);
    format!("<figure><figcaption>{title}</figcaption>{drawing}{explained}</figure>")
}

/// In the place of a drawing: why there is none.
pub fn not_drawn(title: &str, why: &str) -> String {
    let why = escape(why);
    figure(
        title,
        &format!("<p class=\"absent\">Not drawn: {why}.</p>"),
        "",
    )
}
