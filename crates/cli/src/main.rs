//! The program `reveille`.

use std::process::ExitCode;

fn main() -> ExitCode {
    reveille_cli::main()
}
