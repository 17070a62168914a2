//! A request on its way: held, sent to its server, answered.

use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use hyper::header::{CONNECTION, CONTENT_TYPE, HOST, HeaderValue, UPGRADE};
use hyper::{Method, Request, Response, StatusCode, Uri, Version};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::copy_bidirectional;
use tokio::net::TcpStream;

use crate::config::{Service, Upstream};
use crate::counts::{Account, Answered};
use crate::headers;
use crate::hold::Stage;

/// A server that takes no connection within this time does not answer.
const CONNECT: Duration = Duration::from_secs(5);
/// Connections to a server that nobody uses are closed after this time, before most servers close them.
const IDLE: Duration = Duration::from_secs(30);

/// Sends requests to the servers of one service.
pub struct Forwarder {
    service: Service,
    targets: Vec<Target>,
    next: AtomicUsize,
    /// What became of its requests.
    pub account: Arc<Account>,
    said_deadline: AtomicBool,
    /// The last request failed, and that was said.
    fails: AtomicBool,
    say: Say,
}

/// Takes a line for the log.
pub type Say = Arc<dyn Fn(String) + Send + Sync>;

/// A server, and its machine's queue.
pub struct Target {
    /// The server.
    pub upstream: Upstream,
    /// The queue.
    pub stage: Arc<Stage>,
    /// This service's number there.
    pub number: usize,
}

type To = Client<HttpsConnector<HttpConnector>, Incoming>;

/// The clients that all services share: their connections are pooled.
#[derive(Clone)]
pub struct Clients {
    /// HTTP/1.1, or what a TLS server prefers.
    usual: To,
    /// HTTP/2 without asking.
    http2: To,
}

impl Clients {
    /// With the system's certificates, and those in `authorities`.
    ///
    /// # Errors
    /// Where the system's certificates cannot be read.
    pub fn new() -> std::io::Result<Self> {
        let mut connector = HttpConnector::new();
        connector.enforce_http(false);
        connector.set_nodelay(true);
        connector.set_connect_timeout(Some(CONNECT));
        let tls = HttpsConnectorBuilder::new()
            .with_provider_and_native_roots(rustls::crypto::ring::default_provider())?;
        let connector = tls
            .https_or_http()
            .enable_all_versions()
            .wrap_connector(connector);
        let client = |http2: bool| {
            Client::builder(TokioExecutor::new())
                .http2_only(http2)
                .pool_idle_timeout(IDLE)
                .pool_timer(TokioTimer::new())
                .timer(TokioTimer::new())
                .build(connector.clone())
        };
        Ok(Self {
            usual: client(false),
            http2: client(true),
        })
    }
}

/// The response's body, or a line of this proxy's own.
pub enum Answer {
    /// The server's.
    Theirs(Incoming),
    /// A line; `None`: it is sent.
    Ours(Option<Bytes>),
}

impl Body for Answer {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        match self.get_mut() {
            Self::Theirs(body) => Pin::new(body).poll_frame(context),
            Self::Ours(line) => Poll::Ready(line.take().map(|line| Ok(Frame::data(line)))),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Theirs(body) => body.is_end_stream(),
            Self::Ours(line) => line.is_none(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Theirs(body) => body.size_hint(),
            Self::Ours(line) => {
                SizeHint::with_exact(line.as_ref().map_or(0, |line| line.len() as u64))
            }
        }
    }
}

fn ours(status: StatusCode, line: &str) -> Response<Answer> {
    let mut response = Response::new(Answer::Ours(Some(
        format!("reveille stage: {line}\n").into(),
    )));
    *response.status_mut() = status;
    let text = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, text);
    response
}

/// The connection that a request came by.
#[derive(Debug, Clone, Copy)]
pub struct Origin {
    /// Its other end.
    pub client: IpAddr,
    /// By TLS.
    pub is_tls: bool,
}

impl Forwarder {
    /// Of a service, to these servers, one and more, whose requests are added to `account`; `say` takes lines for the log.
    pub fn new(service: Service, targets: Vec<Target>, account: Arc<Account>, say: Say) -> Self {
        Self {
            service,
            targets,
            next: AtomicUsize::new(0),
            account,
            said_deadline: AtomicBool::new(false),
            fails: AtomicBool::new(false),
            say,
        }
    }

    /// The service.
    pub fn service(&self) -> &Service {
        &self.service
    }

    /// Its servers.
    pub fn targets(&self) -> &[Target] {
        &self.targets
    }

    /// Answers a request.
    pub async fn answer(
        &self,
        clients: &Clients,
        from: Origin,
        mut request: Request<Incoming>,
    ) -> Response<Answer> {
        let arrival = Instant::now();
        self.account.comes();
        let nth = self.next.fetch_add(1, Ordering::Relaxed) % self.targets.len();
        let target = &self.targets[nth];
        if request.method() == Method::CONNECT {
            return self.connect(target, request).await;
        }
        let upgrade = upgrade_of(&request);
        let own = headers::deadline(request.headers()).unwrap_or(Duration::MAX);
        let deadline = own.min(self.service.deadline);
        // A connection that becomes a tunnel lasts for longer than any deadline.
        let turn = match upgrade.is_some() || self.service.is_exempt(request.uri().path()) {
            true => target.stage.passes_by(target.number),
            false => {
                target
                    .stage
                    .turn(target.number, arrival, arrival + deadline)
                    .await
            }
        };
        let held = arrival.elapsed();
        self.account.goes(turn.passed, held);
        if turn.passed == Some(crate::queue::Passed::Deadline) && own >= self.service.deadline {
            self.say_deadline(target);
        }
        let on_upgrade = upgrade.is_some().then(|| hyper::upgrade::on(&mut request));
        if let Err(why) = readdress(&mut request, &target.upstream) {
            self.account.fails();
            return ours(StatusCode::BAD_REQUEST, why);
        }
        headers::remove_hop_by_hop(request.headers_mut());
        headers::add_forwarded(request.headers_mut(), from.client, from.is_tls);
        if let Some(upgrade) = upgrade {
            let headers = request.headers_mut();
            headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
            headers.insert(UPGRADE, upgrade);
        }
        let client = match target.upstream.http2 {
            true => &clients.http2,
            false => &clients.usual,
        };
        let mut response = match client.request(request).await {
            Ok(response) => response,
            Err(error) => {
                let why = why(&error);
                self.fails(&format!("{}: {why}", target.upstream.address()));
                return ours(
                    StatusCode::BAD_GATEWAY,
                    &format!("the server does not answer: {why}"),
                );
            }
        };
        let answered = Answered {
            latency: arrival.elapsed(),
            held,
            deadline,
        };
        if turn.passed.is_none() && answered.missed() {
            turn.missed();
        }
        turn.answered(Instant::now());
        self.account.answered(answered);
        self.fails.store(false, Ordering::Relaxed);
        if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            if let Some(on_client) = on_upgrade {
                tunnel(on_client, hyper::upgrade::on(&mut response));
            }
            return response.map(Answer::Theirs);
        }
        headers::remove_hop_by_hop(response.headers_mut());
        response.map(Answer::Theirs)
    }

    /// A tunnel through the server, by a connection of its own.
    async fn connect(&self, target: &Target, mut request: Request<Incoming>) -> Response<Answer> {
        let turn = target.stage.passes_by(target.number);
        self.account.goes(turn.passed, Duration::ZERO);
        let fails = |why: String| {
            self.fails(&format!("{}: {why}", target.upstream.address()));
            ours(
                StatusCode::BAD_GATEWAY,
                &format!("the server does not answer: {why}"),
            )
        };
        if request.version() != Version::HTTP_11
            || target.upstream.http2
            || target.upstream.uri.scheme_str() != Some("http")
        {
            self.account.fails();
            return ours(
                StatusCode::NOT_IMPLEMENTED,
                "CONNECT is passed on by HTTP/1.1 without TLS only",
            );
        }
        let connected =
            tokio::time::timeout(CONNECT, TcpStream::connect(target.upstream.address())).await;
        let stream = match connected {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => return fails(error.to_string()),
            Err(_) => return fails("it takes no connection".into()),
        };
        let (mut sender, connection) =
            match hyper::client::conn::http1::handshake(TokioIo::new(stream)).await {
                Ok(both) => both,
                Err(error) => return fails(why(&error)),
            };
        tokio::spawn(connection.with_upgrades());
        let on_client = hyper::upgrade::on(&mut request);
        headers::remove_hop_by_hop(request.headers_mut());
        match sender.send_request(request).await {
            Ok(mut response) => {
                turn.answered(Instant::now());
                if response.status().is_success() {
                    tunnel(on_client, hyper::upgrade::on(&mut response));
                }
                response.map(Answer::Theirs)
            }
            Err(error) => fails(why(&error)),
        }
    }

    /// The server does not answer a request; the first of several is said.
    fn fails(&self, why: &str) {
        self.account.fails();
        if !self.fails.swap(true, Ordering::Relaxed) {
            (self.say)(format!("{}: {why}", self.service.name));
        }
    }

    /// Once.
    fn say_deadline(&self, target: &Target) {
        if !self.said_deadline.swap(true, Ordering::Relaxed) {
            let time = target.stage.time_of(target.number, 1).unwrap_or_default();
            (self.say)(format!(
                "{}: one request takes {:.1} ms at {}, so a deadline of {:.1} ms leaves no time to hold it; such requests pass",
                self.service.name,
                time.as_secs_f64() * 1e3,
                self.service.percentile.name(),
                self.service.deadline.as_secs_f64() * 1e3,
            ));
        }
    }
}

/// What the connection of the request is to become.
fn upgrade_of(request: &Request<Incoming>) -> Option<HeaderValue> {
    let has_upgrade = request.headers().get_all(CONNECTION).iter().any(|value| {
        let words = value.to_str().unwrap_or_default().split(',');
        words
            .into_iter()
            .any(|word| word.trim().eq_ignore_ascii_case("upgrade"))
    });
    // To HTTP/2 the proxy's own connection is not changed.
    let upgrade = request.headers().get(UPGRADE).filter(|_| has_upgrade);
    upgrade
        .filter(|to| !to.as_bytes().eq_ignore_ascii_case(b"h2c"))
        .cloned()
}

/// Sends the request to that server, with the client's path and host.
fn readdress(request: &mut Request<Incoming>, upstream: &Upstream) -> Result<(), &'static str> {
    let host = request.headers().get(HOST).cloned();
    let host = host.or_else(|| HeaderValue::from_str(request.uri().authority()?.as_str()).ok());
    let path = request.uri().path_and_query().cloned();
    let mut parts = upstream.uri.clone().into_parts();
    parts.path_and_query = Some(path.ok_or("a request without a path")?);
    *request.uri_mut() = Uri::from_parts(parts).map_err(|_| "a request without a path")?;
    *request.version_mut() = match upstream.http2 {
        true => Version::HTTP_2,
        false => Version::HTTP_11,
    };
    match host {
        // In HTTP/2 the URI has it.
        Some(host) if !upstream.http2 => request.headers_mut().insert(HOST, host),
        _ => request.headers_mut().remove(HOST),
    };
    Ok(())
}

/// Copies both ways until both have ended.
fn tunnel(client: hyper::upgrade::OnUpgrade, server: hyper::upgrade::OnUpgrade) {
    tokio::spawn(async move {
        let (Ok(client), Ok(server)) = (client.await, server.await) else {
            return;
        };
        let (mut client, mut server) = (TokioIo::new(client), TokioIo::new(server));
        // Either end may go at any time.
        let _ = copy_bidirectional(&mut client, &mut server).await;
    });
}

/// An error with what caused it, in one line.
fn why(error: &dyn std::error::Error) -> String {
    let mut line = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_line = cause.to_string();
        if !line.contains(&cause_line) {
            line = format!("{line}: {cause_line}");
        }
        source = cause.source();
    }
    line.replace(char::is_control, " ")
}
