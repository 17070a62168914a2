#![no_main]

use libfuzzer_sys::fuzz_target;
use reveille_expect::protocol::{Answer, Request};

// Decoded messages encode to the same bytes: no bytes are two messages, no message has two encodings.
fuzz_target!(|bytes: &[u8]| {
    let request = Request::decode(bytes);
    let answer = Answer::decode(bytes);
    assert!(request.is_err() || answer.is_err());
    if let Ok(request) = request {
        assert_eq!(request.encode().as_ref(), bytes);
    }
    if let Ok(answer) = answer {
        assert_eq!(answer.encode().as_ref(), bytes);
    }
});
