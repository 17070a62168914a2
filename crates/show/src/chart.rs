//! Charts as SVG: drawn here, coloured by the page's style sheet, readable without a script.

pub mod bars;
pub mod curves;
pub mod frame;
pub mod heat;

pub use bars::Bars;
pub use frame::{Frame, Mark, Quantity};

/// Colours that tell states or results apart; after the last they begin again.
pub const COLOURS: usize = 7;

/// The class of the colour at that place.
pub fn colour(place: usize) -> String {
    format!("c{}", place % COLOURS + 1)
}
