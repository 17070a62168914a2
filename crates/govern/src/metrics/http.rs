//! As much of HTTP/1.1 as a scrape needs: one GET of `/metrics` a connection.

use reveille_show::exposition::CONTENT_TYPE;

/// Longer requests are refused. Prometheus' own take some hundred bytes, those of a browser 2 KiB.
pub const REQUEST_MAX: usize = 8 << 10;

/// The path of the metrics.
const PATH: &str = "/metrics";

/// What a request gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// The metrics.
    Metrics,
    /// The metrics' head alone, as HEAD asks.
    Head,
    /// A refusal: the status, and why.
    Refusal(&'static str, &'static str),
}

/// The answer to what has come of a request; `None`: more is to come.
pub fn answer(request: &[u8]) -> Option<Answer> {
    let has = |end: &[u8]| request.windows(end.len()).any(|part| part == end);
    if !has(b"\r\n\r\n") && !has(b"\n\n") {
        return (request.len() >= REQUEST_MAX).then_some(Answer::Refusal(
            "431 Request Header Fields Too Large",
            "the request is longer than 8 KiB",
        ));
    }
    let line = request.split(|byte| *byte == b'\n').next().unwrap_or(&[]);
    let line = str::from_utf8(line).unwrap_or("").trim_end_matches('\r');
    let words: Vec<&str> = line.split(' ').collect();
    let &[method, target, version] = words.as_slice() else {
        return Some(Answer::Refusal("400 Bad Request", "no request of HTTP/1.1"));
    };
    let path = target.split('?').next();
    Some(match method {
        _ if !version.starts_with("HTTP/1.") => {
            Answer::Refusal("505 HTTP Version Not Supported", "HTTP/1.1 is spoken here")
        }
        "GET" | "HEAD" if path != Some(PATH) => {
            Answer::Refusal("404 Not Found", "the metrics are at /metrics")
        }
        "GET" => Answer::Metrics,
        "HEAD" => Answer::Head,
        _ => Answer::Refusal("405 Method Not Allowed", "GET /metrics"),
    })
}

/// The bytes of the answer to a request for the metrics, of which this is the text; the head's length.
pub fn metrics(text: &str) -> (Vec<u8>, usize) {
    let head = head("200 OK", CONTENT_TYPE, text.len());
    let length = head.len();
    ((head + text).into_bytes(), length)
}

/// The bytes of a refusal.
pub fn refusal(status: &str, why: &str) -> Vec<u8> {
    let text = format!("{why}\n");
    (head(status, "text/plain; charset=utf-8", text.len()) + &text).into_bytes()
}

fn head(status: &str, kind: &str, length: usize) -> String {
    let allow = match status.starts_with("405") {
        true => "Allow: GET, HEAD\r\n",
        false => "",
    };
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n{allow}\
         Cache-Control: no-store\r\nConnection: close\r\n\r\n"
    )
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn status(request: &str) -> &'static str {
        match answer(request.as_bytes()) {
            None => "more",
            Some(Answer::Metrics) => "200",
            Some(Answer::Head) => "head",
            Some(Answer::Refusal(status, _)) => &status[..3],
        }
    }

    #[test]
    fn only_the_metrics_are_served_and_to_requests_that_have_ended() {
        for (request, expected) in [
            ("GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n", "200"),
            ("GET /metrics?a=b HTTP/1.0\r\n\r\n", "200"),
            ("GET /metrics HTTP/1.1\n\n", "200"),
            ("HEAD /metrics HTTP/1.1\r\n\r\n", "head"),
            ("GET /metrics HTTP/1.1\r\nHost: a\r\n", "more"),
            ("", "more"),
            ("GET / HTTP/1.1\r\n\r\n", "404"),
            ("GET /metrics/../../etc/passwd HTTP/1.1\r\n\r\n", "404"),
            ("POST /metrics HTTP/1.1\r\n\r\n", "405"),
            ("GET /metrics HTTP/2\r\n\r\n", "505"),
            ("GET /metrics\r\n\r\n", "400"),
            ("\r\n\r\n", "400"),
            ("GET  /metrics HTTP/1.1\r\n\r\n", "400"),
        ] {
            assert_eq!(status(request), expected, "{request:?}");
        }
        let long = "x".repeat(REQUEST_MAX);
        assert_eq!(status(&long[1..]), "more");
        assert_eq!(status(&long), "431");
        assert_eq!(
            answer(b"\xff\xfe /metrics HTTP/1.1\r\n\r\n").map(|_| ()),
            Some(())
        );
    }

    #[test]
    fn an_answer_has_the_length_that_it_announces() {
        let (bytes, head) = metrics("äb\n");
        let text = String::from_utf8(bytes.clone()).unwrap();
        assert!(text.contains("\r\nContent-Length: 4\r\n"), "{text}");
        assert!(bytes[..head].ends_with(b"\r\n\r\n"));
        assert_eq!(&bytes[head..], "äb\n".as_bytes());
    }

    proptest! {
        #[test]
        fn any_bytes_have_an_answer(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = answer(&bytes);
        }
    }
}
