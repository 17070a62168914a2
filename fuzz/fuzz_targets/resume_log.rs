#![no_main]

use libfuzzer_sys::fuzz_target;
use reveille_resume::log;

// A dmesg, a syslog, a journal or a trace of any bytes.
fuzz_target!(|bytes: &[u8]| {
    // What is no text is refused.
    let Ok(read) = log::read(bytes) else {
        return;
    };
    assert_eq!(read.bytes, bytes.len() as u64);
    for (at, cycle) in read.cycles.iter().enumerate() {
        assert_eq!(cycle.number, at + 1);
        let kinds = cycle.stages.windows(2);
        assert!(kinds.into_iter().all(|pair| pair[0].kind < pair[1].kind));
        assert!(cycle.stages.iter().all(|stage| stage.start <= stage.end));
        assert!(cycle.calls.iter().all(|call| call.start.or(call.end).is_some()));
    }
});
