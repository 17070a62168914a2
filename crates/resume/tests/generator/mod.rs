//! Suspends and resumes of made-up machines, with times known to the microsecond.
//!
//! [`machine`] draws a machine from a seed: devices, their tree, which of them are asynchronous,
//! the duration of each callback. [`kernel`] re-enacts what a kernel does with it, thread by thread
//! and event by event, without any dependency graph. [`text`] writes what a kernel and its tracing
//! would have written.
//!
//! The strings and the order of events are those of drivers/base/power/main.c, kernel/power/ and
//! kernel/cpu.c of Linux 3.6 to 6.17, and of logs of 6.1 and 6.12.

// The benchmark uses a part of it.
#![allow(dead_code)]

pub mod kernel;
pub mod machine;
pub mod text;
