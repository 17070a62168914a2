//! The frame of every page. Pages are self-contained and forbid network access and other scripts. They
//! work in light and dark, on a phone, on paper and without a script.

use sha2::{Digest, Sha256};

use crate::markup::{escape, script_json};

const STYLE: &str = include_str!("../assets/page.css");
const SCRIPT: &str = include_str!("../assets/page.js");
/// The timelines of a suspend and a resume.
pub const RESUME_SCRIPT: &str = include_str!("../assets/resume.js");

/// The page's content security policy: no external resources, and no script or style but this crate's,
/// which their hashes identify (Content Security Policy Level 3, section 8.4).
fn policy() -> String {
    let [style, script, resume] = [STYLE, SCRIPT, RESUME_SCRIPT].map(hash);
    format!(
        "default-src 'none'; style-src {style}; script-src {script} {resume}; img-src data:; \
         base-uri 'none'; form-action 'none'"
    )
}

fn hash(content: &str) -> String {
    format!("'sha256-{}'", base64(&Sha256::digest(content)))
}

/// RFC 4648, section 4.
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for three in bytes.chunks(3) {
        let byte = |place: usize| u32::from(three.get(place).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for digit in 0..4 {
            text.push(match digit <= three.len() {
                true => char::from(DIGITS[(bits >> (18 - 6 * digit)) as usize % 64]),
                false => '=',
            });
        }
    }
    text
}

/// A whole page: the title, lines about the subject, the sections, and a note on the figures.
/// `outliers`: the datapoints that the script can show; may be an empty array.
pub fn framed(
    title: &str,
    about: &[String],
    body: &str,
    note: &str,
    outliers: &serde_json::Value,
) -> String {
    [
        head(title).as_str(),
        &header(title, about),
        body,
        &foot(note, outliers),
    ]
    .concat()
}

/// Whether this is the beginning of a page made by [`framed`], which may be overwritten.
pub fn is_page(beginning: &str) -> bool {
    beginning.contains("<meta name=\"generator\" content=\"reveille ")
}

fn head(title: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{}\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <meta name=\"color-scheme\" content=\"light dark\">\
         <meta name=\"generator\" content=\"reveille {}\">\
         <link rel=\"icon\" href=\"data:,\"><title>{}</title><style>{STYLE}</style></head><body>",
        policy(),
        env!("CARGO_PKG_VERSION"),
        escape(title)
    )
}

/// The title, and a line about the measurement.
fn header(title: &str, about: &[String]) -> String {
    let lines: String = about
        .iter()
        .map(|line| format!("<p class=\"about\">{}</p>", escape(line)))
        .collect();
    format!(
        "<header><h1>{}</h1><button id=\"theme\" type=\"button\" hidden>Theme: automatic</button>\
         {lines}</header><main>",
        escape(title)
    )
}

fn foot(note: &str, outliers: &serde_json::Value) -> String {
    let data = script_json(outliers);
    format!(
        "</main><footer><p>{} Made by reveille {}.</p></footer>\
         <div id=\"reading\" role=\"status\" aria-live=\"polite\" hidden></div>\
         <script type=\"application/json\" id=\"outliers\">{data}</script>\
         <script>{SCRIPT}</script></body></html>\n",
        escape(note),
        env!("CARGO_PKG_VERSION")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_that_of_the_standard() {
        // RFC 4648, section 10.
        for (bytes, text) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
        // echo -n alert | openssl dgst -sha256 -binary | base64
        assert_eq!(
            hash("alert"),
            "'sha256-35BQWN1npAn++BSA6B5HNlcrDttNf7mHxpXNB+Jg7IE='"
        );
    }
}
