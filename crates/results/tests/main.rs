//! Results on disk, their statistics and their pages.

mod damaged;
mod filter;
mod page;
mod results;
mod sample;
mod statistics;
mod thesis;
mod wult;
