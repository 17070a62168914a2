//! A server that computes for each request, one after the other, on one CPU.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use nix::unistd::gettid;
use reveille_kernel::{Error, Result};

use tokio::net::TcpListener;
use tokio::sync::oneshot;

use super::bind::bind;

/// Dropping it ends it.
pub struct Server {
    address: SocketAddr,
    task: u32,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Server {
    /// On that CPU; each request takes `work`.
    pub fn start(cpu: u32, work: Duration) -> Result<Self> {
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0));
        let cannot = |error: std::io::Error| Error::Cannot(format!("the server: {error}"));
        let listener = listener.map_err(cannot)?;
        listener.set_nonblocking(true).map_err(cannot)?;
        let address = listener.local_addr().map_err(cannot)?;
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
                runtime.block_on(serve(listener, work, stopped));
            }
        });
        let task = is_bound
            .recv()
            .map_err(|_| Error::Failed("the server did not start".into()))??;
        Ok(Self {
            address,
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

async fn serve(
    listener: std::net::TcpListener,
    work: Duration,
    mut stopped: oneshot::Receiver<()>,
) {
    let Ok(listener) = TcpListener::from_std(listener) else {
        return;
    };
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = &mut stopped => return,
        };
        let Ok((stream, _)) = accepted else { continue };
        let _ = stream.set_nodelay(true);
        let answer = service_fn(move |_: Request<Incoming>| async move {
            let end = Instant::now() + work;
            while Instant::now() < end {
                std::hint::spin_loop();
            }
            Ok::<_, Infallible>(Response::new(Full::new(Bytes::from_static(b"done\n"))))
        });
        tokio::spawn(async move {
            let server = auto::Builder::new(TokioExecutor::new());
            // The client has gone.
            let _ = server.serve_connection(TokioIo::new(stream), answer).await;
        });
    }
}
