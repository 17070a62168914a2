//! Charts as SVG, coloured by the page's style sheet, readable without a script.

pub mod bars;
pub mod curves;
pub mod frame;
pub mod heat;

pub use bars::Bars;
pub use frame::{Frame, Mark, Quantity};

/// The number of colours of states or results; they repeat.
pub const COLOURS: usize = 7;

/// The class of the colour with this index.
pub fn colour(place: usize) -> String {
    format!("c{}", place % COLOURS + 1)
}
