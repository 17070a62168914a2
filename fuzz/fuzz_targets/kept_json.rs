#![no_main]

use libfuzzer_sys::fuzz_target;
use reveille_anticipate::bench;
use reveille_power::{cpus, states};
use reveille_quiet::find;
use reveille_resume::analysis;
use reveille_show::page::is_page;
use reveille_show::web::page;
use reveille_stage::bench as stage;
use reveille_trial::{result, show};
use reveille_watch::{cost, path};

// What `cost`, `path`, `trial`, `anticipate bench`, `power`, `quiet find`, `stage bench` and
// `resume analyze` keep: refused in a line, or a page. Every reader gets every file, because only the name distinguishes them.
fuzz_target!(|bytes: &[u8]| {
    for made in [
        bench::result::parse(bytes).map(|one| page(&bench::show::sheet(&one))),
        cost::read(bytes).map(|cost| page(&cost::show::sheet(&cost))),
        path::read(bytes).map(|path| page(&path::show::sheet(&path))),
        analysis::read(bytes).map(|one| page(&reveille_resume::show::sheet(&one, None))),
        cpus::parse(bytes).map(|one| page(&cpus::show::sheet(&one))),
        states::parse(bytes).map(|one| page(&states::show::sheet(&one))),
        find::parse(bytes).map(|one| page(&find::show::sheet(&one))),
        stage::result::parse(bytes).map(|one| page(&stage::show::sheet(&one))),
        result::parse(bytes).map(|trial| page(&show::sheet(&trial))),
    ] {
        match made {
            Ok(page) => assert!(is_page(&page)),
            Err(why) => assert!(!why.contains('\n')),
        }
    }
});
