//! The bodies that pass: what of them is to be known.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
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

/// What is kept of what a request has sent before its answer begins: a window of HTTP/2, in so many pieces.
const KEPT_MAX: usize = 64 << 10;
const PIECES_MAX: usize = 64;

/// A request's body.
pub struct Upload {
    source: Arc<Mutex<Source>>,
    /// Which sending of it this is.
    sending: u32,
    /// Pieces that this one has sent.
    sent: usize,
    progress: Arc<Progress>,
}

struct Source {
    body: Incoming,
    /// Its first piece, if that was awaited.
    first: Option<Frame<Bytes>>,
    /// What was sent until now, if [`Repeat`] can still send it.
    kept: Vec<Bytes>,
    kept_bytes: usize,
    keeps: bool,
    is_whole: bool,
    /// The latest sending has asked for it.
    begun: bool,
    /// The latest one: those before it get nothing more.
    sending: u32,
}

impl Source {
    fn sends(&mut self, frame: &Frame<Bytes>) {
        let has_room =
            |data: &Bytes| self.kept.len() < PIECES_MAX && self.kept_bytes + data.len() <= KEPT_MAX;
        match frame.data_ref() {
            Some(data) if self.keeps && has_room(data) => {
                self.kept_bytes += data.len();
                self.kept.push(data.clone());
            }
            _ => {
                (self.keeps, self.is_whole) = (false, false);
                self.kept.clear();
            }
        }
    }
}

/// Sends a request's body again, from its beginning.
pub struct Repeat {
    source: Arc<Mutex<Source>>,
    progress: Arc<Progress>,
}

impl Repeat {
    /// Has the latest sending sent nothing of a body that has something?
    pub fn is_unsent(&self) -> bool {
        let source = locked(&self.source);
        let is_empty =
            source.kept.is_empty() && source.first.is_none() && source.body.is_end_stream();
        !source.begun && !is_empty
    }

    /// `None` if what was sent of it is not kept.
    pub fn again(&self) -> Option<Upload> {
        let mut source = locked(&self.source);
        source.sending += 1;
        source.begun = false;
        source.is_whole.then(|| Upload {
            source: Arc::clone(&self.source),
            sending: source.sending,
            sent: 0,
            progress: Arc::clone(&self.progress),
        })
    }
}

/// The answer has begun: nothing further is kept, and what is goes with the next piece.
impl Drop for Repeat {
    fn drop(&mut self) {
        locked(&self.source).keeps = false;
    }
}

fn locked(source: &Mutex<Source>) -> MutexGuard<'_, Source> {
    source.lock().expect("nothing panics with it")
}

impl Upload {
    /// The client's. With `keeps` [`Repeat`] can send it again also after its first 64 KiB at most were sent.
    pub fn of(body: Incoming, keeps: bool) -> (Self, Repeat, Arc<Progress>) {
        let progress = Arc::<Progress>::default();
        let source = Arc::new(Mutex::new(Source {
            body,
            first: None,
            kept: Vec::new(),
            kept_bytes: 0,
            keeps,
            is_whole: true,
            begun: false,
            sending: 0,
        }));
        let repeat = Repeat {
            source: Arc::clone(&source),
            progress: Arc::clone(&progress),
        };
        let upload = Self {
            source,
            sending: 0,
            sent: 0,
            progress: Arc::clone(&progress),
        };
        (upload, repeat, progress)
    }

    /// Has the client send it, and takes its first piece; the rest waits in the library's buffers, which have limits.
    /// False if it breaks off.
    pub async fn begin(&mut self) -> bool {
        let first = poll_fn(|context| self.poll_body(&mut locked(&self.source), context)).await;
        match first {
            Some(Ok(frame)) => locked(&self.source).first = Some(frame),
            Some(Err(_)) => return false,
            None => {}
        }
        true
    }

    fn poll_body(
        &self,
        source: &mut Source,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let frame = Pin::new(&mut source.body).poll_frame(context);
        match &frame {
            Poll::Ready(None) => {
                let _ = self.progress.ended.set(Instant::now());
            }
            Poll::Ready(Some(Err(_))) => self.progress.broken.store(true, Ordering::Relaxed),
            Poll::Ready(Some(Ok(_))) if source.body.is_end_stream() => {
                let _ = self.progress.ended.set(Instant::now());
            }
            _ => {}
        }
        frame
    }
}

impl Body for Upload {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let source = Arc::clone(&self.source);
        let mut source = locked(&source);
        if source.sending != self.sending {
            return Poll::Ready(None);
        }
        source.begun = true;
        if let Some(piece) = source.kept.get(self.sent) {
            self.sent += 1;
            return Poll::Ready(Some(Ok(Frame::data(piece.clone()))));
        }
        let frame = match source.first.take() {
            Some(first) => Poll::Ready(Some(Ok(first))),
            None => self.poll_body(&mut source, context),
        };
        if let Poll::Ready(Some(Ok(frame))) = &frame {
            source.sends(frame);
            self.sent += 1;
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        let source = locked(&self.source);
        source.sending != self.sending
            || (source.first.is_none()
                && source.kept.len() <= self.sent
                && source.body.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        let source = locked(&self.source);
        let mut hint = source.body.size_hint();
        let first = source.first.as_ref().and_then(Frame::data_ref);
        let kept = source.kept.iter().skip(self.sent).chain(first);
        let before: u64 = kept.map(|data| data.len() as u64).sum();
        if let Some(upper) = hint.upper() {
            hint.set_upper(upper + before);
        }
        hint.set_lower(hint.lower() + before);
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
