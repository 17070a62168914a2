//! Output for people: on a terminal, as text, as an HTML page. Independent of the capabilities.
//!
//! - [`terminal`]: standard output and error; [`table`] and [`wrap`]: text layout;
//!   [`progress`]: the progress bar;
//! - [`page`]: the frame of every page; [`html_table`] and [`chart`]: its content; [`axis`], [`density`]
//!   and [`markup`]: parts of charts;
//! - [`quantity`]: quantities with digits and units;
//! - [`sheet`]: the output of a command, defined once; [`text`], [`web`] and [`markdown`]: its media.

pub mod axis;
pub mod chart;
mod columns;
pub mod density;
pub mod exposition;
pub mod html_table;
pub mod markdown;
pub mod markup;
pub mod page;
pub mod parse;
pub mod progress;
pub mod quantity;
pub mod sheet;
pub mod table;
pub mod terminal;
pub mod text;
pub mod web;
pub mod wrap;
