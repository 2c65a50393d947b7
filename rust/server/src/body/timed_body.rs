//! Timeouts of request bodies: minimum rate and longest silence.

use super::request_body::RequestBody;
use crate::{observe::RequestLog, settings::Limits};
use bytes::Bytes;
use http::{Request, Version};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use penstock_core::Error;
use std::{
    error::Error as StdError,
    fmt,
    future::Future as _,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};
use tokio::time::{Instant, Sleep, sleep};
use tonic::Status;

/// Waiting time before the rate of a body is checked.
const RATE_GRACE: Duration = Duration::from_secs(5);

/// Calls whose clients may be silent between messages.
const OF_MANY_MESSAGES: [&str; 2] = ["/ModelStreamInfer", "/ServerReflectionInfo"];

/// hyper's error, or [`SlowBody`].
type BoxError = Box<dyn StdError + Send + Sync>;

/// Request body with timeouts.
pub(crate) struct TimedBody {
    body: Incoming,
    limits: Arc<Limits>,
    /// Received bytes, of the current message if there are many.
    bytes: u64,
    /// `None` until the first wait.
    pace: Option<Box<Pace>>,
    messages: Option<Messages>,
    /// `None` where the request is not logged.
    log: Option<Arc<RequestLog>>,
}

impl TimedBody {
    /// Adds timeouts to the body of a request.
    pub(crate) fn of(request: Request<Incoming>, limits: &Arc<Limits>) -> Request<Self> {
        let streams = |path: &str| OF_MANY_MESSAGES.iter().any(|call| path.ends_with(call));
        let messages = (request.version() == Version::HTTP_2 && streams(request.uri().path())).then(Messages::default);
        request.map(|body| Self { body, limits: Arc::clone(limits), bytes: 0, pace: None, messages, log: None })
    }
}

impl RequestBody for TimedBody {
    fn log_to(&mut self, log: &Arc<RequestLog>) {
        self.log = Some(Arc::clone(log));
    }
}

impl Body for TimedBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let Self { body, limits, bytes, pace, messages, log } = &mut *self;
        match Pin::new(body).poll_frame(cx) {
            Poll::Ready(frame) => {
                if let Some(data) = frame.as_ref().and_then(|frame| frame.as_ref().ok()?.data_ref()) {
                    if let Some(log) = log {
                        log.received(data.len());
                    }
                    match messages {
                        None => *bytes += data.len() as u64,
                        Some(messages) => {
                            if messages.read(data) {
                                *pace = None;
                            }
                            *bytes = messages.at_hand;
                        }
                    }
                }
                if let Some(pace) = pace
                    && let Some(waited) = pace.came()
                    && let Some(log) = log
                {
                    log.waited_for_body(waited);
                }
                Poll::Ready(frame.map(|frame| frame.map_err(Into::into)))
            }
            // Between messages the client may be silent.
            Poll::Pending if messages.as_ref().is_some_and(|messages| messages.have == 0) => Poll::Pending,
            Poll::Pending => {
                let pace = pace.get_or_insert_with(|| Box::new(Pace::new(limits)));
                let late = ready!(pace.poll_late(cx, *bytes, limits));
                Poll::Ready(Some(Err(Box::new(SlowBody::new(late)))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Waiting times of a body.
struct Pace {
    /// Total of finished waits.
    waited: Duration,
    /// Start of the current wait.
    since: Option<Instant>,
    timer: Pin<Box<Sleep>>,
}

impl Pace {
    fn new(limits: &Limits) -> Self {
        let most = limits.body_timeout.get();
        let first = if limits.min_body_rate.get() == 0 { most } else { most.min(RATE_GRACE) };
        Self { waited: Duration::ZERO, since: None, timer: Box::pin(sleep(first)) }
    }

    /// Ends a wait, and returns its duration.
    fn came(&mut self) -> Option<Duration> {
        let waited = self.since.take()?.elapsed();
        self.waited += waited;
        Some(waited)
    }

    /// Completes with the reason once a body with so many received bytes is late.
    fn poll_late(&mut self, cx: &mut Context<'_>, bytes: u64, limits: &Limits) -> Poll<String> {
        let since = *self.since.get_or_insert_with(Instant::now);
        loop {
            ready!(self.timer.as_mut().poll(cx));
            let (silent, most) = (since.elapsed(), limits.body_timeout.get());
            if silent >= most {
                return Poll::Ready(format!("no more of the body came for {most:?}"));
            }
            let (waited, rate) = (self.waited + silent, limits.min_body_rate.get());
            let enough_for = bytes.saturating_mul(1000).checked_div(rate).map(Duration::from_millis);
            let enough_for = enough_for.map_or(Duration::MAX, |time| time.max(RATE_GRACE));
            if waited > enough_for {
                let millis = u64::try_from(waited.as_millis()).unwrap_or(u64::MAX);
                let measured = bytes.saturating_mul(1000) / millis.max(1);
                return Poll::Ready(format!("the body came at {measured} B/s; {rate} are needed"));
            }
            self.timer.as_mut().reset(Instant::now() + (enough_for - waited).min(most - silent));
        }
    }
}

/// Position in a body of gRPC messages.
#[derive(Debug, Default)]
struct Messages {
    /// A compression flag and a big-endian length.
    prefix: [u8; 5],
    have: usize,
    left: usize,
    /// Received bytes of the current message.
    at_hand: u64,
}

impl Messages {
    /// Consumes bytes; returns true if a message ended among them.
    fn read(&mut self, mut bytes: &[u8]) -> bool {
        let mut ended = false;
        while !bytes.is_empty() {
            if self.have < 5 {
                let taken = bytes.len().min(5 - self.have);
                self.prefix[self.have..self.have + taken].copy_from_slice(&bytes[..taken]);
                self.have += taken;
                self.at_hand += taken as u64;
                bytes = &bytes[taken..];
                if self.have < 5 {
                    break;
                }
                let [_, length @ ..] = self.prefix;
                self.left = u32::from_be_bytes(length) as usize;
            }
            let taken = bytes.len().min(self.left);
            self.left -= taken;
            self.at_hand += taken as u64;
            bytes = &bytes[taken..];
            if self.left == 0 {
                (self.have, self.at_hand, ended) = (0, 0, true);
            }
        }
        ended
    }
}

/// Error of a body that arrives too slowly. tonic finds its status among the causes.
#[derive(Debug)]
pub(crate) struct SlowBody {
    error: Error,
    status: Status,
}

impl SlowBody {
    fn new(message: String) -> Self {
        Self { status: Status::deadline_exceeded(&*message), error: Error::slow_body(message) }
    }

    /// Returns the error for the client.
    pub(crate) fn error(&self) -> &Error {
        &self.error
    }
}

impl fmt::Display for SlowBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl StdError for SlowBody {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        Some(&self.status)
    }
}
