//! The program in terminals.

#[path = "../held/mod.rs"]
mod held;
#[allow(dead_code, reason = "others have loads of their own")]
#[path = "../meter/mod.rs"]
mod meter;
#[path = "../program/mod.rs"]
mod program;

mod commands;
mod screen;
mod session;
mod top;
