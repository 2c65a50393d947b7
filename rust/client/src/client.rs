//! A client: attempts at calls, one after the other or two at once.

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

    /// Whose thread makes the calls.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Runs one inference.
    ///
    /// # Errors
    /// The server refused, could not be reached, or answered what the protocol does not have.
    pub async fn infer(&self, mut call: ClientRequest, how: &CallOptions) -> Result<ClientResponse> {
        check_headers(&how.headers).map_err(Failure::not_sent)?;
        tell_timeout(&mut call, how);
        let stateful = call.parameters.iter().any(|(name, _)| name == "sequence_id");
        let attempts = || self.attempts(how, false, || self.infer_once(&call, how));
        match self.options.hedge.filter(|_| self.mode == Mode::Async && how.hedge && !stateful) {
            Some(delay) => self.in_time(how, hedged(delay, attempts)).await,
            None => self.in_time(how, attempts()).await,
        }
    }

    /// Asks a question, or gives an order; the answer as JSON.
    ///
    /// # Errors
    /// As [`infer`](Self::infer).
    pub async fn ask(&self, ask: &AdminRequest, how: &CallOptions) -> Result<Vec<u8>> {
        check_headers(&how.headers).map_err(Failure::not_sent)?;
        let attempts = self.attempts(how, ask.is_idempotent(), || self.ask_once(ask, how));
        self.in_time(how, attempts).await
    }

    /// Sends a request as it is. Over HTTP every answer is one, whatever its status; over gRPC only a good one.
    ///
    /// # Errors
    /// As [`infer`](Self::infer).
    pub async fn raw(&self, request: &RawRequest, how: &CallOptions) -> Result<RawResponse> {
        let grpc = self.target.grpc;
        request.check(grpc).map_err(Failure::not_sent)?;
        raw_request::check_headers(&how.headers, |name| raw_request::is_framing(name, grpc))
            .map_err(Failure::not_sent)?;
        let attempts = self.attempts(how, request.repeatable, || self.raw_once(request, how));
        self.in_time(how, attempts).await
    }

    /// Opens a stream of answers. The deadline is for its begin; `CallOptions::timeout` for each piece.
    ///
    /// # Errors
    /// As [`infer`](Self::infer).
    pub async fn stream(&self, call: ClientRequest, how: &CallOptions) -> Result<ResponseStream> {
        check_headers(&how.headers).map_err(Failure::not_sent)?;
        // How long a whole stream may take is not known.
        let untold = CallOptions { timeout: None, ..how.clone() };
        let attempts = self.attempts(how, false, || self.stream_once(&call, &untold, how.timeout));
        self.in_time(how, attempts).await
    }

    /// Lets idle connections go. Calls under way finish.
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

    async fn ask_once(&self, ask: &AdminRequest, how: &CallOptions) -> Result<Vec<u8>> {
        match &self.server {
            Server::Rest(rest) => rest.ask(ask, how).await,
            Server::Grpc(grpc) => grpc.ask(ask, how).await,
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
                Ok(ResponseStream::rest(connection, head.framing, self.options.max_answer, piece))
            }
            Server::Grpc(grpc) => {
                let (own, reply) = grpc.stream(call, how).await?;
                Ok(ResponseStream::grpc(own, reply, piece))
            }
        }
    }

    /// Attempts, until one succeeds or there is nothing more to hope for.
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

    /// What comes of `call` before the deadline. A blocking socket keeps to it by itself.
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

/// The first good answer of two attempts, of which the second starts after `delay`.
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

/// Tells the server how long the caller waits, unless the caller tells it something else.
fn tell_timeout(call: &mut ClientRequest, how: &CallOptions) {
    if let Some(timeout) = how.timeout
        && !call.parameters.iter().any(|(name, _)| name == "timeout")
    {
        let micros = i64::try_from(timeout.as_micros()).unwrap_or(i64::MAX).max(1);
        call.parameters.push(("timeout".to_owned(), Parameter::Int(micros)));
    }
}

/// Headers that say what only the client itself can know.
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
