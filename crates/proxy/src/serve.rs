//! The process: sockets, connections, reload, shutdown, metrics.

use std::collections::{BTreeMap, HashMap};
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, RwLock, Weak};
use std::time::{Duration, Instant};

use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::GracefulConnection;
use nix::sys::resource::{Resource, UsageWho, getrlimit, getrusage, setrlimit};
use nix::sys::socket::{setsockopt, sockopt::ReusePort};
use reveille_kernel::{Error, Result, files};
use reveille_show::exposition::{self, Exposition, Kind};
use reveille_show::quantity::counted;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

use crate::client::{self, Origin};
use crate::early;
use crate::forward::{Clients, Forwarder, Say, Target};
use crate::hold::Stage;
use crate::idle::Used;
use reveille_stage::config::{Config, Service, Tls, Upstream};
use reveille_stage::counts::{Account, Counts, Served};
use reveille_stage::queue::Mode;
use reveille_stage::stagger::Plan;

/// Connections of clients at most; more wait in the sockets' queues. Fewer where there are few descriptors.
const CONNECTIONS: usize = 10_240;
/// Connections that wait to be taken, of each listener; the system may allow fewer.
const WAITING: u32 = 1024;
/// Descriptors that are for neither clients nor servers.
const OWN_DESCRIPTORS: usize = 64;
/// A file with certificates or a key has at most so many bytes.
const PEM_MAX: u64 = 1 << 20;
/// How long a connection without a request stays open after the process or its service ends.
const ENDING: Duration = Duration::from_secs(1);
/// Of scrapers.
const SCRAPERS: usize = 16;
/// A client that sends no whole request within this time is dropped, and one that is idle.
const HEADER: Duration = Duration::from_secs(60);
/// A client that does not end its TLS handshake within this time is dropped.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// What a client's headers may take, bytes.
const HEADER_BYTES: usize = 64 << 10;
/// Requests of an HTTP/2 connection at once.
const STREAMS: u32 = 1000;
/// The longest wait for responses after the process is told to end.
const LAST: Duration = Duration::from_secs(30);
/// Without descriptors the process waits before it takes a connection.
const NO_DESCRIPTORS: Duration = Duration::from_millis(100);

/// What happens from outside.
#[derive(Debug)]
pub enum Event {
    /// Release what is held, answer what is on its way, and end.
    Stop,
    /// Serve this instead.
    Reload(Box<Config>),
}

/// Serves until it is stopped, and returns the account of each service. `ready` is called once all sockets listen, with
/// their addresses, and the way to see the services as they are. `tasks` are the processes and threads of the servers, where
/// they are known; otherwise servers on this machine are looked for.
///
/// # Errors
/// A socket or the runtime cannot be made, or a certificate cannot be read.
pub fn run(
    config: Config,
    metrics: Option<SocketAddr>,
    tasks: Option<Vec<u32>>,
    events: UnboundedReceiver<Event>,
    say: Say,
    ready: impl FnOnce(Ready),
) -> Result<Vec<Served>> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Error::Cannot(format!("no runtime: {error}")))?;
    let connections = more_descriptors();
    let services = Arc::new(Services {
        clients: Clients::new(connections),
        connections,
        say,
        state: Mutex::default(),
    });
    runtime.block_on(serve(services, config, metrics, tasks, events, ready))
}

/// What is served.
#[derive(Clone)]
pub struct Ready {
    /// Where each service listens, and the metrics.
    pub addresses: Vec<SocketAddr>,
    services: Arc<Services>,
}

impl Ready {
    /// The services as they are now.
    pub fn now(&self) -> Vec<Served> {
        self.services.now()
    }
}

async fn serve(
    services: Arc<Services>,
    config: Config,
    metrics: Option<SocketAddr>,
    tasks: Option<Vec<u32>>,
    mut events: UnboundedReceiver<Event>,
    ready: impl FnOnce(Ready),
) -> Result<Vec<Served>> {
    services.set(config)?;
    let mut addresses = services.addresses();
    let scraped = match metrics {
        None => None,
        Some(address) => {
            let listener = listen(address, false)?;
            addresses.extend(listener.local_addr().ok());
            Some(tokio::spawn(scrapes(listener, Arc::clone(&services))))
        }
    };
    ready(Ready {
        addresses,
        services: Arc::clone(&services),
    });
    let changed = Notify::new();
    tokio::select! {
        () = until_stop(&services, &mut events, &changed) => {}
        () = early::follow(|| services.queues(), tasks, &changed, &services.say) => {}
    }
    let ending = services.end();
    let all_end = async {
        for closing in &ending {
            closing.closed().await;
        }
    };
    let again = async { while !matches!(events.recv().await, Some(Event::Stop) | None) {} };
    let say = &services.say;
    tokio::select! {
        () = all_end => {}
        () = again => say("a second signal: requests on their way are dropped".into()),
        () = tokio::time::sleep(LAST) => say(format!(
            "some requests are not answered after {} s; they are dropped",
            LAST.as_secs()
        )),
    }
    if let Some(scraped) = scraped {
        scraped.abort();
    }
    Ok(services.now())
}

async fn until_stop(
    services: &Arc<Services>,
    events: &mut UnboundedReceiver<Event>,
    changed: &Notify,
) {
    while let Some(Event::Reload(config)) = events.recv().await {
        let services_now = counted(config.services.len() as u64, "service");
        match services.set(*config) {
            Ok(()) => {
                changed.notify_one();
                (services.say)(format!("reloaded: {services_now}"));
            }
            Err(error) => (services.say)(format!("{error}; the services are as before")),
        }
    }
}

/// All services, which a reload changes.
struct Services {
    clients: Clients,
    /// Connections of clients at most.
    connections: usize,
    say: Say,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    listeners: BTreeMap<SocketAddr, Listening>,
    machines: HashMap<Key, Arc<Stage>>,
    /// Of all machines.
    plan: Arc<Plan>,
    /// By the services' names: a reload begins none anew.
    accounts: HashMap<String, Arc<Account>>,
}

impl State {
    fn account(&mut self, name: &str) -> Arc<Account> {
        Arc::clone(self.accounts.entry(name.to_owned()).or_default())
    }
}

/// A machine with the same services is the same one after a reload: what was learnt of it is kept.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Key {
    host: String,
    /// How requests are released, in words: a machine has one queue for each way.
    mode: String,
    /// Of each service, its name and share.
    services: Vec<(String, String)>,
}

struct Listening {
    address: SocketAddr,
    /// The task's.
    listener: Weak<TcpListener>,
    current: Arc<RwLock<Current>>,
    /// True once no further request is taken; dropping it means that, too. Each connection has a receiver.
    closing: Arc<watch::Sender<bool>>,
    task: JoinHandle<()>,
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.task.abort();
        self.closing.send_replace(true);
    }
}

/// A listener whose port another one of this process may have, too.
struct SharedPort(Arc<TcpListener>);

impl SharedPort {
    fn of(listener: Arc<TcpListener>) -> Option<Self> {
        setsockopt(&listener, ReusePort, &true).ok()?;
        Some(Self(listener))
    }
}

impl Drop for SharedPort {
    fn drop(&mut self) {
        let _ = setsockopt(&self.0, ReusePort, &false);
    }
}

#[derive(Clone)]
struct Current {
    forwarder: Arc<Forwarder>,
    tls: Option<TlsAcceptor>,
}

impl Services {
    /// Serves that and nothing else. Nothing has changed if it fails.
    fn set(self: &Arc<Self>, config: Config) -> Result<()> {
        config.check().map_err(Error::Usage)?;
        let mut acceptors = Vec::new();
        let mut new = HashMap::new();
        for service in &config.services {
            let mut upstreams = service.upstreams.iter();
            upstreams.try_for_each(|upstream| self.clients.can_ask(upstream))?;
            acceptors.push(service.tls.as_ref().map(acceptor).transpose()?);
            if !self.listens_at(service.listen) {
                let shared = self.shares(service.listen.port(), &config);
                new.insert(service.listen, listen(service.listen, !shared.is_empty())?);
            }
        }
        let forwarders = self.forwarders(&config.services)?;
        let mut state = self.state.lock().expect("nothing panics with it");
        let mut before = std::mem::take(&mut state.listeners);
        for ((service, forwarder), tls) in config.services.iter().zip(forwarders).zip(acceptors) {
            let current = Current { forwarder, tls };
            let listening = match before.remove(&service.listen) {
                Some(listening) => {
                    *listening.current.write().expect("nothing panics with it") = current;
                    listening
                }
                None => {
                    let listener = new.remove(&service.listen).expect("it was made above");
                    self.listening(listener, current, self.connections / config.services.len())?
                }
            };
            state.listeners.insert(service.listen, listening);
        }
        let used: Vec<Arc<Stage>> = state
            .listeners
            .values()
            .flat_map(|one| one.stages())
            .collect();
        state.machines.retain(|_, stage| {
            let is_used = used.iter().any(|used| Arc::ptr_eq(used, stage));
            if !is_used {
                // What it holds goes to the servers that it was for.
                stage.end();
            }
            is_used
        });
        Ok(())
    }

    fn listens_at(&self, address: SocketAddr) -> bool {
        let state = self.state.lock().expect("nothing panics with it");
        state.listeners.contains_key(&address)
    }

    /// Of the listeners of that port that go with this: their port may be listened at, too, as at one address instead of
    /// all. No connection finds it closed in between.
    fn shares(&self, port: u16, config: &Config) -> Vec<SharedPort> {
        let state = self.state.lock().expect("nothing panics with it");
        let stays = |address: &SocketAddr| config.services.iter().any(|one| one.listen == *address);
        let going = state
            .listeners
            .iter()
            .filter(|(address, one)| one.address.port() == port && !stays(address));
        going
            .filter_map(|(_, one)| SharedPort::of(one.listener.upgrade()?))
            .collect()
    }

    fn addresses(&self) -> Vec<SocketAddr> {
        let state = self.state.lock().expect("nothing panics with it");
        state.listeners.values().map(|one| one.address).collect()
    }

    fn listening(
        self: &Arc<Self>,
        listener: TcpListener,
        current: Current,
        connections: usize,
    ) -> Result<Listening> {
        let address = listener
            .local_addr()
            .map_err(|error| Error::Cannot(error.to_string()))?;
        let current = Arc::new(RwLock::new(current));
        let closing = Arc::new(watch::Sender::new(false));
        let shared = Shared {
            current: Arc::clone(&current),
            services: Arc::clone(self),
            closing: Arc::clone(&closing),
        };
        let listener = Arc::new(listener);
        let weak = Arc::downgrade(&listener);
        let task = tokio::spawn(accepts(listener, shared, connections.max(1)));
        Ok(Listening {
            address,
            listener: weak,
            current,
            closing,
            task,
        })
    }

    /// A forwarder for each service, with the queues of its machines.
    fn forwarders(&self, services: &[Service]) -> Result<Vec<Arc<Forwarder>>> {
        let mut state = self.state.lock().expect("nothing panics with it");
        let mut forwarders = Vec::new();
        for service in services {
            let target = |upstream: &Upstream| {
                let mode = service.mode();
                let beside: Vec<&Service> = services
                    .iter()
                    .filter(|other| {
                        other.mode() == mode
                            && other
                                .upstreams
                                .iter()
                                .any(|one| one.machine() == upstream.machine())
                    })
                    .collect();
                let key = Key {
                    host: upstream.machine().to_owned(),
                    mode: format!("{mode:?}"),
                    services: beside
                        .iter()
                        .map(|one| (one.name.clone(), one.percentile.name().to_owned()))
                        .collect(),
                };
                let number = beside.iter().position(|other| other.name == service.name);
                let shares: Vec<f64> = beside.iter().map(|one| one.share()).collect();
                let accounts = beside.iter().map(|one| state.account(&one.name)).collect();
                let stage = stage(&mut state, key, mode, &shares, accounts)?;
                let number = number.expect("it is one of them");
                Ok(Target::new(upstream.clone(), stage, number))
            };
            let targets: Result<Vec<Target>> = service.upstreams.iter().map(target).collect();
            let targets = targets?;
            forwarders.push(Arc::new(Forwarder::new(
                service.clone(),
                targets,
                state.account(&service.name),
                Arc::clone(&self.say),
            )?));
        }
        Ok(forwarders)
    }

    /// The queues whose requests may go early, with their servers.
    fn queues(&self) -> Vec<early::Queue> {
        let state = self.state.lock().expect("nothing panics with it");
        let mut all: Vec<early::Queue> = Vec::new();
        for listening in state.listeners.values() {
            let current = listening.current.read().expect("nothing panics with it");
            if current.forwarder.service().mode() != Mode::Staged {
                continue;
            }
            for target in current.forwarder.targets() {
                let upstream = target.upstream.clone();
                match all
                    .iter_mut()
                    .find(|one| Arc::ptr_eq(&one.stage, &target.stage))
                {
                    Some(queue) => queue.upstreams.push(upstream),
                    None => all.push(early::Queue {
                        stage: Arc::clone(&target.stage),
                        upstreams: vec![upstream],
                    }),
                }
            }
        }
        all
    }

    /// Takes no further connection, releases what is held, and has connections end after their requests: they have when
    /// these are closed.
    fn end(&self) -> Vec<Arc<watch::Sender<bool>>> {
        let mut state = self.state.lock().expect("nothing panics with it");
        let mut all = Vec::new();
        for listening in state.listeners.values() {
            listening.task.abort();
            listening.closing.send_replace(true);
            all.push(Arc::clone(&listening.closing));
        }
        for stage in state.machines.values_mut() {
            stage.end();
        }
        all
    }

    fn now(&self) -> Vec<Served> {
        let state = self.state.lock().expect("nothing panics with it");
        state.listeners.values().map(Listening::now).collect()
    }
}

fn stage(
    state: &mut State,
    key: Key,
    mode: Mode,
    shares: &[f64],
    accounts: Vec<Arc<Account>>,
) -> Result<Arc<Stage>> {
    if let Some(stage) = state.machines.get(&key) {
        return Ok(Arc::clone(stage));
    }
    let stage = Stage::start(mode, shares, accounts, &state.plan)
        .map_err(|error| Error::Cannot(format!("no timer: {error}")))?;
    state.machines.insert(key, Arc::clone(&stage));
    Ok(stage)
}

impl Listening {
    fn stages(&self) -> Vec<Arc<Stage>> {
        let current = self.current.read().expect("nothing panics with it");
        current
            .forwarder
            .targets()
            .iter()
            .map(|target| Arc::clone(&target.stage))
            .collect()
    }

    fn now(&self) -> Served {
        let current = self.current.read().expect("nothing panics with it");
        let targets = current.forwarder.targets();
        let mut machines: Vec<&Target> = Vec::new();
        for target in targets {
            if !machines
                .iter()
                .any(|other| Arc::ptr_eq(&other.stage, &target.stage))
            {
                machines.push(target);
            }
        }
        let now: Vec<_> = machines.iter().map(|target| target.stage.now()).collect();
        let one = machines
            .iter()
            .filter_map(|target| target.stage.time_of(target.number, 1));
        let counts = current.forwarder.account.now();
        Served {
            name: current.forwarder.service().name.clone(),
            held_now: now.iter().map(|now| now.held).sum(),
            open_now: now.iter().map(|now| now.open).sum(),
            one_request_s: one.max().map(|time| time.as_secs_f64()),
            held_mean_s: counts.held_s.mean(),
            latency_mean_s: counts.latency_s.mean(),
            counts,
        }
    }
}

fn listen(address: SocketAddr, shares_port: bool) -> Result<TcpListener> {
    let listener = || {
        let socket = match address {
            SocketAddr::V4(_) => TcpSocket::new_v4(),
            SocketAddr::V6(_) => TcpSocket::new_v6(),
        }?;
        socket.set_reuseaddr(true)?;
        socket.set_reuseport(shares_port)?;
        socket.bind(address)?;
        let listener = socket.listen(WAITING)?;
        // No other process gets a share of it.
        setsockopt(&listener, ReusePort, &false)?;
        Ok(listener)
    };
    listener().map_err(|error: io::Error| Error::Cannot(format!("{address}: {error}")))
}

fn acceptor(tls: &Tls) -> Result<TlsAcceptor> {
    let wrong = |path: &std::path::Path, why: String| Error::Unreadable {
        path: path.to_owned(),
        why,
    };
    let text = files::read(&tls.certificate, PEM_MAX)?;
    let chain: std::result::Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    let chain = chain.map_err(|error| {
        wrong(
            &tls.certificate,
            format!("is no certificate in PEM: {error}"),
        )
    })?;
    let text = files::read(&tls.key, PEM_MAX)?;
    let key = PrivateKeyDer::from_pem_slice(&text);
    let key = key.map_err(|error| wrong(&tls.key, format!("is no private key in PEM: {error}")))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .and_then(|config| config.with_no_client_auth().with_single_cert(chain, key));
    let mut config = config.map_err(|error| wrong(&tls.certificate, error.to_string()))?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// As many descriptors as the process may have; how many connections of clients they are for, with one to a server each.
fn more_descriptors() -> usize {
    let Ok((now, most)) = getrlimit(Resource::RLIMIT_NOFILE) else {
        return CONNECTIONS;
    };
    let has = match setrlimit(Resource::RLIMIT_NOFILE, most, most) {
        Ok(()) => most,
        Err(_) => now,
    };
    let both = usize::try_from(has).unwrap_or(usize::MAX);
    (both.saturating_sub(OWN_DESCRIPTORS) / 2).clamp(1, CONNECTIONS)
}

/// What the connections of one listener share.
#[derive(Clone)]
struct Shared {
    current: Arc<RwLock<Current>>,
    services: Arc<Services>,
    closing: Arc<watch::Sender<bool>>,
}

/// Takes connections, until the task is aborted.
async fn accepts(listener: Arc<TcpListener>, shared: Shared, connections: usize) {
    let permits = Arc::new(Semaphore::new(connections));
    loop {
        let permit = Arc::clone(&permits).acquire_owned().await;
        let Ok(permit) = permit else { return };
        match listener.accept().await {
            Ok((stream, client)) => {
                let closing = shared.closing.subscribe();
                tokio::spawn(connection(stream, client, shared.clone(), closing, permit));
            }
            // The client is gone already, or there are no descriptors.
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
            Err(_) => tokio::time::sleep(NO_DESCRIPTORS).await,
        }
    }
}

async fn connection(
    stream: TcpStream,
    client: SocketAddr,
    shared: Shared,
    mut closing: watch::Receiver<bool>,
    permit: OwnedSemaphorePermit,
) {
    // Without, a response may wait for the acknowledgement of the one before.
    let _ = stream.set_nodelay(true);
    let Shared {
        current, services, ..
    } = shared;
    let tls = current.read().expect("nothing panics with it").tls.clone();
    let from = Arc::new(Origin {
        client: client.ip(),
        is_tls: tls.is_some(),
        closing: closing.clone(),
        permit,
    });
    let used = Used::new(Instant::now());
    let handle = service_fn(|request: Request<Incoming>| {
        let forwarder = Arc::clone(&current.read().expect("nothing panics with it").forwarder);
        let services = Arc::clone(&services);
        let (open, from) = (used.open(), Arc::clone(&from));
        async move {
            let response = forwarder.answer(&services.clients, from, request).await;
            let response = response.map(|mut answer| {
                answer.open = Some(open);
                answer
            });
            Ok::<_, Infallible>(response)
        }
    });
    let stream = Arc::new(stream);
    let socket = client::Socket(Arc::clone(&stream));
    let server = server();
    match tls {
        None => {
            let connection = server.serve_connection_with_upgrades(TokioIo::new(socket), handle);
            until_over(connection, &stream, &used, closing.clone()).await;
        }
        Some(tls) => {
            let Ok(Ok(socket)) = tokio::time::timeout(HANDSHAKE, tls.accept(socket)).await else {
                return;
            };
            let connection = server.serve_connection_with_upgrades(TokioIo::new(socket), handle);
            until_over(connection, &stream, &used, closing.clone()).await;
        }
    }
    // Or it is a tunnel.
    if let Some(stream) = Arc::into_inner(stream) {
        tokio::select! {
            () = client::linger(&stream) => {}
            _ = closing.wait_for(|closing| *closing) => {}
        }
    }
}

/// Serves a connection until it ends, its client is gone, it was idle for long, or its service ends.
async fn until_over<C: GracefulConnection>(
    connection: C,
    stream: &TcpStream,
    used: &Used,
    mut closing: watch::Receiver<bool>,
) {
    let mut connection = std::pin::pin!(connection);
    let mut gone = std::pin::pin!(client::gone(stream, used, HEADER));
    let mut longest = HEADER;
    loop {
        let Some(left) = used.left(longest, Instant::now()) else {
            return;
        };
        tokio::select! {
            // A client that breaks off, or breaks the protocol, has its answer from the library.
            _ = connection.as_mut() => return,
            () = gone.as_mut() => return,
            _ = closing.wait_for(|closing| *closing), if longest == HEADER => {
                connection.as_mut().graceful_shutdown();
                longest = ENDING;
            }
            () = tokio::time::sleep(left) => {}
        }
    }
}

fn server() -> auto::Builder<TokioExecutor> {
    let mut server = auto::Builder::new(TokioExecutor::new());
    server
        .http1()
        .timer(TokioTimer::new())
        .half_close(true)
        .header_read_timeout(HEADER)
        .max_buf_size(HEADER_BYTES);
    server
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS)
        .max_header_list_size(HEADER_BYTES as u32);
    server
}

/// Answers whoever asks for metrics.
async fn scrapes(listener: TcpListener, services: Arc<Services>) {
    let permits = Arc::new(Semaphore::new(SCRAPERS));
    loop {
        let Ok(permit) = Arc::clone(&permits).acquire_owned().await else {
            return;
        };
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(NO_DESCRIPTORS).await;
            continue;
        };
        let services = Arc::clone(&services);
        tokio::spawn(async move {
            let _permit = permit;
            let answer = service_fn(|request: Request<Incoming>| {
                let response = scrape(&request, &services);
                async move { Ok::<_, Infallible>(response) }
            });
            let server = server();
            let connection = server.serve_connection(TokioIo::new(stream), answer);
            // Also one that is used: it comes again.
            let _ = tokio::time::timeout(HEADER, connection).await;
        });
    }
}

fn scrape(
    request: &Request<Incoming>,
    services: &Services,
) -> Response<http_body_util::Full<Bytes>> {
    let answer = |kind: &'static str, text: String| {
        let mut response = Response::new(text.into_bytes().into());
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
        response
    };
    match (request.method(), request.uri().path()) {
        (&Method::GET | &Method::HEAD, "/metrics") => {
            answer(exposition::CONTENT_TYPE, metrics(&services.now()))
        }
        (&Method::GET | &Method::HEAD, "/status") => {
            let text = serde_json::to_string_pretty(&services.now());
            answer("application/json", text.expect("it is plain data") + "\n")
        }
        _ => {
            let mut response = answer(
                "text/plain",
                "/metrics for Prometheus, /status as JSON\n".into(),
            );
            *response.status_mut() = StatusCode::NOT_FOUND;
            response
        }
    }
}

fn metrics(services: &[Served]) -> String {
    use Kind::{Counter, Gauge, Histogram};
    let mut text = Exposition::default();
    let mut family = |kind, name, help, of: &dyn Fn(&Served) -> f64| {
        let mut family = text.family(kind, name, help);
        for service in services {
            family.add(&[("service", &service.name)], of(service));
        }
    };
    family(
        Counter,
        "reveille_stage_requests_total",
        "Requests that came.",
        &|one| one.counts.requests as f64,
    );
    family(
        Counter,
        "reveille_stage_failed_total",
        "Requests that the server did not answer.",
        &|one| one.counts.failed as f64,
    );
    family(
        Counter,
        "reveille_stage_broken_total",
        "Responses that the server broke off.",
        &|one| one.counts.broken as f64,
    );
    family(
        Counter,
        "reveille_stage_refused_total",
        "Requests that are none, or whose body broke off.",
        &|one| one.counts.refused as f64,
    );
    family(
        Counter,
        "reveille_stage_gone_total",
        "Requests whose client went while they were held.",
        &|one| one.counts.gone as f64,
    );
    family(
        Counter,
        "reveille_stage_missed_total",
        "Requests that missed their deadline because they were held.",
        &|one| one.counts.missed as f64,
    );
    family(
        Counter,
        "reveille_stage_late_total",
        "Requests whose server alone took longer than their deadline.",
        &|one| one.counts.late as f64,
    );
    family(
        Counter,
        "reveille_stage_bursts_total",
        "Times that held requests were released.",
        &|one| one.counts.bursts as f64,
    );
    family(
        Gauge,
        "reveille_stage_held",
        "Requests that are held.",
        &|one| one.held_now as f64,
    );
    family(
        Gauge,
        "reveille_stage_open",
        "Requests that the servers have to answer.",
        &|one| one.open_now as f64,
    );
    let mut outcomes = text.family(
        Counter,
        "reveille_stage_released_total",
        "Requests by why they went when they did.",
    );
    for Served { name, counts, .. } in services {
        for (why, count) in [
            ("held", counts.held),
            ("learning", counts.passed_learning),
            ("awake", counts.passed_awake),
            ("deadline", counts.passed_deadline),
            ("busy", counts.passed_busy),
            ("exempt", counts.passed_exempt),
        ] {
            outcomes.add(&[("service", name), ("why", why)], count as f64);
        }
    }
    let mut histograms =
        |name, help, of: &dyn Fn(&Counts) -> &reveille_stage::counts::Histogram| {
            let mut family = text.family(Histogram, name, help);
            for Served { name, counts, .. } in services {
                let one = of(counts);
                family.histogram(("service", name), one.below(), (one.sum, one.count()));
            }
        };
    histograms(
        "reveille_stage_held_seconds",
        "How long requests were held.",
        &|counts| &counts.held_s,
    );
    histograms(
        "reveille_stage_latency_seconds",
        "From a request's arrival to its response's headers.",
        &|counts| &counts.latency_s,
    );
    if let Ok(usage) = getrusage(UsageWho::RUSAGE_SELF) {
        let seconds =
            |time: nix::sys::time::TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
        let cpu = seconds(usage.user_time()) + seconds(usage.system_time());
        text.one(
            Counter,
            "reveille_stage_cpu_seconds_total",
            "CPU time of the proxy itself.",
            cpu,
        );
        let slept = usage.voluntary_context_switches() as f64;
        text.one(
            Counter,
            "reveille_stage_wakeups_total",
            "Times that the proxy itself slept and was woken.",
            slept,
        );
    }
    text.into_text()
}
