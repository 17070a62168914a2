#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use reveille_results::show::{self, Input, Views};
use reveille_results::{Description, Loaded, read};
use reveille_show::{page::is_page, web};

/// Without statistics: they are calculated from the datapoints.
static DESCRIPTION: LazyLock<Description> = LazyLock::new(|| {
    let text = include_bytes!("../seeds/description/small.json");
    let mut description = read::read_description(text).expect("the seed is one");
    description.statistics.clear();
    description
});

// Any datapoints make a page: statistics, verdicts and charts of any
// numbers.
fuzz_target!(|bytes: &[u8]| {
    let Ok(columns) = read::read_csv(bytes) else {
        return;
    };
    let description = DESCRIPTION.clone();
    if let Ok(input) = Input::new(Loaded {
        description,
        columns,
    }) {
        let inputs = [input];
        let views = Views::of(&inputs).expect("what can be an input has a page");
        let sheet = show::sheet(&views, None);
        assert!(is_page(&web::page(&sheet)));
    }
});
