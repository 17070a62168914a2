//! How what was found is shown: on a terminal, as text, as an HTML page. Knows no capability.
//!
//! - [`terminal`]: the way to standard output and error; [`table`] and [`wrap`] lay text out,
//!   [`progress`] is how far a run is;
//! - [`page`]: the frame of every page; [`html_table`] and [`chart`] fill it, [`axis`], [`density`] and
//!   [`markup`] are what charts are made of;
//! - [`quantity`]: quantities as a reader wants them;
//! - [`sheet`]: what a command found, defined once; [`text`], [`web`] and [`markdown`] are its media.

pub mod axis;
pub mod chart;
pub mod density;
pub mod html_table;
pub mod markdown;
pub mod markup;
pub mod page;
pub mod progress;
pub mod quantity;
pub mod sheet;
pub mod table;
pub mod terminal;
pub mod text;
pub mod web;
pub mod wrap;
