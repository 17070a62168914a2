#![no_main]

use libfuzzer_sys::fuzz_target;
use reveille_govern::Rules;

// Rules of the service: refused in one line, or with words for each.
fuzz_target!(|text: &str| {
    match Rules::parse(text) {
        Ok(rules) => {
            for rule in rules.rules {
                assert!(!rule.when.to_string().contains(char::is_control));
            }
        }
        Err(error) => assert!(!error.contains(char::is_control)),
    }
});
