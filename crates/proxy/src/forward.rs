//! A request on its way: held, sent to its server, answered.

use std::error::Error as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use hyper::body::{Body, Incoming};
use hyper::header::{CONNECTION, CONTENT_TYPE, COOKIE, HOST, HeaderMap, HeaderValue, UPGRADE};
use hyper::http::request::Parts;
use hyper::http::uri::{Authority, Scheme};
use hyper::{Method, Request, Response, StatusCode, Uri, Version};
use hyper_rustls::HttpsConnectorBuilder;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::{Client, Error as ClientError};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::body::{Answer, Progress, Repeat, Upload};
use crate::client::Origin;
use crate::connector::{CONNECT, Connector};
use crate::headers;
use crate::hints::Hints;
use crate::hold::{Stage, Turn};
use crate::tunnel;
use reveille_stage::config::{Service, Upstream};
use reveille_stage::counts::{Account, Answered};

/// Connections to a server that nobody uses are closed after this time, before most servers close them.
const IDLE: Duration = Duration::from_secs(30);

/// A server may refuse a request so often: one that ends each connection after a few requests refuses most of a burst, again
/// and again.
const REFUSALS: u32 = 100;

/// Of these the first ones are sent again at once, and the others after a while.
const REFUSALS_AT_ONCE: u32 = 10;
const AFTER_REFUSAL: Duration = Duration::from_millis(1);

/// So often a request of which nothing but the head may have been sent is sent again.
const UNSENT: u32 = 3;

/// Sends requests to the servers of one service.
pub struct Forwarder {
    service: Service,
    targets: Vec<Target>,
    next: AtomicUsize,
    /// What became of its requests.
    pub account: Arc<Account>,
    said_deadline: AtomicBool,
    hints: Option<Hints>,
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
    /// The last request failed, and that was said.
    fails: Arc<AtomicBool>,
}

impl Target {
    /// One that has not failed.
    pub fn new(upstream: Upstream, stage: Arc<Stage>, number: usize) -> Self {
        Self {
            upstream,
            stage,
            number,
            fails: Arc::default(),
        }
    }
}

type To = Client<Connector, Upload>;

/// The clients that all services share: their connections are pooled.
#[derive(Clone)]
pub struct Clients {
    /// HTTP/1.1.
    http1: To,
    /// HTTP/2: without TLS without asking.
    http2: To,
    /// Why the system's certificates are unavailable: then no server is asked by TLS.
    no_roots: Option<String>,
    /// Requests on their way: with HTTP/1.1 each has a connection to its server.
    permits: Arc<Semaphore>,
}

impl Clients {
    /// With the system's certificates, if there are any, for so many requests at once.
    pub fn new(requests: usize) -> Self {
        let mut connector = HttpConnector::new();
        connector.enforce_http(false);
        connector.set_nodelay(true);
        connector.set_connect_timeout(Some(CONNECT));
        let provider = rustls::crypto::ring::default_provider;
        let mut no_roots = None;
        let mut tls = || {
            let with_roots =
                HttpsConnectorBuilder::new().with_provider_and_native_roots(provider());
            with_roots.unwrap_or_else(|error| {
                no_roots = Some(error.to_string());
                let config = ClientConfig::builder_with_provider(Arc::new(provider()))
                    .with_safe_default_protocol_versions()
                    .expect("the provider has them")
                    .with_root_certificates(RootCertStore::empty())
                    .with_no_client_auth();
                HttpsConnectorBuilder::new().with_tls_config(config)
            })
        };
        let http1 = tls().https_or_http().enable_http1();
        let http2 = tls().https_or_http().enable_http2();
        let client = |connector, http2: bool| {
            Client::builder(TokioExecutor::new())
                .http2_only(http2)
                .pool_idle_timeout(IDLE)
                .pool_timer(TokioTimer::new())
                .timer(TokioTimer::new())
                .build(Connector(connector))
        };
        Self {
            http1: client(http1.wrap_connector(connector.clone()), false),
            http2: client(http2.wrap_connector(connector), true),
            no_roots,
            permits: Arc::new(Semaphore::new(requests)),
        }
    }

    /// Can that server be asked?
    ///
    /// # Errors
    /// [`reveille_kernel::Error::Cannot`] for TLS without the system's certificates.
    pub fn can_ask(&self, upstream: &Upstream) -> reveille_kernel::Result<()> {
        let is_tls = upstream.uri.scheme() == Some(&Scheme::HTTPS);
        match self.no_roots.as_ref().filter(|_| is_tls) {
            None => Ok(()),
            Some(why) => Err(reveille_kernel::Error::Cannot(format!(
                "{}: the system's certificates: {why}; Debian's are in the package ca-certificates",
                upstream.address()
            ))),
        }
    }

    fn to(&self, upstream: &Upstream) -> &To {
        match upstream.http2 {
            true => &self.http2,
            false => &self.http1,
        }
    }

    async fn permit(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.permits).acquire_owned().await.ok()
    }
}

fn ours(status: StatusCode, line: &str) -> Response<Answer> {
    let mut response = Response::new(Answer::ours(format!("reveille stage: {line}\n")));
    *response.status_mut() = status;
    let text = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, text);
    response
}

impl Forwarder {
    /// Of a service, to these servers, one and more, whose requests are added to `account`; `say` takes lines for the log.
    ///
    /// # Errors
    /// As [`Hints::of`].
    pub fn new(
        service: Service,
        targets: Vec<Target>,
        account: Arc<Account>,
        say: Say,
    ) -> reveille_kernel::Result<Self> {
        Ok(Self {
            hints: Hints::of(&service)?,
            service,
            targets,
            next: AtomicUsize::new(0),
            account,
            said_deadline: AtomicBool::new(false),
            say,
        })
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
        from: Arc<Origin>,
        mut request: Request<Incoming>,
    ) -> Response<Answer> {
        let arrival = Instant::now();
        let coming = self.account.comes();
        let nth = self.next.fetch_add(1, Ordering::Relaxed) % self.targets.len();
        let target = &self.targets[nth];
        if request.method() == Method::CONNECT {
            coming.stays();
            return self.connect(clients, target, from, request).await;
        }
        if headers::went_through_here(request.headers()) {
            coming.stays();
            self.account.fails();
            let why = "this request went through this proxy before: the server is the proxy itself";
            return ours(StatusCode::LOOP_DETECTED, why);
        }
        let host = match host_of(&request) {
            Ok(host) => host,
            Err(why) => {
                coming.stays();
                self.account.refuses();
                return ours(StatusCode::BAD_REQUEST, why);
            }
        };
        if let Some(hints) = &self.hints {
            hints.pass_on(request.headers());
        }
        let upgrade = upgrade_of(&request);
        let own = headers::deadline(request.headers()).unwrap_or(Duration::MAX);
        let deadline = own.min(self.service.deadline);
        let on_upgrade = upgrade.is_some().then(|| hyper::upgrade::on(&mut request));
        let (mut head, body) = request.into_parts();
        let (mut upload, repeat, progress) = Upload::of(body, target.upstream.http2);
        // A connection that becomes a tunnel lasts for longer than any deadline.
        let turn = match upgrade.is_some() || self.service.is_exempt(head.uri.path()) {
            true => target.stage.passes_by(target.number),
            false => {
                let turn = target
                    .stage
                    .turn(target.number, arrival, arrival + deadline);
                let asked = async {
                    // The library asks for a body where someone waits for it.
                    match headers::waits_to_be_asked(&head.headers) {
                        true => upload.begin().await,
                        false => true,
                    }
                };
                match while_held(turn, asked).await {
                    Some(turn) => turn,
                    None => {
                        coming.stays();
                        self.account.refuses();
                        return broken_off();
                    }
                }
            }
        };
        let held = arrival.elapsed();
        coming.stays();
        self.account.goes(turn.passed, held);
        if turn.passed == Some(reveille_stage::queue::Passed::Deadline)
            && own >= self.service.deadline
        {
            self.say_deadline(target);
        }
        let can_be_repeated = upload.is_end_stream() && upgrade.is_none();
        headers::remove_hop_by_hop(&mut head.headers);
        headers::add_forwarded(&mut head.headers, from.client, from.is_tls);
        join_cookies(&mut head.headers);
        if let Some(upgrade) = upgrade {
            head.headers
                .insert(CONNECTION, HeaderValue::from_static("upgrade"));
            head.headers.insert(UPGRADE, upgrade);
        }
        let mut permit = clients.permit().await;
        let went = Instant::now();
        let sent = self
            .send(clients, nth, head, host, (upload, repeat), can_be_repeated)
            .await;
        let (target, mut response) = match sent {
            Ok(answered) => answered,
            Err(_) if progress.broken.load(Ordering::Relaxed) => {
                self.account.refuses();
                return broken_off();
            }
            Err((target, error)) => {
                let why = why(&error);
                self.fails(target, &why);
                return ours(
                    StatusCode::BAD_GATEWAY,
                    &format!("the server does not answer: {why}"),
                );
            }
        };
        let upload = upload_time(&progress, went);
        let answered = Answered {
            latency: arrival.elapsed().saturating_sub(upload),
            held,
            deadline,
        };
        if turn.passed.is_none() && answered.missed() {
            turn.missed();
        }
        // Of a slow client nothing is learnt.
        if upload <= went.elapsed() / 2 {
            turn.answered(Instant::now());
        } else {
            drop(turn);
        }
        self.account.answered(answered);
        target.fails.store(false, Ordering::Relaxed);
        if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            let Some(on_client) = on_upgrade else {
                let why = "the server switches protocols unasked";
                self.fails(target, why);
                return ours(StatusCode::BAD_GATEWAY, why);
            };
            let on_server = hyper::upgrade::on(&mut response);
            tunnel::begin(on_client, on_server, from, permit.take());
        } else {
            headers::remove_hop_by_hop(response.headers_mut());
        }
        let broken = self.broken(target);
        response.map(|body| Answer::theirs(body, broken, permit))
    }

    /// Sends a request to that server. One that a server refuses before it does anything with it is sent again. One
    /// without a body is sent to the next server where the first takes no connection, and once more, if it changes
    /// nothing, where the connection ends before the response: most often the server has just closed it.
    async fn send(
        &self,
        clients: &Clients,
        nth: usize,
        head: Parts,
        host: Option<HeaderValue>,
        (mut upload, repeat): (Upload, Repeat),
        mut can_be_repeated: bool,
    ) -> Result<(&Target, Response<Incoming>), (&Target, ClientError)> {
        let to = |nth: usize| &self.targets[nth % self.targets.len()];
        let (mut target, mut refused, mut unsent) = (to(nth), 0, 0);
        loop {
            let request = request_to(&target.upstream, &head, host.clone(), upload);
            let error = match clients.to(&target.upstream).request(request).await {
                Ok(response) => return Ok((target, response)),
                Err(error) => error,
            };
            // The library drops one that waits for its stream as the connection ends. Without its body it is none.
            let is_unsent = target.upstream.http2 && !error.is_connect() && repeat.is_unsent();
            let next = if is_refused(&error) && refused < REFUSALS {
                // It may be the connection's end, which others see at the same time.
                if refused >= REFUSALS_AT_ONCE {
                    tokio::time::sleep(AFTER_REFUSAL).await;
                }
                refused += 1;
                Some(target)
            } else if is_unsent && unsent < UNSENT {
                unsent += 1;
                Some(target)
            } else if !std::mem::take(&mut can_be_repeated) {
                None
            } else if error.is_connect() {
                let next = (self.targets.len() > 1).then(|| to(nth + 1));
                next.inspect(|_| self.fails_said(target, &why(&error)))
            } else {
                Some(target).filter(|_| head.method.is_idempotent())
            };
            let again = next.and_then(|next| Some((next, repeat.again()?)));
            (target, upload) = again.ok_or((target, error))?;
        }
    }

    /// What is done if a response breaks off.
    fn broken(&self, target: &Target) -> crate::body::Broken {
        let (account, say) = (Arc::clone(&self.account), Arc::clone(&self.say));
        let fails = Arc::clone(&target.fails);
        let (service, server) = (self.service.name.clone(), target.upstream.address());
        Box::new(move || {
            account.breaks();
            if !fails.swap(true, Ordering::Relaxed) {
                say(format!("{service}: {server}: a response breaks off"));
            }
        })
    }

    /// A tunnel through the server, by a connection of its own.
    async fn connect(
        &self,
        clients: &Clients,
        target: &Target,
        from: Arc<Origin>,
        mut request: Request<Incoming>,
    ) -> Response<Answer> {
        let turn = target.stage.passes_by(target.number);
        self.account.goes(turn.passed, Duration::ZERO);
        let fails = |why: String| {
            self.fails(target, &why);
            ours(
                StatusCode::BAD_GATEWAY,
                &format!("the server does not answer: {why}"),
            )
        };
        if request.version() != Version::HTTP_11
            || target.upstream.http2
            || target.upstream.uri.scheme_str() != Some("http")
            || target.upstream.socket().is_some()
        {
            self.account.fails();
            return ours(
                StatusCode::NOT_IMPLEMENTED,
                "CONNECT is passed on by HTTP/1.1 over TCP without TLS only",
            );
        }
        let mut permit = clients.permit().await;
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
                    let on_server = hyper::upgrade::on(&mut response);
                    tunnel::begin(on_client, on_server, from, permit.take());
                }
                let broken = self.broken(target);
                response.map(|body| Answer::theirs(body, broken, permit))
            }
            Err(error) => fails(why(&error)),
        }
    }

    /// The server does not answer a request; the first of several is said.
    fn fails(&self, target: &Target, why: &str) {
        self.account.fails();
        self.fails_said(target, why);
    }

    fn fails_said(&self, target: &Target, why: &str) {
        if !target.fails.swap(true, Ordering::Relaxed) {
            let (service, server) = (&self.service.name, target.upstream.address());
            (self.say)(format!("{service}: {server}: {why}"));
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

fn broken_off() -> Response<Answer> {
    ours(StatusCode::BAD_REQUEST, "the request's body breaks off")
}

/// The turn, while the body begins; `None` if that breaks off before.
async fn while_held(
    turn: impl Future<Output = Turn>,
    begins: impl Future<Output = bool>,
) -> Option<Turn> {
    let mut turn = std::pin::pin!(turn);
    tokio::select! {
        biased;
        turn = turn.as_mut() => return Some(turn),
        begins = begins => if !begins { return None },
    }
    Some(turn.await)
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
    let is_h2c = |to: &&HeaderValue| {
        let words = to.to_str().unwrap_or_default().split(',');
        words
            .into_iter()
            .any(|word| word.trim().eq_ignore_ascii_case("h2c"))
    };
    upgrade.filter(|to| !is_h2c(to)).cloned()
}

/// How long the server waited for the request's body.
fn upload_time(progress: &Progress, went: Instant) -> Duration {
    let ended = progress.ended.get();
    ended.map_or(Duration::ZERO, |ended| {
        ended.saturating_duration_since(went)
    })
}

/// Whom the request is for: the target's authority, or else the one Host (RFC 9112, section 3.2).
fn host_of(request: &Request<Incoming>) -> Result<Option<HeaderValue>, &'static str> {
    const WRONG: &str = "a request needs one valid Host";
    let valid = |text: &str| {
        let authority: Authority = text.parse().ok()?;
        let is_whole = !text.contains('@') && !authority.host().is_empty();
        is_whole.then(|| HeaderValue::from_str(text).ok())?
    };
    let mut hosts = request.headers().get_all(HOST).iter();
    let (host, further) = (hosts.next(), hosts.next());
    if further.is_some() {
        return Err(WRONG);
    }
    if let Some(authority) = request.uri().authority() {
        return valid(authority.as_str()).map(Some).ok_or(WRONG);
    }
    match host {
        // One may be empty: the target has no authority then.
        Some(host) if host.is_empty() => Ok(None),
        Some(host) => {
            let text = host.to_str().map_err(|_| WRONG)?;
            valid(text).map(Some).ok_or(WRONG)
        }
        None if request.version() == Version::HTTP_11 => Err(WRONG),
        None => Ok(None),
    }
}

/// HTTP/2 has a line for each cookie, HTTP/1.1 one for all (RFC 9113, section 8.2.3).
fn join_cookies(headers: &mut HeaderMap) {
    let all: Vec<&[u8]> = headers
        .get_all(COOKIE)
        .iter()
        .map(HeaderValue::as_bytes)
        .collect();
    if all.len() > 1
        && let Ok(joined) = HeaderValue::from_bytes(&all.join(&b"; "[..]))
    {
        headers.insert(COOKIE, joined);
    }
}

/// The request for that server, with the client's path and host.
fn request_to(
    upstream: &Upstream,
    head: &Parts,
    host: Option<HeaderValue>,
    body: Upload,
) -> Request<Upload> {
    let mut request = Request::new(body);
    let mut uri = upstream.uri.clone().into_parts();
    if let Some(path) = head.uri.path_and_query() {
        uri.path_and_query = Some(path.clone());
    }
    *request.method_mut() = head.method.clone();
    *request.uri_mut() = Uri::from_parts(uri).unwrap_or_else(|_| upstream.uri.clone());
    *request.headers_mut() = head.headers.clone();
    *request.version_mut() = match upstream.http2 {
        true => Version::HTTP_2,
        false => Version::HTTP_11,
    };
    match host {
        // In HTTP/2 the URI has it.
        Some(host) if !upstream.http2 => request.headers_mut().insert(HOST, host),
        _ => request.headers_mut().remove(HOST),
    };
    request
}

/// Did the server do nothing with the request? It ends a connection of HTTP/2 with the number of the last stream that it
/// answers, and those after it fail so (RFC 9113, sections 6.8 and 8.7).
fn is_refused(error: &ClientError) -> bool {
    let causes = std::iter::successors(error.source(), |&error| error.source());
    let mut of_stream = causes.filter_map(|error| error.downcast_ref::<h2::Error>());
    of_stream.next().is_some_and(|error| {
        let is_reset = error.reason() == Some(h2::Reason::REFUSED_STREAM);
        error.is_remote() && (error.is_go_away() || is_reset)
    })
}

/// An error with what caused it, in one line.
fn why(error: &(dyn std::error::Error + 'static)) -> String {
    // The client's own names only the step, as "client error (Connect)".
    let cause = error.source().filter(|_| error.is::<ClientError>());
    let error = cause.unwrap_or(error);
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
