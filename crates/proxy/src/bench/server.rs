//! A server that computes for each request, one after the other, on one CPU, and counts how often that wakes while there
//! is nothing to answer.

use std::convert::Infallible;
use std::fs::File;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use nix::fcntl::{OFlag, open};
use nix::sys::stat::Mode;
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
    socket: Option<Socket>,
    task: u32,
    gaps: Arc<Mutex<Gaps>>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Server {
    /// On that CPU, whose entries to sleep are in these `entries`; each request takes `work`. With a Unix socket beside the
    /// port, if asked for.
    pub fn start(
        cpu: u32,
        is_unix: bool,
        entries: Option<Vec<File>>,
        work: Duration,
    ) -> Result<Self> {
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0));
        let cannot = |error: std::io::Error| Error::Cannot(format!("the server: {error}"));
        let listener = listener.map_err(cannot)?;
        listener.set_nonblocking(true).map_err(cannot)?;
        let address = listener.local_addr().map_err(cannot)?;
        let folder = std::env::temp_dir();
        let socket = is_unix.then(|| Socket::new(&folder).map_err(Error::at(&folder)));
        let socket = socket.transpose()?;
        let local = socket.as_ref().map(|one| one.listener.try_clone());
        let local = local.transpose().map_err(cannot)?;
        let gaps = Arc::new(Mutex::new(Gaps::of(entries)));
        let account = Arc::clone(&gaps);
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
            gaps,
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

    /// As an upstream.
    pub fn url(&self, http2: bool) -> String {
        match (&self.socket, http2) {
            (None, false) => format!("http://{}", self.address),
            (None, true) => format!("h2c://{}", self.address),
            (Some(socket), false) => format!("unix:{}", socket.path()),
            (Some(socket), true) => format!("unix+h2c:{}", socket.path()),
        }
    }

    /// How often its CPU woke between bursts, a second of such time, since the last call; `None` if there was less than a second
    /// of it.
    pub fn wakes_between_per_s(&self) -> Option<f64> {
        gaps(&self.gaps).take()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // It has nothing to report.
            let _ = thread.join();
        }
    }
}

/// A Unix socket without a name: nothing is left of it, even after kill -9.
struct Socket {
    listener: std::os::unix::net::UnixListener,
    file: OwnedFd,
}

impl Socket {
    /// `folder` holds its name for a moment.
    fn new(folder: &Path) -> std::io::Result<Self> {
        let folder = mkdtemp(&folder.join("reveille-XXXXXX"))?;
        let path = folder.join("s");
        let made = (|| {
            let listener = std::os::unix::net::UnixListener::bind(&path)?;
            listener.set_nonblocking(true)?;
            let file = open(&path, OFlag::O_PATH | OFlag::O_CLOEXEC, Mode::empty())?;
            Ok(Self { listener, file })
        })();
        let _ = std::fs::remove_file(&path);
        let removed = std::fs::remove_dir(&folder);
        made.and_then(|made| removed.map(|()| made))
    }

    /// Where this process connects to it.
    fn path(&self) -> String {
        format!("/proc/self/fd/{}", self.file.as_raw_fd())
    }
}

/// The times between bursts, and the CPU's wake-ups in them.
struct Gaps {
    /// Files with counts of the CPU's entries to sleep; `None` if they cannot be read.
    entries: Option<Vec<File>>,
    /// When the last request was answered, and the count then.
    since: Option<(Instant, u64)>,
    time: Duration,
    wakes: u64,
}

fn gaps(gaps: &Mutex<Gaps>) -> MutexGuard<'_, Gaps> {
    gaps.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Gaps {
    fn of(entries: Option<Vec<File>>) -> Self {
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
        let entries = self.entries.as_ref().filter(|all| !all.is_empty())?;
        entries.iter().map(count).sum()
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
            self.wakes += now.saturating_sub(before + 1);
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
    local: Option<std::os::unix::net::UnixListener>,
    work: Duration,
    account: Arc<Mutex<Gaps>>,
    mut stopped: oneshot::Receiver<()>,
) {
    let Ok(listener) = TcpListener::from_std(listener) else {
        return;
    };
    let local = match local.map(UnixListener::from_std).transpose() {
        Ok(local) => local,
        Err(_) => return,
    };
    let from_local = async || match &local {
        Some(local) => local.accept().await,
        None => std::future::pending().await,
    };
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let Ok((stream, _)) = accepted else { continue };
                let _ = stream.set_nodelay(true);
                tokio::spawn(answer(stream, work, Arc::clone(&account)));
            }
            accepted = from_local() => {
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
    account: Arc<Mutex<Gaps>>,
) {
    let answer = service_fn(move |_: Request<Incoming>| {
        let account = Arc::clone(&account);
        async move {
            gaps(&account).ends();
            let end = Instant::now() + work;
            while Instant::now() < end {
                std::hint::spin_loop();
            }
            gaps(&account).begins();
            Ok::<_, Infallible>(Response::new(Full::new(Bytes::from_static(b"done\n"))))
        }
    });
    let server = auto::Builder::new(TokioExecutor::new());
    // The client has gone.
    let _ = server.serve_connection(TokioIo::new(stream), answer).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_without_a_name_is_reached_and_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let socket = Socket::new(folder.path()).unwrap();
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        std::os::unix::net::UnixStream::connect(socket.path()).unwrap();
    }
}
