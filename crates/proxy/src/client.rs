//! A client's connection: its end, and what it still sends when the connection is over.

use std::io::{self, IoSlice};
use std::net::IpAddr;
use std::os::fd::AsRawFd;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use nix::sys::socket::{Shutdown, shutdown};
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, watch};

use crate::idle::Used;

/// So long a client may still send after its last answer. A connection that is closed with something unread is reset, and
/// a reset may take the answer with it (RFC 9112, section 9.6).
const LINGER: Duration = Duration::from_secs(5);

/// The connection that a request came by. Whoever has it counts as that connection, and is waited for.
#[derive(Debug)]
pub struct Origin {
    /// Its other end.
    pub client: IpAddr,
    /// By TLS.
    pub is_tls: bool,
    /// True once its service ends.
    pub closing: watch::Receiver<bool>,
    /// One of the connections that there may be.
    #[expect(dead_code, reason = "it is held, not read")]
    pub permit: OwnedSemaphorePermit,
}

/// A client's socket, which is not closed with the library's connection.
pub struct Socket(pub Arc<TcpStream>);

impl AsyncRead for Socket {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            ready!(self.0.poll_read_ready(context))?;
            match self.0.try_read(buffer.initialize_unfilled()) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                read => return Poll::Ready(read.map(|read| buffer.advance(read))),
            }
        }
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(context, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.0.poll_write_ready(context))?;
            match self.0.try_write_vectored(bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                written => return Poll::Ready(written),
            }
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(ends(&self.0))
    }
}

fn ends(stream: &TcpStream) -> io::Result<()> {
    Ok(shutdown(stream.as_raw_fd(), Shutdown::Write)?)
}

/// Waits until the client is gone, as far as that is to be seen. A client that has ended its side of the connection may
/// wait for its answer (RFC 9112, section 9.6), or have closed it: it is gone if nothing passes for `longest`.
pub async fn gone(stream: &TcpStream, used: &Used, longest: Duration) {
    // This is ready once the client's side has ended, and not because of what is unread.
    let _ = stream.ready(Interest::PRIORITY).await;
    used.passes();
    while let Some(left) = used.passes_within(longest, Instant::now()) {
        tokio::select! {
            // It is reset.
            _ = stream.ready(Interest::ERROR) => return,
            () = tokio::time::sleep(left) => {}
        }
    }
}

/// After the last answer: reads what the client still sends, until it ends, too.
pub async fn linger(stream: &TcpStream) {
    // It may be over already.
    let _ = ends(stream);
    let mut dropped = [0; 16 << 10];
    let until_end = async {
        while stream.readable().await.is_ok() {
            match stream.try_read(&mut dropped) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Ok(1..) => {}
                Ok(0) | Err(_) => return,
            }
        }
    };
    let _ = tokio::time::timeout(LINGER, until_end).await;
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use nix::sys::socket::{setsockopt, sockopt};

    use super::*;

    /// How long after the client has done that it is gone, if nothing passes for half a second.
    fn gone_after(does: impl FnOnce(&mut std::net::TcpStream)) -> Option<Duration> {
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let mut client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        // What is unread says nothing.
        client.write_all(b"GET").unwrap();
        let (stream, _) = listener.accept().unwrap();
        stream.set_nonblocking(true).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        runtime.unwrap().block_on(async {
            let stream = TcpStream::from_std(stream).unwrap();
            let used = Used::new(Instant::now());
            let _open = used.open();
            does(&mut client);
            let began = Instant::now();
            let gone = gone(&stream, &used, Duration::from_millis(500));
            let gone = tokio::time::timeout(Duration::from_secs(2), gone).await;
            gone.ok().map(|()| began.elapsed())
        })
    }

    #[test]
    fn a_client_is_gone_at_a_reset_or_a_while_after_its_end() {
        let ms = Duration::from_millis;
        assert_eq!(gone_after(|_| ()), None);
        let end = gone_after(|client| client.shutdown(std::net::Shutdown::Write).unwrap());
        assert!(end.unwrap() >= ms(500), "{end:?}");
        let reset = gone_after(|client| {
            let at_once = nix::libc::linger {
                l_onoff: 1,
                l_linger: 0,
            };
            setsockopt(client, sockopt::Linger, &at_once).unwrap();
            let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
            *client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        });
        assert!(reset.unwrap() < ms(400), "{reset:?}");
    }
}
