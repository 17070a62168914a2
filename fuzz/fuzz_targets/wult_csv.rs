#![no_main]

use libfuzzer_sys::fuzz_target;
use reveille_results::read::{read_info_yml, read_wult_csv};

fuzz_target!(|bytes: &[u8]| {
    let _ = read_wult_csv(bytes, None);
    // Nanoseconds, and microseconds.
    for version in ["1.0", "1.3"] {
        let info = format!("toolname: wult\nformat_version: {version}\n");
        let info = read_info_yml(info.as_bytes()).expect("a known format");
        let _ = read_wult_csv(bytes, Some(&info));
    }
});
