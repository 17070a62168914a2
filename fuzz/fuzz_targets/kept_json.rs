#![no_main]

use libfuzzer_sys::fuzz_target;
use reveille_report::{anticipate, cost, is_page, path, resume, trial};

// What `cost`, `path`, `trial`, `anticipate bench` and `resume analyze` keep: refused in a line, or a page. Each
// reader is given each file, since the name is all that tells them apart.
fuzz_target!(|bytes: &[u8]| {
    for made in [
        anticipate::page(bytes, None),
        cost::page(bytes, None),
        path::page(bytes, None),
        resume::from_json(bytes, None),
        trial::page(bytes, None),
    ] {
        match made {
            Ok(page) => assert!(is_page(&page)),
            Err(why) => assert!(!why.contains('\n')),
        }
    }
});
