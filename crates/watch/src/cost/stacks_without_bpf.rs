//! In place of the stacks where the program was built without BPF.

use reveille_kernel::Root;

use super::tallies::StackSums;

/// Empty: without BPF there are no stacks.
#[derive(Debug, Default)]
pub struct Maps {}

impl Maps {
    /// Reads nothing.
    pub fn look(&mut self, _: &Root, _: &[u32]) {}

    /// Files that could not be opened: none is tried.
    pub fn unopened(&self) -> usize {
        0
    }
}

/// No lines.
pub fn fold(_: &[StackSums], _: &Maps) -> String {
    String::new()
}
