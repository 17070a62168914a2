//! Commands on other machines, by the ssh program.
//!
//! The near side ([`run`]) starts one `ssh` a host. There a small shell script (`script.sh`) receives this program if
//! the machine does not have it, into a private folder, and runs it as [`far::run`]. That runs the real command in
//! the folder and sends its output, progress and files in frames as they come, so that what was gathered is on
//! the near side when the connection is lost. A far side that hears nothing ends the command as Ctrl-C does, and undoes
//! what a killed one left changed. It keeps the folder for some seconds, in which the near side connects again and
//! fetches the rest (`rest.sh`, [`far::rest`]), and removes it.

pub mod far;
mod files;
mod frames;
mod host;
mod near;
mod program;
mod ssh;

pub use files::Received;
pub use frames::Frame;
pub use host::Host;
pub use near::{Ended, Near, Request, run};
pub use program::Program;
