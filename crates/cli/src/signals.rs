//! Signals that end this program.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::Context;
use nix::libc;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};

/// What ends a command that goes on: a closed terminal, Ctrl-C, Ctrl-\, `kill`.
pub const ENDING: [i32; 4] = [SIGHUP, SIGINT, SIGQUIT, SIGTERM];

/// Becomes true when this process is to end.
///
/// # Errors
/// Where the kernel refuses a handler.
pub fn stop() -> anyhow::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in not_ignored(&ENDING) {
        signal_hook::flag::register(signal, stop.clone()).context("signals")?;
    }
    Ok(stop)
}

/// A write beyond the limit on a file's size (`ulimit -f`) fails, as on a full disk, and does not kill
/// this process before settings are put back. A handler: what is ignored, programs would inherit.
pub fn survive_size_limits() {
    for signal in not_ignored(&[libc::SIGXFSZ]) {
        // SAFETY: the handler does nothing. Where the kernel refuses it, it stays as it is.
        let _ = unsafe { signal_hook::low_level::register(signal, || ()) };
    }
}

/// Those of the signals that this process was not started to ignore, which it goes on ignoring:
/// `nohup` has a closed terminal end neither it nor its command, and a shell without job control has
/// Ctrl-C not end what runs in the background.
pub fn not_ignored(signals: &[i32]) -> Vec<i32> {
    let is_heeded = |&&signal: &&i32| {
        // SAFETY: all zeros are a valid sigaction, for the kernel to write over.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        // SAFETY: without a new action the call only reads the present one.
        let read = unsafe { libc::sigaction(signal, std::ptr::null(), &raw mut action) };
        read < 0 || action.sa_sigaction != libc::SIG_IGN
    };
    signals.iter().filter(is_heeded).copied().collect()
}
