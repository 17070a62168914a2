//! Names of threads, as programs have them.

use std::ffi::c_char;

/// The name of a thread (`comm`), without what must not reach a terminal.
pub fn thread_name(comm: &[c_char]) -> String {
    let bytes: Vec<u8> = comm
        .iter()
        .map(|c| *c as u8)
        .take_while(|c| *c != 0)
        .collect();
    String::from_utf8_lossy(&bytes).replace(char::is_control, " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_steer_the_terminal_that_shows_it() {
        let comm = *b"a\x1b[2Jb\0left over";
        assert_eq!(thread_name(&comm.map(|byte| byte as c_char)), "a [2Jb");
    }
}
