#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use reveille_results::{Columns, Filter, read};

/// Two datapoints with columns of each kind, some values unknown.
static COLUMNS: LazyLock<Columns> = LazyLock::new(|| {
    let csv = "wake_latency_ns,silent_time_ns,requested_state,cc6_percent\n1,2,C1,99.5\n3,,,\n";
    read::read_csv(csv.as_bytes()).expect("the CSV above is one")
});

fuzz_target!(|text: &str| {
    match Filter::parse(text) {
        Ok(filter) => {
            let _ = filter.columns();
            if let Ok(kept) = filter.apply(&COLUMNS) {
                assert_eq!(kept.len(), COLUMNS.rows);
            }
        }
        Err(wrong) => assert_eq!(wrong.to_string().matches('\n').count(), 2),
    }
});
