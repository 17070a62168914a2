//! Results on disk, their statistics and their pages.

mod damaged;
mod external_clock;
mod filter;
mod page;
mod results;
mod sample;
mod statistics;
mod thesis;
mod wult;
