//! What a page allows to run, as a browser reads it.

use sha2::{Digest, Sha256};

/// The content of each such element without attributes.
fn contents<'a>(html: &'a str, name: &str) -> Vec<&'a str> {
    let (begin, end) = (format!("<{name}>"), format!("</{name}>"));
    let parts = html.split(begin.as_str()).skip(1);
    parts
        .map(|part| part.split(end.as_str()).next().unwrap())
        .collect()
}

/// The bytes of a hash in base64 (RFC 4648, section 4).
fn decoded(text: &str) -> Vec<u8> {
    const DIGITS: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let (mut bytes, mut bits, mut count) = (Vec::new(), 0_u32, 0);
    for digit in text.trim_end_matches('=').chars() {
        bits = bits << 6 | DIGITS.find(digit).unwrap() as u32;
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
        }
    }
    bytes
}

/// Each of this many scripts, and the style, is in the policy by its hash; nothing else may run.
pub fn check(html: &str, scripts: usize) {
    let policy = html.split("Content-Security-Policy\" content=\"").nth(1);
    let policy = policy.unwrap().split('"').next().unwrap();
    assert!(policy.starts_with("default-src 'none';"), "{policy}");
    assert!(!policy.contains("unsafe"), "{policy}");
    for (element, count) in [("script", scripts), ("style", 1)] {
        let contents = contents(html, element);
        assert_eq!(contents.len(), count, "{element}");
        let rule = format!("{element}-src ");
        let mut rules = policy.split("; ").filter_map(|one| one.strip_prefix(&rule));
        let allowed: Vec<Vec<u8>> = rules
            .next()
            .unwrap()
            .split(' ')
            .map(|source| {
                decoded(
                    source
                        .strip_prefix("'sha256-")
                        .unwrap()
                        .trim_end_matches('\''),
                )
            })
            .collect();
        for content in contents {
            let hash = Sha256::digest(content).to_vec();
            assert!(allowed.contains(&hash), "{element}: {policy}");
        }
    }
    // These have no hash, and would be blocked.
    for attribute in [
        " style=",
        " onclick=",
        " onload=",
        " onerror=",
        "javascript:",
    ] {
        assert!(!html.contains(attribute), "{attribute}");
    }
}
