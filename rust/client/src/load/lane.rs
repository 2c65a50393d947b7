//! One request at a time, over an exclusive connection (HTTP/1.1) or a shared one (gRPC).

use super::{
    patience::Patience,
    prepared::{Endpoint, Prepared},
};
use crate::{
    Failure,
    failure::{Result, Stage},
    http1::{Framing, Head, Http1},
    rest,
};
use bytes::Bytes;
use penstock_core::{Error, Kind};
use std::time::{Duration, Instant};
use tokio::time::sleep;

/// Time without requests after which a connection is checked before it is used.
const UNCHECKED: Duration = Duration::from_millis(500);
/// Pause after a failed connection, so that a server that is down is not flooded.
const RETRY_AFTER: Duration = Duration::from_millis(20);
/// Maximum size of an error's body, in bytes.
const MAX_REFUSAL: usize = 1 << 20;

/// A sender of one request at a time.
pub(super) struct Lane {
    index: usize,
    patience: Patience,
    connection: Option<Http1>,
    used: Instant,
}

/// A request over HTTP/1.1.
struct Request<'a> {
    head: &'a [u8],
    body: &'a [Bytes],
    tensors: bool,
}

impl Lane {
    pub(super) fn new(index: usize, timeout: Duration) -> Self {
        Self { index, patience: Patience::new(timeout), connection: None, used: Instant::now() }
    }

    /// Connects ahead. A failure is left to the first request.
    pub(super) async fn connect(&mut self, endpoint: &Endpoint) {
        if endpoint.grpc.is_empty()
            && let Ok(stream) = endpoint.connector.connect().await
        {
            self.connection = Some(Http1::new(stream));
        }
    }

    /// Sends the next request at `now` and reads its response. Returns the bytes of its body.
    pub(super) async fn call(&mut self, endpoint: &Endpoint, now: Instant) -> Result<usize> {
        let connection = self.connection.take();
        let is_stale = now.saturating_duration_since(self.used) > UNCHECKED;
        let connection = connection.filter(|connection| !is_stale || connection.is_idle());
        let outcome = match endpoint.request() {
            Prepared::Grpc(outgoing) => {
                let grpc = &endpoint.grpc[self.index % endpoint.grpc.len()];
                self.patience.within(now, grpc.exchange(outgoing, endpoint.validate)).await
            }
            Prepared::Rest { head, body, tensors } => {
                let request = Request { head, body, tensors: *tensors };
                let done = self.patience.within(now, rest_call(endpoint, connection, &request)).await;
                done.map(|outcome| {
                    let (kept, bytes) = outcome?;
                    self.connection = kept;
                    bytes
                })
            }
        };
        self.used = now;
        let outcome = outcome.unwrap_or_else(|| Err(Failure::timeout(Stage::Unknown)));
        if outcome.as_ref().is_err_and(|failure| failure.stage == Stage::NotSent) {
            sleep(RETRY_AFTER).await;
        }
        outcome
    }
}

/// Returns the connection if it can be used again, and the bytes of the response or its error.
async fn rest_call(
    endpoint: &Endpoint,
    mut connection: Option<Http1>,
    request: &Request<'_>,
) -> Result<(Option<Http1>, Result<usize>)> {
    loop {
        let is_fresh = connection.is_none();
        let mut own = match connection.take() {
            Some(own) => own,
            None => Http1::new(endpoint.connector.connect().await?),
        };
        let mut head = match own.send(request.head, request.body).await {
            Ok(()) => own.head(false).await?,
            // Closed by the server while it was idle.
            Err(unsent) if !unsent.partly && !is_fresh => continue,
            // The server may have refused before it had read the whole request.
            Err(unsent) => match own.head(false).await {
                Ok(head) if head.status >= 400 => Head { keep_alive: false, ..head },
                _ => return Err(unsent.into()),
            },
        };
        let outcome = if matches!(head.status, 200..300) {
            Ok(accepted(&mut own, &mut head, endpoint, request.tensors).await?)
        } else {
            let body = own.body(&mut head.framing, MAX_REFUSAL).await.unwrap_or_default();
            Err(rest::refusal(&head, &body))
        };
        let is_whole = matches!(head.framing, Framing::Done | Framing::Length(0));
        return Ok(((head.keep_alive && is_whole).then_some(own), outcome));
    }
}

async fn accepted(connection: &mut Http1, head: &mut Head, endpoint: &Endpoint, tensors: bool) -> Result<usize> {
    if !endpoint.validate {
        let length = connection.discard(&mut head.framing, endpoint.max_response_bytes).await?;
        return if length > 0 { Ok(length) } else { Err(invalid("the server's answer has no body")) };
    }
    let body = connection.body(&mut head.framing, endpoint.max_response_bytes).await?;
    if tensors {
        rest::decoded(&body, head.json_len)?;
    } else {
        let read = serde_json::from_slice::<serde_json::Value>(&body);
        read.map_err(|error| invalid(format!("the server's answer is not JSON: {error}")))?;
    }
    Ok(body.len())
}

fn invalid(why: impl Into<String>) -> Failure {
    Error::new(Kind::Internal, why.into()).into()
}
