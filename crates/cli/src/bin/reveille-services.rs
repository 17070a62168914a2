//! The program `reveille-services`, which `reveille` becomes for its services.

use std::process::ExitCode;

fn main() -> ExitCode {
    reveille_cli::services()
}
