//! In place of the engine where the program was built without BPF.

use std::process::ExitCode;

use super::Args;
use crate::exit::Failure;

pub fn live(_: &Args) -> anyhow::Result<ExitCode> {
    Err(Failure::cannot(
        "this reveille was built without BPF, by which CPUs are woken in time; build it with clang \
         and libbpf-dev",
    ))
}
