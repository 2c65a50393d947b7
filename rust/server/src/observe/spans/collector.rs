//! Connection to the collector, over HTTP/1.1 or gRPC, which is kept between messages.

use crate::settings::Tracing;
use bytes::{BufMut as _, Bytes, BytesMut};
use http::{
    HeaderMap, Request, Version,
    header::{CONTENT_TYPE, HOST, TE},
};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::{
    body::Incoming,
    client::conn::{http1, http2},
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use penstock_tls::Outgoing;
use std::error::Error as StdError;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
};

/// Bytes of a response that are read.
const MAX_RESPONSE_BYTES: usize = 64 << 10;

/// Codes of gRPC after which a message may be sent again, by OTLP: cancelled, deadline exceeded, resource exhausted,
/// aborted, out of range, unavailable, data loss.
const RETRIED_CODES: [&str; 7] = ["1", "4", "8", "10", "11", "14", "15"];

/// The collector.
pub(super) struct Collector {
    settings: Tracing,
    /// `None` before the first message, and after a failure.
    open: Option<Sender>,
}

enum Sender {
    Http1(http1::SendRequest<Full<Bytes>>),
    Http2(http2::SendRequest<Full<Bytes>>),
}

/// Failure of a message, and whether a retry may help.
pub(super) struct Failed {
    pub(super) text: String,
    pub(super) again: bool,
}

impl<E: StdError> From<E> for Failed {
    fn from(error: E) -> Self {
        Self { text: error.to_string(), again: true }
    }
}

impl Collector {
    pub(super) fn new(settings: Tracing) -> Self {
        Self { settings, open: None }
    }

    /// Sends a message, and waits for its response. A connection that the collector has closed meanwhile is replaced.
    pub(super) async fn send(&mut self, message: &Bytes) -> Result<(), Failed> {
        // A connection is lost where this future is dropped by a timeout.
        if let Some(mut sender) = self.open.take() {
            let sent = sender.send(self.request(message)?).await;
            if let Ok(response) = sent {
                let result = self.result(response).await;
                self.open = Some(sender);
                return result;
            }
        }
        let mut sender = self.connect().await?;
        let response = sender.send(self.request(message)?).await?;
        let result = self.result(response).await;
        self.open = Some(sender);
        result
    }

    async fn connect(&self) -> Result<Sender, Failed> {
        let stream = TcpStream::connect(&self.settings.authority).await?;
        stream.set_nodelay(true)?;
        match &self.settings.tls {
            None => self.handshake(stream).await,
            Some(Outgoing { connector, name }) => self.handshake(connector.connect(name.clone(), stream).await?).await,
        }
    }

    async fn handshake<S>(&self, stream: S) -> Result<Sender, Failed>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        // The connections end with their senders, and errors reach those.
        if self.settings.grpc {
            let (sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await?;
            tokio::spawn(connection);
            return Ok(Sender::Http2(sender));
        }
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        Ok(Sender::Http1(sender))
    }

    fn request(&self, message: &Bytes) -> Result<Request<Full<Bytes>>, Failed> {
        let Tracing { authority, path, headers, grpc, tls, .. } = &self.settings;
        let mut request = if *grpc {
            let scheme = if tls.is_some() { "https" } else { "http" };
            Request::post(format!("{scheme}://{authority}{path}"))
                .version(Version::HTTP_2)
                .header(CONTENT_TYPE, "application/grpc")
                .header(TE, "trailers")
        } else {
            Request::post(path).header(HOST, authority).header(CONTENT_TYPE, "application/x-protobuf")
        };
        for (name, value) in headers {
            request = request.header(name, value);
        }
        let body = if *grpc { framed(message) } else { message.clone() };
        Ok(request.body(Full::new(body))?)
    }

    /// Reads a response to its end, so that the connection can be used again.
    async fn result(&self, response: http::Response<Incoming>) -> Result<(), Failed> {
        let (head, body) = response.into_parts();
        let body = Limited::new(body, MAX_RESPONSE_BYTES).collect().await;
        if !head.status.is_success() {
            let again = matches!(head.status.as_u16(), 429 | 502 | 503 | 504);
            return Err(Failed { text: format!("it answers with status {}", head.status.as_u16()), again });
        }
        if !self.settings.grpc {
            return Ok(());
        }
        let body = body.map_err(|error| Failed { text: error.to_string(), again: true })?;
        // A refusal may have its status in the head, and no trailers.
        let code = |headers: &HeaderMap| {
            headers.get("grpc-status").map(|code| String::from_utf8_lossy(code.as_bytes()).into_owned())
        };
        match body.trailers().and_then(code).or_else(|| code(&head.headers)).as_deref() {
            Some("0") => Ok(()),
            Some(code) => {
                Err(Failed { text: format!("it answers with gRPC code {code}"), again: RETRIED_CODES.contains(&code) })
            }
            None => Err(Failed { text: "its response has no grpc-status".to_owned(), again: false }),
        }
    }
}

impl Sender {
    async fn send(&mut self, request: Request<Full<Bytes>>) -> hyper::Result<http::Response<Incoming>> {
        match self {
            Self::Http1(sender) => {
                sender.ready().await?;
                sender.send_request(request).await
            }
            Self::Http2(sender) => {
                sender.ready().await?;
                sender.send_request(request).await
            }
        }
    }
}

/// A message in the frame of gRPC: not compressed, and its length.
fn framed(message: &Bytes) -> Bytes {
    let mut frame = BytesMut::with_capacity(message.len() + 5);
    frame.put_u8(0);
    // Messages have a few hundred spans.
    frame.put_u32(u32::try_from(message.len()).unwrap_or(u32::MAX));
    frame.put_slice(message);
    frame.freeze()
}
