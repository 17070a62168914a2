#![no_main]

use libfuzzer_sys::fuzz_target;
use reveille_expect::limits::Refusal;
use reveille_expect::protocol::{Answer, CloseReason, Request};
use reveille_expect::remote::{self, Announced, Invalid, Key};

// Decoded messages encode to the same bytes: no bytes are two messages.
fuzz_target!(|bytes: &[u8]| {
    let request = Request::decode(bytes);
    let answer = Answer::decode(bytes);
    assert!(request.is_err() || answer.is_err());
    if let Ok(request) = request {
        assert_eq!(request.encode().as_ref(), bytes);
    }
    if let Ok(answer) = answer {
        let encoded = answer.encode();
        assert_eq!(Answer::decode(encoded.as_ref()), Ok(answer));
        // A reason that is not known is read as `Other`.
        let is_other = matches!(
            answer,
            Answer::Refused {
                why: Refusal::Other,
                ..
            } | Answer::Closing {
                why: CloseReason::Other
            }
        );
        assert!(is_other || encoded.as_ref() == bytes);
    }
    // A signature that nothing checks is not kept.
    if let Ok((hint, stamp)) = remote::decode(bytes, None) {
        assert_eq!(remote::encode(&hint, &stamp, None), bytes[..32]);
        let key = Key::new(b"a key that the bytes lack");
        assert_eq!(remote::decode(bytes, Some(&key)), Err(Invalid::Signature));
    }
    if let Some(announced) = std::str::from_utf8(bytes).ok().and_then(Announced::parse) {
        let header = announced.header();
        let again = Announced::parse(&header).map(|again| again.header());
        assert_eq!(again, Some(header));
    }
});
