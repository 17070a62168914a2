//! A server that computes for each request, one after the other, on one CPU, and counts how often that wakes while there
//! is nothing to answer.

use std::convert::Infallible;
use std::fs::File;
use std::net::SocketAddr;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use nix::unistd::{gettid, mkdtemp};
use reveille_kernel::{Error, Result};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::oneshot;

use super::bind::bind;

/// A time without a request that is between two bursts: within one, the next request is there or comes at once.
const BETWEEN: Duration = Duration::from_millis(10);

/// Dropping it ends it.
pub struct Server {
    address: SocketAddr,
    /// Its Unix socket, in a folder of its own.
    socket: PathBuf,
    task: u32,
    quiet: Arc<Mutex<Quiet>>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Server {
    /// On that CPU, whose entries to sleep are in these `entries`; each request takes `work`.
    pub fn start(cpu: u32, entries: Vec<File>, work: Duration) -> Result<Self> {
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0));
        let cannot = |error: std::io::Error| Error::Cannot(format!("the server: {error}"));
        let listener = listener.map_err(cannot)?;
        listener.set_nonblocking(true).map_err(cannot)?;
        let address = listener.local_addr().map_err(cannot)?;
        let folder = mkdtemp(&std::env::temp_dir().join("reveille-bench-XXXXXX"));
        let folder = folder.map_err(|error| cannot(error.into()))?;
        let socket = folder.join("socket");
        let local = std::os::unix::net::UnixListener::bind(&socket);
        // Who cannot has no folder left either.
        let local = local.inspect_err(|_| drop(std::fs::remove_dir(&folder)));
        let local = local.map_err(cannot)?;
        local.set_nonblocking(true).map_err(cannot)?;
        let quiet = Arc::new(Mutex::new(Quiet::of(entries)));
        let account = Arc::clone(&quiet);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        let runtime = runtime.map_err(cannot)?;
        let (stop, stopped) = oneshot::channel();
        let (bound, is_bound) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            let result = bind(&[cpu]);
            let is_ok = result.is_ok();
            let _ = bound.send(result.map(|()| gettid().as_raw()));
            if is_ok {
                runtime.block_on(serve(listener, local, work, account, stopped));
            }
        });
        let task = is_bound
            .recv()
            .map_err(|_| Error::Failed("the server did not start".into()))??;
        Ok(Self {
            address,
            socket,
            quiet,
            task: task.cast_unsigned(),
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    /// Its thread.
    pub fn task(&self) -> u32 {
        self.task
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its Unix socket.
    pub fn socket(&self) -> &std::path::Path {
        &self.socket
    }

    /// How often its CPU woke between bursts, a second, since this was called last, and meanwhile; `None` if it had too little
    /// such time.
    pub fn wakes_between_per_s(&self) -> Option<f64> {
        quiet(&self.quiet).take()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // It has nothing to report.
            let _ = thread.join();
        }
        let _ = std::fs::remove_file(&self.socket);
        if let Some(folder) = self.socket.parent() {
            let _ = std::fs::remove_dir(folder);
        }
    }
}

/// The times between bursts, and the CPU's wake-ups in them.
struct Quiet {
    /// Files with counts of the CPU's entries to sleep.
    entries: Vec<File>,
    /// When the last request was answered, and the count then.
    since: Option<(Instant, u64)>,
    time: Duration,
    wakes: u64,
}

fn quiet(quiet: &Mutex<Quiet>) -> MutexGuard<'_, Quiet> {
    quiet.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Quiet {
    fn of(entries: Vec<File>) -> Self {
        Self {
            entries,
            since: None,
            time: Duration::ZERO,
            wakes: 0,
        }
    }

    fn entries(&self) -> Option<u64> {
        let count = |file: &File| {
            let mut text = [0; 24];
            let read = file.read_at(&mut text, 0).ok()?;
            let text = std::str::from_utf8(text.get(..read)?).ok()?;
            text.trim().parse::<u64>().ok()
        };
        let all: Option<u64> = self.entries.iter().map(count).sum();
        all.filter(|_| !self.entries.is_empty())
    }

    /// A request comes.
    fn ends(&mut self) {
        let Some((since, before)) = self.since.take() else {
            return;
        };
        let time = since.elapsed();
        if time >= BETWEEN
            && let Some(now) = self.entries()
        {
            self.time += time;
            // The request ended the last sleep.
            self.wakes += (now - before).saturating_sub(1);
        }
    }

    /// It is answered.
    fn begins(&mut self) {
        self.since = self.entries().map(|count| (Instant::now(), count));
    }

    fn take(&mut self) -> Option<f64> {
        self.since = None;
        let time = std::mem::take(&mut self.time).as_secs_f64();
        let wakes = std::mem::take(&mut self.wakes) as f64;
        (time >= 1.0).then(|| wakes / time)
    }
}

async fn serve(
    listener: std::net::TcpListener,
    local: std::os::unix::net::UnixListener,
    work: Duration,
    account: Arc<Mutex<Quiet>>,
    mut stopped: oneshot::Receiver<()>,
) {
    let (Ok(listener), Ok(local)) = (
        TcpListener::from_std(listener),
        UnixListener::from_std(local),
    ) else {
        return;
    };
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let Ok((stream, _)) = accepted else { continue };
                let _ = stream.set_nodelay(true);
                tokio::spawn(answer(stream, work, Arc::clone(&account)));
            }
            accepted = local.accept() => {
                let Ok((stream, _)) = accepted else { continue };
                tokio::spawn(answer(stream, work, Arc::clone(&account)));
            }
            _ = &mut stopped => return,
        }
    }
}

async fn answer(
    stream: impl AsyncRead + AsyncWrite + Unpin + 'static,
    work: Duration,
    account: Arc<Mutex<Quiet>>,
) {
    let answer = service_fn(move |_: Request<Incoming>| {
        let account = Arc::clone(&account);
        async move {
            quiet(&account).ends();
            let end = Instant::now() + work;
            while Instant::now() < end {
                std::hint::spin_loop();
            }
            quiet(&account).begins();
            Ok::<_, Infallible>(Response::new(Full::new(Bytes::from_static(b"done\n"))))
        }
    });
    let server = auto::Builder::new(TokioExecutor::new());
    // The client has gone.
    let _ = server.serve_connection(TokioIo::new(stream), answer).await;
}
