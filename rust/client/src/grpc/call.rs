//! Calls of a gRPC server.

use super::{
    admin,
    connection::DrivenConnection,
    metadata::{put_metadata, timeout_text},
    response::{ResponseReader, builder, open, unsent},
};
use crate::{
    AdminRequest, CallOptions, Mode, Options, RawRequest, RawResponse, Target,
    compression::{ACCEPTED_MESSAGES, compress},
    connector::Connector,
    failure::{Failure, Result, Stage},
};
use bytes::{BufMut as _, Bytes, BytesMut};
use h2::client::SendRequest;
use http::{HeaderMap, HeaderValue, Request};
use penstock_core::{BodyChunks, Error, Kind};
use penstock_wire::{
    ClientRequest, ClientResponse,
    grpc::{FRAME_PREFIX, encode_request},
};
use std::sync::{Arc, Mutex, PoisonError};

const SERVICE: &str = "/inference.GRPCInferenceService/";

/// A gRPC server.
pub(crate) struct Grpc {
    connector: Arc<Connector>,
    options: Arc<Options>,
    mode: Mode,
    /// Scheme, host and port of every URL.
    origin: String,
    idle: Mutex<Vec<DrivenConnection>>,
    shared: tokio::sync::Mutex<Option<SendRequest<Bytes>>>,
}

/// A request that can be sent more than once.
pub(crate) struct Outgoing {
    uri: String,
    headers: HeaderMap,
    chunks: BodyChunks,
}

impl Grpc {
    pub(crate) fn new(mode: Mode, target: &Target, options: &Arc<Options>, connector: Arc<Connector>) -> Self {
        let scheme = if target.tls { "https" } else { "http" };
        Self {
            connector,
            options: Arc::clone(options),
            mode,
            origin: format!("{scheme}://{}", target.authority()),
            idle: Mutex::new(Vec::new()),
            shared: tokio::sync::Mutex::new(None),
        }
    }

    /// Makes one attempt at an inference.
    pub(crate) async fn infer(&self, call: &ClientRequest, how: &CallOptions) -> Result<ClientResponse> {
        let outgoing = self.outgoing("ModelInfer", encode_request(call), how)?;
        loop {
            let (mut own, send, fresh) = self.sender().await?;
            let reply = outgoing.send(send, self.options.max_response_bytes);
            let answered = match &mut own {
                Some(own) => own.run(async { reply.await?.answer().await }).await,
                None => async { reply.await?.answer().await }.await,
            };
            if let Some(answered) = self.done(own, answered, fresh).await {
                return answered;
            }
        }
    }

    /// Makes one attempt at an admin request.
    pub(crate) async fn admin(&self, request: &AdminRequest, how: &CallOptions) -> Result<Vec<u8>> {
        let (method, message) = admin::request(request);
        let outgoing = self.outgoing(method, framed(message.into()), how)?;
        Ok(admin::answer(request, self.unary(&outgoing).await?)?)
    }

    /// Makes one attempt at a call of any service.
    pub(crate) async fn raw(&self, raw: &RawRequest, how: &CallOptions) -> Result<RawResponse> {
        let outgoing = self.outgoing_to(("", &raw.path), framed(raw.body.clone()).map_err(Failure::not_sent)?, how);
        let message = self.unary(&outgoing).await?;
        Ok(RawResponse { body: message.into(), ..RawResponse::default() })
    }

    /// Returns the message of a unary response.
    async fn unary(&self, outgoing: &Outgoing) -> Result<Bytes> {
        loop {
            let (mut own, send, fresh) = self.sender().await?;
            let reply = outgoing.send(send, self.options.max_response_bytes);
            let message = async {
                let mut reply = reply.await?;
                let message = reply.next().await?;
                if message.is_some() {
                    reply.next().await?;
                }
                Ok(message.unwrap_or_default())
            };
            let answered = match &mut own {
                Some(own) => own.run(message).await,
                None => message.await,
            };
            if let Some(answered) = self.done(own, answered, fresh).await {
                return answered;
            }
        }
    }

    /// Encodes an inference, to be sent many times.
    pub(crate) fn prepared(&self, call: &ClientRequest, how: &CallOptions) -> Result<Outgoing> {
        self.outgoing("ModelInfer", encode_request(call), how)
    }

    /// Sends an encoded inference over the runtime's connection. Returns the bytes of the response's message, which is
    /// decoded only to `validate` it.
    pub(crate) async fn exchange(&self, outgoing: &Outgoing, validate: bool) -> Result<usize> {
        loop {
            let (own, send, fresh) = self.sender().await?;
            let reply = outgoing.send(send, self.options.max_response_bytes);
            let answered = async {
                let reply = reply.await?;
                if validate { reply.validated().await } else { reply.discard().await }
            };
            let answered = answered.await;
            if let Some(answered) = self.done(own, answered, fresh).await {
                return answered;
            }
        }
    }

    /// Opens a stream of responses. Returns the connection, if the thread owns one, and the reader.
    pub(crate) async fn stream(
        &self,
        call: &ClientRequest,
        how: &CallOptions,
    ) -> Result<(Option<DrivenConnection>, ResponseReader)> {
        let outgoing = self.outgoing("ModelStreamInfer", encode_request(call), how)?;
        loop {
            let (mut own, send, fresh) = self.sender().await?;
            let reply = outgoing.send(send, self.options.max_response_bytes);
            let opened = match &mut own {
                Some(own) => own.run(reply).await,
                None => reply.await,
            };
            match opened {
                Ok(reply) => return Ok((own, reply)),
                Err(failure) => {
                    if let Some(failed) = self.done::<()>(own, Err(failure), fresh).await {
                        failed?;
                    }
                }
            }
        }
    }

    /// Returns the sender, the connection that the thread owns, and whether the connection is new.
    async fn sender(&self) -> Result<(Option<DrivenConnection>, SendRequest<Bytes>, bool)> {
        match self.mode {
            Mode::Blocking => {
                while let Some(mut own) = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop() {
                    if own.is_idle() {
                        let send = own.sender();
                        return Ok((Some(own), send, false));
                    }
                }
                let own = DrivenConnection::new(self.connector.connect().await?).await?;
                let send = own.sender();
                Ok((Some(own), send, true))
            }
            Mode::Async => {
                let mut shared = self.shared.lock().await;
                if let Some(send) = &*shared {
                    return Ok((None, send.clone(), false));
                }
                let stream = self.connector.connect().await?;
                let (send, connection) = builder().handshake(stream).await.map_err(|error| unsent(&error))?;
                tokio::spawn(async move {
                    // The calls over it get its error.
                    let _ = connection.await;
                });
                *shared = Some(send.clone());
                Ok((None, send, true))
            }
        }
    }

    /// Returns reusable connections to the pool. `None` if an old connection failed before the request was sent.
    async fn done<T>(&self, own: Option<DrivenConnection>, answered: Result<T>, fresh: bool) -> Option<Result<T>> {
        let stage = answered.as_ref().err().map(|failure| failure.stage);
        if let (Some(mut own), None | Some(Stage::Responded)) = (own, stage)
            && own.flush()
        {
            let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
            if idle.len() < self.options.max_idle {
                idle.push(own);
            }
        }
        if let (Err(failure), Some(Stage::NotSent)) = (&answered, stage) {
            *self.shared.lock().await = None;
            if !fresh && failure.error.kind() == Kind::Unavailable {
                return None;
            }
        }
        Some(answered)
    }

    fn outgoing(
        &self,
        method: &str,
        message: penstock_core::Result<BodyChunks>,
        how: &CallOptions,
    ) -> Result<Outgoing> {
        let mut chunks = message.map_err(Failure::not_sent)?;
        let mut encoding = None;
        if let Some(coding) = self.options.compression.filter(|_| method == "ModelInfer") {
            if let Some(first) = chunks.first_mut() {
                *first = first.slice(FRAME_PREFIX..);
            }
            let compressed = compress(coding, &chunks).map_err(Failure::not_sent)?;
            chunks = prefixed(1, compressed.concat().into()).map_err(Failure::not_sent)?;
            encoding = Some(HeaderValue::from_static(coding.name()));
        }
        let mut outgoing = self.outgoing_to((SERVICE, method), chunks, how);
        if let Some(encoding) = encoding {
            outgoing.headers.insert("grpc-encoding", encoding);
        }
        Ok(outgoing)
    }

    fn outgoing_to(&self, (service, method): (&str, &str), chunks: BodyChunks, how: &CallOptions) -> Outgoing {
        let mut headers = HeaderMap::with_capacity(8);
        headers.insert("te", HeaderValue::from_static("trailers"));
        headers.insert("content-type", HeaderValue::from_static("application/grpc"));
        if let Some(timeout) = how.timeout
            && let Ok(value) = HeaderValue::from_str(&timeout_text(timeout))
        {
            headers.insert("grpc-timeout", value);
        }
        if self.options.accept_compression {
            headers.insert("grpc-accept-encoding", HeaderValue::from_static(ACCEPTED_MESSAGES));
        }
        put_metadata(&mut headers, &self.options, &how.headers);
        Outgoing { uri: [&self.origin, service, method].concat(), headers, chunks }
    }

    /// Drops all connections.
    pub(crate) fn close(&self) {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).clear();
        if let Ok(mut shared) = self.shared.try_lock() {
            *shared = None;
        }
    }
}

impl Outgoing {
    async fn send(&self, send: SendRequest<Bytes>, max_response_bytes: usize) -> Result<ResponseReader> {
        let mut request =
            Request::builder().method("POST").uri(&self.uri).body(()).map_err(|error| {
                Failure::not_sent(Error::invalid(format!("the URL cannot be used for gRPC: {error}")))
            })?;
        *request.headers_mut() = self.headers.clone();
        open(send, request, self.chunks.clone(), max_response_bytes).await
    }
}

fn framed(message: Bytes) -> penstock_core::Result<BodyChunks> {
    prefixed(0, message)
}

fn prefixed(flag: u8, message: Bytes) -> penstock_core::Result<BodyChunks> {
    let length = u32::try_from(message.len()).map_err(|_| Error::new(Kind::TooLarge, "the message is too long"))?;
    let mut prefix = BytesMut::with_capacity(FRAME_PREFIX);
    prefix.put_u8(flag);
    prefix.put_u32(length);
    Ok(BodyChunks::from_iter([prefix.freeze(), message]))
}
