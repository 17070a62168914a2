//! Signals that end this program, and one that is to end nothing.

use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::Context;
use nix::libc;
use reveille_show::terminal;
use signal_hook::consts::{
    SIGABRT, SIGALRM, SIGHUP, SIGINT, SIGIO, SIGPROF, SIGQUIT, SIGSYS, SIGTERM, SIGTRAP, SIGUSR1,
    SIGUSR2, SIGVTALRM, SIGXCPU, SIGXFSZ,
};

/// What ends a command that goes on: a closed terminal, Ctrl-C, Ctrl-\, `kill`, a limit of CPU time
/// (`ulimit -t`), and all others by which the kernel would end it at once, with the machine's settings
/// left as it had changed them (signal(7)), the real-time ones too. Not those of a fault of the
/// program itself (SIGSEGV, ...), and none that this process was started to ignore.
///
/// From now on none of them leaves this program waiting for a terminal that takes nothing.
pub fn ending() -> Vec<i32> {
    let standard = [
        SIGHUP,
        SIGINT,
        SIGQUIT,
        SIGTERM,
        SIGXCPU,
        SIGUSR1,
        SIGUSR2,
        SIGALRM,
        SIGVTALRM,
        SIGPROF,
        SIGIO,
        SIGABRT,
        SIGTRAP,
        SIGSYS,
        libc::SIGPWR,
        libc::SIGSTKFLT,
    ];
    let real_time = libc::SIGRTMIN()..=libc::SIGRTMAX();
    let signals = not_ignored(standard.into_iter().chain(real_time));
    for signal in &signals {
        // Where the kernel refuses a handler, the caller reports it.
        let _ = signal_hook::flag::register(*signal, terminal::ends());
    }
    signals
}

/// Whether SIGHUP ends a service: it has a terminal, which may have been closed. Without one it reads its file again.
pub fn hangup_ends() -> bool {
    !not_ignored([SIGHUP]).is_empty() && File::open("/dev/tty").is_ok()
}

/// Has a file that would grow beyond a limit (`ulimit -f`) be an error of who writes it, as a full
/// disk is. By a handler that does nothing: to ignore the signal would be inherited by commands.
///
/// # Errors
/// Where the kernel refuses a handler.
pub fn survive_file_size_limit() -> anyhow::Result<()> {
    for signal in not_ignored([SIGXFSZ]) {
        signal_hook::flag::register(signal, Arc::default()).context("signals")?;
    }
    Ok(())
}

/// Becomes true when this process is to end.
///
/// # Errors
/// Where the kernel refuses a handler.
pub fn stop() -> anyhow::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in ending() {
        signal_hook::flag::register(signal, stop.clone()).context("signals")?;
    }
    Ok(stop)
}

/// Those of the signals that this process was not started to ignore, which it goes on ignoring:
/// `nohup` has a closed terminal end neither it nor its command, and a shell without job control has
/// Ctrl-C not end what runs in the background.
pub fn not_ignored(signals: impl IntoIterator<Item = i32>) -> Vec<i32> {
    let is_heeded = |&signal: &i32| {
        // SAFETY: all zeros are a valid sigaction, for the kernel to write over.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        // SAFETY: without a new action the call only reads the present one.
        let read = unsafe { libc::sigaction(signal, std::ptr::null(), &raw mut action) };
        read < 0 || action.sa_sigaction != libc::SIG_IGN
    };
    signals.into_iter().filter(is_heeded).collect()
}
