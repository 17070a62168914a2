//! The comparison of a server's sleep under one load, as it comes, on a grid and staged: its result, and its sheet.

pub mod result;
pub mod show;

pub use self::result::{Bench, Setting, Turn};
