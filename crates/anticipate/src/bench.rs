//! `reveille anticipate bench`: the benefit of anticipatory wake-up on this machine, and its cost.
//!
//! A workload waits again and again, asleep, and is late, for its CPU has to wake first. [`run::run`]
//! gives each policy its turns by `reveille_trial`'s rounds, at each point: the machine as is, its
//! shallowest idle state only, no sleep, polling, and anticipatory wake-up. [`result::conclude`] compares
//! their latency and cost (time awake, power), and [`show`] is for people. A [`result::Bench`] is kept as
//! `bench.json`.
//!
//! - [`storage`]: direct reads or writes with idle time between them. Figure 1 of Zhu and others,
//!   "Software Engagement with Sleeping CPUs" (HotOS XV, 2015), is this on one machine.
//! - [`accelerator`]: a thread that stands in for a GPU and completes calls after drawn times; the
//!   paper's second case, without a GPU.
//! - [`packets`]: packets of another thread, periodic or announced by hints.
//!
//! [`assist::Assist`] is the engine to the first, [`accelerator::Connect`] the applications' library to the
//! second.

pub mod accelerator;
pub mod assist;
#[cfg(feature = "bpf")]
mod by_engine;
mod by_library;
#[cfg(feature = "bpf")]
mod by_live;
mod clock;
pub mod compare;
mod comparison;
pub mod packets;
pub mod policy;
pub mod result;
pub mod run;
pub mod show;
pub mod storage;
mod work;
