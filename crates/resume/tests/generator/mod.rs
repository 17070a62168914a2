//! Suspends and resumes of made-up machines, whose truth is known to the microsecond.
//!
//! [`machine`] draws a machine from a seed: devices, what lies below what, which of them are
//! asynchronous, how long each callback takes. [`kernel`] re-enacts what a kernel does with it, thread
//! by thread and event by event; it knows nothing of dependency graphs. [`text`] writes what a kernel
//! and its tracing would have written.
//!
//! The strings and the order of things are taken from drivers/base/power/main.c, kernel/power/ and
//! kernel/cpu.c of Linux 3.6 to 6.17, and from logs of 6.1 and 6.12.

// Each test takes a part of it.
#![allow(dead_code)]

pub mod kernel;
pub mod machine;
pub mod text;
