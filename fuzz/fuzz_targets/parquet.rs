#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(
    init: {
        // libFuzzer's own hook ends the process. A panic of the parquet crate that the reader turns
        // into an error is not a fault of ours.
        let end = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !reveille_results::panic_becomes_an_error() {
                end(info);
            }
        }));
    },
    |bytes: &[u8]| {
        let _ = reveille_results::read::read_parquet(bytes::Bytes::copy_from_slice(bytes));
    }
);
