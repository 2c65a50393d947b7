//! A client: attempts at calls, one after the other or hedged.

use crate::{
    AdminRequest, CallOptions, Failure, Mode, Options, RawRequest, RawResponse, Target, blocking,
    connector::Connector,
    failure::{Result, Stage},
    grpc::call::Grpc,
    raw_request,
    response_stream::ResponseStream,
    rest::Rest,
    retry,
};
use penstock_core::Parameter;
use penstock_wire::{ClientRequest, ClientResponse};
use std::{
    fmt,
    future::Future,
    pin::pin,
    sync::Arc,
    time::{Duration, Instant},
};

/// A server, and the connections to it.
pub struct Client {
    mode: Mode,
    target: Target,
    options: Arc<Options>,
    server: Server,
}

enum Server {
    Rest(Box<Rest>),
    Grpc(Box<Grpc>),
}

impl Client {
    /// A client of the server at `target`. Connects at the first call.
    ///
    /// # Errors
    /// `InvalidInput` for headers or certificates that cannot be used.
    pub fn new(mode: Mode, target: Target, options: Options) -> penstock_core::Result<Self> {
        check_headers(&options.headers)?;
        let connector = Arc::new(Connector::new(mode, &target, &options)?);
        let options = Arc::new(options);
        let server = if target.grpc {
            Server::Grpc(Box::new(Grpc::new(mode, &target, &options, connector)))
        } else {
            Server::Rest(Box::new(Rest::new(&target, &options, connector)))
        };
        Ok(Self { mode, target, options, server })
    }

    /// The server's address.
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// Driver of the calls.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Runs one inference.
    ///
    /// # Errors
    /// The server refused or could not be reached, or its response violates the protocol.
    pub async fn infer(&self, mut call: ClientRequest, how: &CallOptions) -> Result<ClientResponse> {
        check_headers(&how.headers).map_err(Failure::not_sent)?;
        add_timeout_parameter(&mut call, how);
        let stateful = call.parameters.iter().any(|(name, _)| name == "sequence_id");
        let attempts = || self.attempts(how, false, || self.infer_once(&call, how));
        match self.options.hedge.filter(|_| self.mode == Mode::Async && how.hedge && !stateful) {
            Some(delay) => self.in_time(how, hedged(delay, attempts)).await,
            None => self.in_time(how, attempts()).await,
        }
    }

    /// Sends an admin request and returns the response as JSON.
    ///
    /// # Errors
    /// As for [`infer`](Self::infer).
    pub async fn admin(&self, request: &AdminRequest, how: &CallOptions) -> Result<Vec<u8>> {
        check_headers(&how.headers).map_err(Failure::not_sent)?;
        let attempts = self.attempts(how, request.is_idempotent(), || self.admin_once(request, how));
        self.in_time(how, attempts).await
    }

    /// Sends a raw request. Over HTTP every status is a result, over gRPC only OK.
    ///
    /// # Errors
    /// As for [`infer`](Self::infer).
    pub async fn raw(&self, request: &RawRequest, how: &CallOptions) -> Result<RawResponse> {
        let grpc = self.target.grpc;
        request.check(grpc).map_err(Failure::not_sent)?;
        raw_request::check_headers(&how.headers, |name| raw_request::is_framing(name, grpc))
            .map_err(Failure::not_sent)?;
        let attempts = self.attempts(how, request.repeatable, || self.raw_once(request, how));
        self.in_time(how, attempts).await
    }

    /// Opens a stream of responses. The deadline covers the opening, `CallOptions::timeout` each response.
    ///
    /// # Errors
    /// As for [`infer`](Self::infer).
    pub async fn stream(&self, call: ClientRequest, how: &CallOptions) -> Result<ResponseStream> {
        check_headers(&how.headers).map_err(Failure::not_sent)?;
        // The duration of a whole stream is unknown.
        let without_timeout = CallOptions { timeout: None, ..how.clone() };
        let attempts = self.attempts(how, false, || self.stream_once(&call, &without_timeout, how.timeout));
        self.in_time(how, attempts).await
    }

    /// Drops idle connections. Calls in flight finish.
    pub fn close(&self) {
        match &self.server {
            Server::Rest(rest) => rest.close(),
            Server::Grpc(grpc) => grpc.close(),
        }
    }

    async fn infer_once(&self, call: &ClientRequest, how: &CallOptions) -> Result<ClientResponse> {
        match &self.server {
            Server::Rest(rest) => rest.infer(call, how).await,
            Server::Grpc(grpc) => grpc.infer(call, how).await,
        }
    }

    async fn admin_once(&self, request: &AdminRequest, how: &CallOptions) -> Result<Vec<u8>> {
        match &self.server {
            Server::Rest(rest) => rest.admin(request, how).await,
            Server::Grpc(grpc) => grpc.admin(request, how).await,
        }
    }

    async fn raw_once(&self, request: &RawRequest, how: &CallOptions) -> Result<RawResponse> {
        match &self.server {
            Server::Rest(rest) => rest.raw(request, how).await,
            Server::Grpc(grpc) => grpc.raw(request, how).await,
        }
    }

    async fn stream_once(
        &self,
        call: &ClientRequest,
        how: &CallOptions,
        piece: Option<Duration>,
    ) -> Result<ResponseStream> {
        match &self.server {
            Server::Rest(rest) => {
                let (connection, head) = rest.stream(call, how).await?;
                Ok(ResponseStream::rest(connection, head.framing, self.options.max_response_bytes, piece))
            }
            Server::Grpc(grpc) => {
                let (own, reply) = grpc.stream(call, how).await?;
                Ok(ResponseStream::grpc(own, reply, piece))
            }
        }
    }

    /// Repeats attempts until one succeeds or no retry is allowed.
    async fn attempts<T, F: Future<Output = Result<T>>>(
        &self,
        how: &CallOptions,
        idempotent: bool,
        once: impl Fn() -> F,
    ) -> Result<T> {
        let mut attempt = 1;
        loop {
            let failure = match once().await {
                Ok(done) => return Ok(done),
                Err(failure) => failure,
            };
            let Some(wait) = retry::wait(&self.options.retries, attempt, &failure, idempotent) else {
                return Err(failure);
            };
            if how.deadline.is_some_and(|deadline| Instant::now() + wait >= deadline) {
                return Err(failure);
            }
            self.pause(wait).await;
            attempt += 1;
        }
    }

    /// Bounds `call` by the deadline. Blocking sockets enforce it themselves.
    async fn in_time<T>(&self, how: &CallOptions, call: impl Future<Output = Result<T>>) -> Result<T> {
        match how.deadline.filter(|_| self.mode == Mode::Async) {
            None => call.await,
            Some(deadline) => {
                let timed = tokio::time::timeout_at(deadline.into(), call).await;
                timed.unwrap_or_else(|_| Err(Failure::timeout(Stage::Unknown)))
            }
        }
    }

    async fn pause(&self, wait: Duration) {
        match self.mode {
            Mode::Blocking => blocking::sleep(wait).await,
            Mode::Async => tokio::time::sleep(wait).await,
        }
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("target", &self.target).field("mode", &self.mode).finish_non_exhaustive()
    }
}

/// Returns the first success of two attempts; the second starts after `delay`.
async fn hedged<T, F: Future<Output = Result<T>>>(delay: Duration, attempts: impl Fn() -> F) -> Result<T> {
    let mut first = pin!(attempts());
    tokio::select! {
        done = &mut first => return done,
        () = tokio::time::sleep(delay) => {}
    }
    let mut second = pin!(attempts());
    tokio::select! {
        done = &mut first => if done.is_ok() { done } else { second.await },
        done = &mut second => if done.is_ok() { done } else { first.await },
    }
}

/// Adds the `timeout` parameter, unless the request has one.
fn add_timeout_parameter(call: &mut ClientRequest, how: &CallOptions) {
    if let Some(timeout) = how.timeout
        && !call.parameters.iter().any(|(name, _)| name == "timeout")
    {
        let micros = i64::try_from(timeout.as_micros()).unwrap_or(i64::MAX).max(1);
        call.parameters.push(("timeout".to_owned(), Parameter::Int(micros)));
    }
}

/// Headers that only the client itself can set.
const OWN_HEADERS: [&str; 9] = [
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "grpc-encoding",
    "grpc-timeout",
    "inference-header-content-length",
    "te",
    "transfer-encoding",
];

fn check_headers(headers: &[(String, String)]) -> penstock_core::Result<()> {
    raw_request::check_headers(headers, |name| OWN_HEADERS.contains(&name))
}
