//! What is staged: services, where they listen, and which servers answer them.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use http::Uri;
use http::uri::Scheme;
use reveille_kernel::{Error, Result, files};
use reveille_results::statistics::Percentile;
use reveille_show::parse;
use serde::{Deserialize, Deserializer};

use crate::queue::Mode;

/// Longer files are no configuration.
const BYTES_MAX: u64 = 1 << 20;

/// All that one process serves.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// In the file's order; names and addresses differ.
    #[serde(rename = "service")]
    pub services: Vec<Service>,
}

/// A service: requests to one address.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Service {
    /// As metrics and messages call it.
    pub name: String,
    /// Where clients connect to.
    pub listen: SocketAddr,
    /// The servers that answer, in turn.
    #[serde(rename = "upstream")]
    pub upstreams: Vec<Upstream>,
    /// A request is answered within this time from its arrival on.
    #[serde(deserialize_with = "time")]
    pub deadline: Duration,
    /// The share of requests that must be.
    #[serde(default = "usual_percentile", deserialize_with = "percentile")]
    pub percentile: Percentile,
    /// Paths whose requests are never held.
    #[serde(default)]
    pub exempt: Vec<Pattern>,
    /// Instead of by deadlines, requests are released at the multiples of this time.
    #[serde(default, deserialize_with = "some_time")]
    pub grid: Option<Duration>,
    /// Nothing is held.
    #[serde(default)]
    pub direct: bool,
    /// `HOST:PORT` where the server's machine takes hints (`reveille anticipate --hints`).
    pub hints: Option<String>,
    /// The key of these hints.
    pub hint_key: Option<PathBuf>,
    /// Clients speak TLS, with this certificate.
    pub tls: Option<Tls>,
}

/// The service's certificate.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tls {
    /// The chain, PEM.
    pub certificate: PathBuf,
    /// The private key, PEM.
    pub key: PathBuf,
}

/// `http://HOST:PORT`, `https://HOST`, or `h2c://HOST:PORT`, which is HTTP/2 without TLS; `unix:PATH` or `unix+h2c:PATH`, a
/// Unix socket of this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Upstream {
    /// Scheme (http or https), host and port. Of a Unix socket the host stands for its path.
    pub uri: Uri,
    /// Without asking: as gRPC servers want it.
    pub http2: bool,
}

/// What ends the host of a Unix socket: a name that no network has (RFC 2606).
const SOCKET: &str = ".unix-socket.invalid";
/// Of a Unix socket's path, and a 0 (unix(7)).
const PATH_MAX: usize = 108;

/// The Unix socket of an upstream's URI; `None` for one in the network.
pub fn socket_of(uri: &Uri) -> Option<PathBuf> {
    let hex = uri.host()?.strip_suffix(SOCKET)?;
    let bytes = (0..hex.len()).step_by(2);
    let bytes = bytes.map(|at| u8::from_str_radix(hex.get(at..at + 2)?, 16).ok());
    let bytes: Option<Vec<u8>> = bytes.collect();
    Some(PathBuf::from(OsString::from_vec(bytes?)))
}

/// A path; `*` is any text.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Pattern(pub String);

impl Config {
    /// Reads a file.
    ///
    /// # Errors
    /// [`Error::Unreadable`] for wrong content, with the line; [`Error::Io`].
    pub fn read(path: &Path) -> Result<Self> {
        let unreadable = |why: String| Error::Unreadable {
            path: path.to_owned(),
            why,
        };
        let text = String::from_utf8(files::read(path, BYTES_MAX)?);
        let text = text.map_err(|_| unreadable("is not UTF-8 text".into()))?;
        let config: Self = toml::from_str(&text).map_err(|error| {
            unreadable(parse::in_one_line(&text, error.span(), error.message()))
        })?;
        config.check().map_err(unreadable)?;
        Ok(config)
    }

    /// What is wrong with it, in one line.
    ///
    /// # Errors
    /// Names or addresses of two services that are one, or a service that cannot be.
    pub fn check(&self) -> std::result::Result<(), String> {
        if self.services.is_empty() {
            return Err("no service".into());
        }
        for (nth, service) in self.services.iter().enumerate() {
            let name = &service.name;
            let before = &self.services[..nth];
            if before.iter().any(|other| other.name == *name) {
                return Err(format!("two services are called {name}"));
            }
            if before.iter().any(|other| other.listen == service.listen) {
                return Err(format!("two services listen at {}", service.listen));
            }
            service
                .check()
                .map_err(|why| format!("service {name}: {why}"))?;
        }
        Ok(())
    }
}

impl Service {
    fn check(&self) -> std::result::Result<(), String> {
        match self {
            one if one.upstreams.is_empty() => Err("no upstream".into()),
            one if one.deadline.is_zero() => Err("a deadline of 0 cannot be kept".into()),
            one if one.grid.is_some_and(|grid| grid.is_zero()) => Err("a grid of 0".into()),
            one if one.direct && one.grid.is_some() => Err("`direct` has no `grid`".into()),
            one if one.hints.is_some() && !one.direct => Err(
                "`hints` are for `direct`: a request that is held wakes the server when it is released"
                    .into(),
            ),
            one if one.hints.is_some() && one.upstreams.len() > 1 => {
                Err("`hints` are for one upstream".into())
            }
            one if one.hints.is_some() && one.upstreams[0].socket().is_some() => {
                Err("`hints` are for an upstream with a port".into())
            }
            one if one.hint_key.is_some() && one.hints.is_none() => {
                Err("`hint_key` without `hints`".into())
            }
            _ => Ok(()),
        }
    }

    /// How its requests are released.
    pub fn mode(&self) -> Mode {
        match (self.direct, self.grid) {
            (true, _) => Mode::Direct,
            (false, Some(grid)) => Mode::Grid(grid),
            (false, None) => Mode::Staged,
        }
    }

    /// The share of requests that must keep to the deadline, 0 to 1.
    pub fn share(&self) -> f64 {
        let percent: f64 = self.percentile.percent().parse().expect("a number");
        percent / 100.0
    }

    /// Is a request for that path never held?
    pub fn is_exempt(&self, path: &str) -> bool {
        self.exempt.iter().any(|pattern| pattern.covers(path))
    }
}

impl Pattern {
    /// Is `*` for some text in it that makes it `path`?
    pub fn covers(&self, path: &str) -> bool {
        let mut parts = self.0.split('*');
        let first = parts.next().unwrap_or_default();
        let Some(mut left) = path.strip_prefix(first) else {
            return false;
        };
        let mut parts = parts.peekable();
        if parts.peek().is_none() {
            return left.is_empty();
        }
        while let Some(part) = parts.next() {
            if parts.peek().is_none() {
                return left.ends_with(part);
            }
            match left.find(part) {
                Some(at) => left = &left[at + part.len()..],
                None => return false,
            }
        }
        true
    }
}

impl std::str::FromStr for Upstream {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let wrong = || {
            format!(
                "`{text}` is no upstream, such as http://127.0.0.1:8080, https://HOST, h2c://HOST:PORT, h2://HOST or \
                 unix:/PATH"
            )
        };
        if let Some((scheme @ ("unix" | "unix+h2c"), path)) = text.split_once(':') {
            if !path.starts_with('/') || path.contains('\0') {
                return Err(wrong());
            }
            if path.len() >= PATH_MAX {
                return Err(format!(
                    "`{text}`: the path of a Unix socket has at most {} bytes",
                    PATH_MAX - 1
                ));
            }
            // A server may make it later.
            let at = Path::new(path).metadata();
            if at.is_ok_and(|at| !at.file_type().is_socket()) {
                return Err(format!("`{text}`: not a socket"));
            }
            let hex: String = path.bytes().map(|byte| format!("{byte:02x}")).collect();
            let uri = format!("http://{hex}{SOCKET}/").parse();
            return Ok(Self {
                uri: uri.map_err(|_| wrong())?,
                http2: scheme == "unix+h2c",
            });
        }
        let uri: Uri = text.parse().map_err(|_| wrong())?;
        let http2 = matches!(uri.scheme_str(), Some("h2c" | "h2"));
        let scheme = match uri.scheme_str() {
            Some("http" | "h2c") => Scheme::HTTP,
            Some("https" | "h2") => Scheme::HTTPS,
            _ => return Err(wrong()),
        };
        let authority = uri.authority().ok_or_else(wrong)?.clone();
        // Names and passwords go nowhere; a path would be in front of that of each request.
        if authority.as_str().contains('@')
            || !matches!(uri.path(), "" | "/")
            || uri.query().is_some()
            || text.contains('#')
            || authority.host().is_empty()
            // One that is no number above 0 is no port.
            || (authority.as_str() != authority.host() && authority.port_u16().is_none_or(|port| port == 0))
        {
            return Err(wrong());
        }
        let uri = Uri::builder()
            .scheme(scheme)
            .authority(authority)
            .path_and_query("/");
        Ok(Self {
            uri: uri.build().map_err(|_| wrong())?,
            http2,
        })
    }
}

impl Upstream {
    /// The computer that answers; services of one computer are released together.
    pub fn machine(&self) -> &str {
        match self.uri.host().unwrap_or_default() {
            "127.0.0.1" | "[::1]" => "localhost",
            host if host.ends_with(SOCKET) => "localhost",
            host => host,
        }
    }

    /// Its Unix socket.
    pub fn socket(&self) -> Option<PathBuf> {
        socket_of(&self.uri)
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        let usual = match self.uri.scheme() == Some(&Scheme::HTTPS) {
            true => 443,
            false => 80,
        };
        self.uri.port_u16().unwrap_or(usual)
    }

    /// `HOST:PORT` or `unix:PATH`.
    pub fn address(&self) -> String {
        match self.socket() {
            Some(path) => format!("unix:{}", path.display()),
            None => format!("{}:{}", self.uri.host().unwrap_or_default(), self.port()),
        }
    }
}

impl<'de> Deserialize<'de> for Upstream {
    fn deserialize<D: Deserializer<'de>>(from: D) -> std::result::Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

fn time<'de, D: Deserializer<'de>>(from: D) -> std::result::Result<Duration, D::Error> {
    let text = String::deserialize(from)?;
    parse::time(&text, "500ms").map_err(serde::de::Error::custom)
}

fn some_time<'de, D: Deserializer<'de>>(
    from: D,
) -> std::result::Result<Option<Duration>, D::Error> {
    time(from).map(Some)
}

fn usual_percentile() -> Percentile {
    Percentile::P99_9
}

fn percentile<'de, D: Deserializer<'de>>(from: D) -> std::result::Result<Percentile, D::Error> {
    let percent = f64::deserialize(from)?;
    let known = Percentile::of_percent(&percent.to_string());
    known.ok_or_else(|| serde::de::Error::custom("not 90, 99, 99.9 or 99.99"))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use proptest::prelude::*;

    use super::*;

    fn read(text: &str) -> std::result::Result<Config, String> {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), text).unwrap();
        Config::read(file.path()).map_err(|error| error.to_string())
    }

    const SEARCH: &str = "[[service]]\nname = \"search\"\nlisten = \"127.0.0.1:8080\"\nupstream = [\"http://[::1]:8081\", \
                          \"h2c://b:50051\"]\ndeadline = \"500ms\"\n";

    #[test]
    fn an_upstream_has_a_host_and_a_port_that_is_one() {
        for right in [
            "http://a",
            "http://a:80",
            "h2://a",
            "http://[::1]:8080",
            "https://a/",
        ] {
            assert!(right.parse::<Upstream>().is_ok(), "{right}");
        }
        let socket: Upstream = "unix+h2c:/run/a b.sock".parse().unwrap();
        assert_eq!(socket.socket(), Some("/run/a b.sock".into()));
        assert_eq!(socket.address(), "unix:/run/a b.sock");
        let local = ["unix:/a", "http://127.0.0.1", "h2://localhost:1"];
        for one in local {
            assert_eq!(one.parse::<Upstream>().unwrap().machine(), "localhost");
        }
        for wrong in [
            "unix:",
            "unix:a.sock",
            "http://a:99999",
            "http://:80",
            "http://a:0",
            "http://a#f",
            "http://u@a",
            "ftp://a",
            "http://a/b",
        ] {
            assert!(wrong.parse::<Upstream>().is_err(), "{wrong}");
        }
        let path = |bytes: usize| format!("unix:/{}", "a".repeat(bytes - 1)).parse::<Upstream>();
        assert!(path(107).is_ok());
        assert!(path(108).unwrap_err().ends_with("at most 107 bytes"));
        let folder = "unix:/proc".parse::<Upstream>().unwrap_err();
        assert!(folder.ends_with("not a socket"), "{folder}");
    }

    #[test]
    fn a_file_has_services() {
        let config = read(&format!(
            "{SEARCH}exempt = [\"/health*\"]\npercentile = 99\n"
        ))
        .unwrap();
        let service = &config.services[0];
        assert_eq!(
            (service.deadline, service.share(), service.mode()),
            (Duration::from_millis(500), 0.99, Mode::Staged)
        );
        assert!(service.is_exempt("/healthz") && !service.is_exempt("/"));
        let of = |nth: usize| {
            (
                service.upstreams[nth].address(),
                service.upstreams[nth].http2,
            )
        };
        assert_eq!(
            (of(0), of(1)),
            (("[::1]:8081".into(), false), ("b:50051".into(), true))
        );
    }

    #[test]
    fn a_mistake_is_one_line_with_its_place() {
        for (text, why) in [
            ("", "missing field `service`"),
            ("service = []", "no service"),
            (
                &format!("{SEARCH}{SEARCH}"),
                "two services are called search",
            ),
            (
                &format!("{SEARCH}{}", SEARCH.replace("search", "b")),
                "two services listen at 127.0.0.1:8080",
            ),
            (&SEARCH.replace("500ms", "500"), "line 5"),
            (&SEARCH.replace("500ms", "0"), "a deadline of 0"),
            (
                &SEARCH.replace("http://[::1]:8081", "http://a/b"),
                "is no upstream",
            ),
            (
                &SEARCH.replace("http://[::1]:8081", "ftp://a"),
                "is no upstream",
            ),
            (
                &format!("{SEARCH}grid = \"1s\"\ndirect = true\n"),
                "`direct` has no `grid`",
            ),
            (
                &format!("{SEARCH}hints = \"a:7171\"\n"),
                "`hints` are for `direct`",
            ),
            (
                &format!("{SEARCH}direct = true\nhints = \"a:7171\"\n"),
                "`hints` are for one upstream",
            ),
            (
                "[[service]]\nname = \"a\"\nlisten = \"127.0.0.1:1\"\nupstream = [\"unix:/a\"]\ndeadline = \"1s\"\n\
                 direct = true\nhints = \"a:7171\"\n",
                "an upstream with a port",
            ),
            (
                &format!("{SEARCH}hint_key = \"a\"\n"),
                "`hint_key` without `hints`",
            ),
            (&format!("{SEARCH}what = 1\n"), "unknown field `what`"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(why) && !error.contains('\n'), "{error}");
        }
    }

    #[test]
    fn a_pattern_is_a_path_with_any_text() {
        let covers = |pattern: &str, path: &str| Pattern(pattern.into()).covers(path);
        assert!(covers("/a", "/a") && !covers("/a", "/ab") && !covers("/ab", "/a"));
        assert!(covers("*", "") && covers("/a*", "/a") && covers("/*/z*q", "/b/c/zzq"));
        assert!(!covers("/*/z", "/z") && !covers("*.png", "/a.pngs"));
    }

    #[test]
    fn the_example_has_every_key() {
        let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/example/stage.toml");
        let Config { services } = Config::read(Path::new(example)).unwrap();
        // A key that is added has to be named here, and in the example.
        let Service {
            name: _,
            listen: _,
            upstreams: _,
            deadline: _,
            percentile: _,
            exempt,
            grid: _,
            direct: _,
            hints: _,
            hint_key: _,
            tls,
        } = &services[0];
        assert!(!exempt.is_empty() && tls.is_some());
        assert!(services[1].grid.is_some() && services[2].direct);
        assert!(services[2].hints.is_some() && services[2].hint_key.is_some());
    }

    proptest! {
        #[test]
        fn any_text_is_a_configuration_or_one_line(text in "(\\PC|[\\[\\]=\"\n.{},a-z0-9])*") {
            if let Err(error) = read(&text) {
                prop_assert!(!error.contains(char::is_control), "{error:?}");
            }
        }
    }
}
