//! In place of the engine where the program was built without BPF.

use std::process::ExitCode;

use reveille_anticipate::bench::{Assist, accelerator::Connect};

use super::Args;
use crate::exit::Failure;

pub fn live(_: &Args) -> anyhow::Result<ExitCode> {
    Err(Failure::cannot(
        "this reveille was built without BPF, by which CPUs are woken in time; build it with clang \
         and libbpf-dev",
    ))
}

/// None.
pub fn assist() -> Option<Box<dyn Assist>> {
    None
}

/// None.
pub fn connect() -> Option<Box<dyn Connect>> {
    None
}
