//! Connections to servers. A server may answer while a request's body still comes, and close: that the rest cannot be sent
//! is then no reason not to read the answer (RFC 9112, section 9.5).

use std::error::Error;
use std::io::{self, IoSlice};
use std::path::Path;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::Uri;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector};
use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tower_service::Service;

use reveille_stage::config::socket_of;

/// A server that takes no connection within this time does not answer.
pub const CONNECT: Duration = Duration::from_secs(5);

/// Makes them.
#[derive(Clone)]
pub struct Connector(pub HttpsConnector<HttpConnector>);

/// By TCP, by TLS, or by a Unix socket.
trait Stream: Read + Write + Connection + Send {}
impl<T: Read + Write + Connection + Send> Stream for T {}

/// One of them.
pub struct ToServer {
    stream: Pin<Box<dyn Stream>>,
    /// The server takes nothing more. What is written goes nowhere; the end, or the answer, is to be read.
    takes_nothing: bool,
}

type Connecting = Pin<Box<dyn Future<Output = Result<ToServer, Wrong>> + Send>>;
type Wrong = Box<dyn Error + Send + Sync>;

impl Service<Uri> for Connector {
    type Response = ToServer;
    type Error = Wrong;
    type Future = Connecting;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Wrong>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, uri: Uri) -> Connecting {
        let socket = socket_of(&uri);
        let connecting = socket.is_none().then(|| self.0.call(uri));
        Box::pin(async {
            let stream: Pin<Box<dyn Stream>> = match (connecting, socket) {
                (Some(connecting), _) => Box::pin(connecting.await?),
                (None, socket) => {
                    let path = socket.expect("it is one or the other");
                    let connecting = tokio::time::timeout(CONNECT, connect(&path));
                    Box::pin(TokioIo::new(connecting.await??))
                }
            };
            Ok(ToServer {
                stream,
                takes_nothing: false,
            })
        })
    }
}

/// A Unix socket refuses at once, with EAGAIN, what a queue of its server has no room for. TCP waits.
async fn connect(path: &Path) -> io::Result<UnixStream> {
    const AGAIN: Duration = Duration::from_millis(1);
    loop {
        match UnixStream::connect(path).await {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                tokio::time::sleep(AGAIN).await
            }
            connected => return connected,
        }
    }
}

impl Connection for ToServer {
    fn connected(&self) -> Connected {
        self.stream.connected()
    }
}

impl Read for ToServer {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        self.stream.as_mut().poll_read(context, buffer)
    }
}

impl ToServer {
    /// `done`, as if all of `all` were, where the server takes nothing more.
    fn or_nowhere<T>(&mut self, done: Poll<io::Result<T>>, all: T) -> Poll<io::Result<T>> {
        use io::ErrorKind::{BrokenPipe, ConnectionReset};
        match done {
            Poll::Ready(Err(error)) if matches!(error.kind(), BrokenPipe | ConnectionReset) => {
                self.takes_nothing = true;
                Poll::Ready(Ok(all))
            }
            done => done,
        }
    }
}

impl Write for ToServer {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.takes_nothing {
            return Poll::Ready(Ok(bytes.len()));
        }
        let written = self.stream.as_mut().poll_write(context, bytes);
        self.or_nowhere(written, bytes.len())
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        all: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let length = all.iter().map(|bytes| bytes.len()).sum();
        if self.takes_nothing {
            return Poll::Ready(Ok(length));
        }
        let written = self.stream.as_mut().poll_write_vectored(context, all);
        self.or_nowhere(written, length)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.takes_nothing {
            return Poll::Ready(Ok(()));
        }
        let flushed = self.stream.as_mut().poll_flush(context);
        self.or_nowhere(flushed, ())
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let ended = self.stream.as_mut().poll_shutdown(context);
        self.or_nowhere(ended, ())
    }
}
