//! A connection that an upgrade or CONNECT made a tunnel: bytes pass both ways.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, split};
use tokio::sync::OwnedSemaphorePermit;

use crate::client::Origin;

/// Once its service has ended, a tunnel ends when nothing passes for this time.
const QUIET: Duration = Duration::from_secs(1);
/// What is read at once, bytes.
const CHUNK: usize = 16 << 10;

/// Copies both ways until both have ended, or its service. It counts as the connection and the request that it was.
pub fn begin(
    client: OnUpgrade,
    server: OnUpgrade,
    from: Arc<Origin>,
    permit: Option<OwnedSemaphorePermit>,
) {
    tokio::spawn(async move {
        let _permit = permit;
        let (Ok(client), Ok(server)) = (client.await, server.await) else {
            return;
        };
        let (from_client, to_client) = split(TokioIo::new(client));
        let (from_server, to_server) = split(TokioIo::new(server));
        let passed = AtomicU64::new(0);
        tokio::select! {
            // Either end may go at any time.
            _ = async {
                tokio::try_join!(
                    copy(from_client, to_server, &passed),
                    copy(from_server, to_client, &passed),
                )
            } => {}
            () = ends(&from, &passed) => {}
        }
    });
}

async fn copy(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    passed: &AtomicU64,
) -> io::Result<()> {
    let mut chunk = vec![0; CHUNK];
    loop {
        match from.read(&mut chunk).await? {
            0 => return to.shutdown().await,
            read => {
                passed.fetch_add(1, Ordering::Relaxed);
                to.write_all(&chunk[..read]).await?;
                to.flush().await?;
            }
        }
    }
}

/// Waits until the service has ended and nothing passes.
async fn ends(from: &Origin, passed: &AtomicU64) {
    // Nobody is left to say so: the process ends.
    let _ = from.closing.clone().wait_for(|closing| *closing).await;
    loop {
        let before = passed.load(Ordering::Relaxed);
        tokio::time::sleep(QUIET).await;
        if passed.load(Ordering::Relaxed) == before {
            return;
        }
    }
}
