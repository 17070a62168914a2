//! Escaping text of results for pages. Host names, state names and notes come from elsewhere: they
//! must not become markup or script.

use crate::terminal::is_control;

/// `text` as the content of an element or of a quoted attribute.
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            // Control characters are not allowed in HTML, and could hide text.
            control if is_control(control) && control != '\n' && control != '\t' => {
                escaped.push('\u{fffd}');
            }
            other => escaped.push(other),
        }
    }
    escaped
}

/// A sentence as the content of an element; what is between backquotes is code.
pub fn prose(text: &str) -> String {
    let mut html = String::with_capacity(text.len());
    let mut parts = escape(text);
    while let Some((before, code, after)) = parts.split_once('`').and_then(|(before, rest)| {
        rest.split_once('`')
            .map(|(code, after)| (before, code, after))
    }) {
        html.extend([before, "<code>", code, "</code>"]);
        parts = after.to_owned();
    }
    html + &parts
}

/// `value` as JSON for a `<script>` element: without `<`, so that it contains neither `</script>` nor
/// `<!--` (HTML standard, 4.12.1.3), and without line separators that older scripts do not accept.
pub fn script_json(value: &serde_json::Value) -> String {
    let json = value.to_string();
    let mut safe = String::with_capacity(json.len());
    for character in json.chars() {
        match character {
            // These occur in JSON only inside strings, where the escape means the same.
            '<' => safe.push_str("\\u003c"),
            '>' => safe.push_str("\\u003e"),
            '&' => safe.push_str("\\u0026"),
            '\u{2028}' => safe.push_str("\\u2028"),
            '\u{2029}' => safe.push_str("\\u2029"),
            other => safe.push(other),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_cannot_become_markup() {
        assert_eq!(
            escape("<b a=\"x\" b='y'>&\u{7}"),
            "&lt;b a=&quot;x&quot; b=&#39;y&#39;&gt;&amp;\u{fffd}"
        );
    }

    #[test]
    fn only_pairs_of_backquotes_make_code() {
        assert_eq!(
            prose("`a` < `b` and `c"),
            "<code>a</code> &lt; <code>b</code> and `c"
        );
    }

    #[test]
    fn json_cannot_end_its_script_and_means_the_same() {
        let value = serde_json::json!({ "name": "</script><!--&\u{2028}" });
        let json = script_json(&value);
        assert!(!json.contains('<') && !json.contains('&') && !json.contains('\u{2028}'));
        assert_eq!(
            serde_json::from_str::<serde_json::Value>(&json).unwrap(),
            value
        );
    }
}
