//! What a proxy changes in headers, and the deadlines in them.

use std::net::IpAddr;
use std::time::Duration;

use hyper::header::{
    CONNECTION, EXPECT, HeaderMap, HeaderName, HeaderValue, TE, TRANSFER_ENCODING, UPGRADE, VIA,
};

/// The time that a gRPC client waits: `500m` is 500 ms.
const GRPC_TIMEOUT: HeaderName = HeaderName::from_static("grpc-timeout");
/// The time that an Envoy in front waits, ms.
const ENVOY_TIMEOUT: HeaderName = HeaderName::from_static("x-envoy-expected-rq-timeout-ms");
/// The deadline of a request for this proxy, ms.
const DEADLINE: HeaderName = HeaderName::from_static("x-reveille-deadline-ms");
const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
const HTTP2_SETTINGS: HeaderName = HeaderName::from_static("http2-settings");

/// This proxy's name in Via.
fn own_name() -> String {
    format!("1.1 reveille-stage-{}", std::process::id())
}

/// Whether a request went through this process before.
pub fn went_through_here(headers: &HeaderMap) -> bool {
    let own = own_name();
    let all = headers
        .get_all(VIA)
        .iter()
        .filter_map(|value| value.to_str().ok());
    all.flat_map(|value| value.split(','))
        .any(|one| one.trim() == own)
}

/// What is left of the time that a client waits for the way to it and back, and for the end of the response: its clock began
/// before the request came.
const OF_CLIENT: f64 = 0.9;

/// The least time that a request's headers give; `None` without such a header, or with one in other words.
pub fn deadline(headers: &HeaderMap) -> Option<Duration> {
    let text = |name: &HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    let ms = |name: &HeaderName| text(name)?.parse().ok().map(Duration::from_millis);
    let grpc = text(&GRPC_TIMEOUT).and_then(grpc_timeout);
    let of_client = |time: Option<Duration>| time.map(|time| time.mul_f64(OF_CLIENT));
    [
        of_client(grpc),
        of_client(ms(&ENVOY_TIMEOUT)),
        ms(&DEADLINE),
    ]
    .into_iter()
    .flatten()
    .min()
}

/// Up to eight digits and a unit (gRPC over HTTP/2, "Requests").
fn grpc_timeout(text: &str) -> Option<Duration> {
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let is_count =
        (1..=8).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit());
    let count: u64 = digits.parse().ok().filter(|_| is_count)?;
    Some(match unit {
        "H" => Duration::from_secs(count * 3600),
        "M" => Duration::from_secs(count * 60),
        "S" => Duration::from_secs(count),
        "m" => Duration::from_millis(count),
        "u" => Duration::from_micros(count),
        "n" => Duration::from_nanos(count),
        _ => return None,
    })
}

/// Whether the client sends the body only once it is asked for.
pub fn waits_to_be_asked(headers: &HeaderMap) -> bool {
    let expect = headers.get(EXPECT).map(HeaderValue::as_bytes);
    expect.is_some_and(|expect| expect.eq_ignore_ascii_case(b"100-continue"))
}

/// Removes what is between two neighbours only (RFC 9110, section 7.6.1).
pub fn remove_hop_by_hop(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    // A gRPC server refuses requests whose client does not take trailers.
    let takes_trailers = headers
        .get(TE)
        .is_some_and(|te| te.as_bytes().eq_ignore_ascii_case(b"trailers"));
    for name in named {
        headers.remove(name);
    }
    for name in [
        CONNECTION,
        HeaderName::from_static("keep-alive"),
        HeaderName::from_static("proxy-connection"),
        TE,
        TRANSFER_ENCODING,
        UPGRADE,
        HTTP2_SETTINGS,
    ] {
        headers.remove(name);
    }
    if takes_trailers {
        headers.insert(TE, HeaderValue::from_static("trailers"));
    }
}

/// Adds whose request it is, and that it went through here. What proxies before have added stays.
pub fn add_forwarded(headers: &mut HeaderMap, client: IpAddr, is_tls: bool) {
    let before = headers.get_all(&FORWARDED_FOR).iter();
    let mut all: Vec<String> = before
        .filter_map(|value| value.to_str().ok().map(str::to_owned))
        .collect();
    all.push(client.to_string());
    if let Ok(value) = HeaderValue::from_str(&all.join(", ")) {
        headers.insert(FORWARDED_FOR, value);
    }
    // TLS may have ended in front of this proxy.
    let mut before = headers.get_all(&FORWARDED_PROTO).iter();
    let was_tls = before.next().is_some_and(|one| one == "https") && before.next().is_none();
    let protocol = if is_tls || was_tls { "https" } else { "http" };
    headers.insert(FORWARDED_PROTO, HeaderValue::from_static(protocol));
    if let Ok(own) = HeaderValue::from_str(&own_name()) {
        headers.append(VIA, own);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(all: &[(&'static str, &'static str)]) -> HeaderMap {
        let all = all.iter().map(|(name, value)| {
            let name = HeaderName::from_static(name);
            (name, HeaderValue::from_static(value))
        });
        let mut headers = HeaderMap::new();
        for (name, value) in all {
            headers.append(name, value);
        }
        headers
    }

    #[test]
    fn the_shortest_deadline_counts() {
        let ms = Duration::from_millis;
        let of = |all: &[(&'static str, &'static str)]| deadline(&headers(all));
        assert_eq!(of(&[]), None);
        assert_eq!(
            of(&[("grpc-timeout", "250m"), ("x-reveille-deadline-ms", "300")]),
            Some(ms(225))
        );
        assert_eq!(of(&[("grpc-timeout", "2S")]), Some(ms(1800)));
        assert_eq!(
            of(&[
                ("x-envoy-expected-rq-timeout-ms", "15"),
                ("grpc-timeout", "1H")
            ]),
            Some(Duration::from_micros(13_500))
        );
        for wrong in ["", "m", "5", "-5m", "+5m", "123456789m", "5ä", "5 m", "5x"] {
            assert_eq!(grpc_timeout(wrong), None, "{wrong}");
        }
        assert_eq!(
            grpc_timeout("99999999H"),
            Some(Duration::from_secs(99_999_999 * 3600))
        );
    }

    #[test]
    fn what_is_for_the_neighbour_stays_there() {
        let mut all = headers(&[
            ("connection", "close, x-mine"),
            ("x-mine", "1"),
            ("te", "trailers"),
            ("transfer-encoding", "chunked"),
            ("upgrade", "h2c"),
            ("keep-alive", "5"),
            ("accept", "*/*"),
        ]);
        remove_hop_by_hop(&mut all);
        let mut names: Vec<&str> = all.keys().map(HeaderName::as_str).collect();
        names.sort_unstable();
        assert_eq!(names, ["accept", "te"]);
    }

    #[test]
    fn a_client_is_added_to_those_before() {
        let mut all = headers(&[
            ("x-forwarded-for", "10.0.0.1"),
            ("x-forwarded-proto", "gopher"),
        ]);
        assert!(!went_through_here(&all));
        add_forwarded(&mut all, "::1".parse().unwrap(), false);
        assert_eq!(all[&FORWARDED_FOR], "10.0.0.1, ::1");
        assert_eq!(all[&FORWARDED_PROTO], "http");
        assert!(went_through_here(&all));
        let mut all = headers(&[
            ("x-forwarded-for", "forged"),
            ("x-forwarded-for", "10.0.0.1"),
            ("x-forwarded-proto", "https"),
        ]);
        add_forwarded(&mut all, "::1".parse().unwrap(), false);
        assert_eq!(all[&FORWARDED_FOR], "forged, 10.0.0.1, ::1");
        assert_eq!(all[&FORWARDED_PROTO], "https");
    }
}
