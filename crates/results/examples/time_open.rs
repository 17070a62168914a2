//! Opens a result and says how long it took and how much memory: `time_open RESULT [COLUMN…]`.

use std::process::ExitCode;
use std::time::Instant;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let Some(result) = arguments.next() else {
        eprintln!("use: time_open RESULT [COLUMN…]");
        return ExitCode::from(2);
    };
    let columns: Vec<String> = arguments.collect();
    let names: Vec<&str> = columns.iter().map(String::as_str).collect();
    let started = Instant::now();
    let opened = match names.is_empty() {
        true => reveille_results::open(&result),
        false => reveille_results::open_columns(&result, &names),
    };
    let loaded = match opened {
        Ok(loaded) => loaded,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    };
    println!(
        "{} datapoints, {} columns, {:.3} s, peak memory {}",
        loaded.columns.rows,
        loaded.columns.columns.len(),
        started.elapsed().as_secs_f64(),
        peak_memory().unwrap_or_else(|| "unknown".to_owned()),
    );
    ExitCode::SUCCESS
}

/// `VmHWM` of /proc/self/status.
fn peak_memory() -> Option<String> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    Some(line.trim_start_matches("VmHWM:").trim().to_owned())
}
