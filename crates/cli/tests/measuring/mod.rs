//! What measures how CPUs sleep: `make test` runs it after all others, which load them.

mod anticipate_bench;
mod anticipate_packets;
mod measure;
mod power;
mod quiet;
