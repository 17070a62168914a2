//! The bodies that pass: what of them is to be known.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Instant;

use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use tokio::sync::OwnedSemaphorePermit;

use crate::idle::Open;

/// How a request's body goes.
#[derive(Debug, Default)]
pub struct Progress {
    /// When its end was sent.
    pub ended: OnceLock<Instant>,
    /// The client broke off, or sends what is no body.
    pub broken: AtomicBool,
}

/// A request's body.
pub struct Upload {
    /// `None`: it has none.
    body: Option<Incoming>,
    /// Its first piece, which has come already.
    first: Option<Frame<Bytes>>,
    progress: Arc<Progress>,
}

impl Upload {
    /// The client's.
    pub fn of(body: Incoming) -> (Self, Arc<Progress>) {
        let progress = Arc::<Progress>::default();
        let upload = Self {
            body: Some(body),
            first: None,
            progress: Arc::clone(&progress),
        };
        (upload, progress)
    }

    /// Has the client send it, and takes its first piece; the rest waits in the library's buffers, which have limits.
    /// False if it breaks off.
    pub async fn begin(&mut self) -> bool {
        self.first = match poll_fn(|context| Pin::new(&mut *self).poll_frame(context)).await {
            Some(Ok(frame)) => Some(frame),
            Some(Err(_)) => return false,
            None => None,
        };
        true
    }

    /// None, as that of the request before.
    pub fn empty() -> Self {
        Self {
            body: None,
            first: None,
            progress: Arc::default(),
        }
    }
}

impl Body for Upload {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(Ok(first)));
        }
        let Some(body) = &mut self.body else {
            return Poll::Ready(None);
        };
        let frame = Pin::new(body).poll_frame(context);
        match &frame {
            Poll::Ready(None) => {
                let _ = self.progress.ended.set(Instant::now());
            }
            Poll::Ready(Some(Err(_))) => self.progress.broken.store(true, Ordering::Relaxed),
            Poll::Ready(Some(Ok(_))) if self.is_end_stream() => {
                let _ = self.progress.ended.set(Instant::now());
            }
            _ => {}
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.first.is_none() && self.body.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        let none = || SizeHint::with_exact(0);
        let mut hint = self.body.as_ref().map_or_else(none, Body::size_hint);
        let first = self.first.as_ref().and_then(Frame::data_ref);
        let first = first.map_or(0, |data| data.len() as u64);
        if let Some(upper) = hint.upper() {
            hint.set_upper(upper + first);
        }
        hint.set_lower(hint.lower() + first);
        hint
    }
}

/// What is to be done if a response's body breaks off.
pub type Broken = Box<dyn FnOnce() + Send>;

/// A response's body.
pub struct Answer {
    from: From,
    /// The request is on its way until its response has ended.
    pub open: Option<Open>,
    /// So is the connection to the server.
    _permit: Option<OwnedSemaphorePermit>,
}

enum From {
    /// The server's.
    Server(Incoming, Option<Broken>),
    /// A line of this proxy's own; `None`: it is sent.
    Here(Option<Bytes>),
}

impl Answer {
    /// The server's.
    pub fn theirs(body: Incoming, broken: Broken, permit: Option<OwnedSemaphorePermit>) -> Self {
        Self {
            from: From::Server(body, Some(broken)),
            open: None,
            _permit: permit,
        }
    }

    /// A line.
    pub fn ours(line: String) -> Self {
        Self {
            from: From::Here(Some(line.into())),
            open: None,
            _permit: None,
        }
    }
}

impl Body for Answer {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let Self { from, open, .. } = self.get_mut();
        let frame = match from {
            From::Server(body, broken) => {
                let frame = Pin::new(body).poll_frame(context);
                if let Poll::Ready(Some(Err(_))) = &frame
                    && let Some(broken) = broken.take()
                {
                    broken();
                }
                frame
            }
            From::Here(line) => Poll::Ready(line.take().map(|line| Ok(Frame::data(line)))),
        };
        if let Some(open) = open.as_ref().filter(|_| frame.is_ready()) {
            open.passes();
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        match &self.from {
            From::Server(body, _) => body.is_end_stream(),
            From::Here(line) => line.is_none(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.from {
            From::Server(body, _) => body.size_hint(),
            From::Here(line) => {
                SizeHint::with_exact(line.as_ref().map_or(0, |line| line.len() as u64))
            }
        }
    }
}
