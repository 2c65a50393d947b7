//! REST over HTTP/1.1, with a pool of connections.

use crate::{
    AdminRequest, CallOptions, Options, Target,
    admin_request::model_path,
    compression::{self, ACCEPTED, too_large},
    connector::Connector,
    failure::{Failure, Result},
    http1::{Framing, Head, Http1},
};
use bytes::Bytes;
use penstock_core::{BodyChunks, Error, Kind};
use penstock_wire::{
    ClientRequest, ClientResponse, Limits,
    coding::Coding,
    rest::{begin_response, encode_request},
};
use std::sync::{Arc, Mutex, PoisonError};

mod raw;
mod response;

pub(crate) use response::{decoded, refusal};

use response::{healthy, short};

/// Maximum size of an error's body, in bytes.
const MAX_REFUSAL: usize = 1 << 20;

/// A REST server.
pub(crate) struct Rest {
    connector: Arc<Connector>,
    options: Arc<Options>,
    target: Target,
    /// `Host` and the client's headers, as written.
    common: Vec<u8>,
    has_host: bool,
    idle: Mutex<Vec<Http1>>,
}

/// A request over HTTP.
struct Outgoing<'a> {
    method: &'a str,
    path: &'a str,
    headers: &'a [(String, String)],
    /// `None` where it is among the headers.
    content_type: Option<&'a str>,
    json_len: Option<usize>,
    compression: Option<Coding>,
    body: BodyChunks,
    /// The request may be repeated after a lost connection.
    idempotent: bool,
    /// Collect all headers of the response.
    all_headers: bool,
}

impl Rest {
    pub(crate) fn new(target: &Target, options: &Arc<Options>, connector: Arc<Connector>) -> Self {
        let mut common = Vec::new();
        let has_host = options.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host"));
        put_headers(&mut common, &options.headers);
        if options.accept_compression {
            put_header(&mut common, "Accept-Encoding", ACCEPTED);
        }
        let (options, target) = (Arc::clone(options), target.clone());
        Self { connector, options, target, common, has_host, idle: Mutex::new(Vec::new()) }
    }

    /// Makes one attempt at an inference.
    pub(crate) async fn infer(&self, call: &ClientRequest, how: &CallOptions) -> Result<ClientResponse> {
        let (connection, head) = self.post(call, how, "infer").await?;
        let (mut connection, mut head) = self.accepted(connection, head).await?;
        let most = self.options.max_response_bytes;
        let answer = match (head.json_len, head.encoding, head.framing) {
            (Some(json_len), None, Framing::Length(total)) => {
                if total > most {
                    return Err(too_large(most).into());
                }
                let tail = total.checked_sub(json_len).ok_or_else(short)?;
                let json = connection.prefix(json_len).await?;
                let mut decoder = begin_response(&json, tail, &Limits::default())?;
                loop {
                    let room = decoder.room();
                    if room.is_empty() {
                        break;
                    }
                    let count = connection.read_into(room).await?;
                    decoder.filled(count);
                }
                head.framing = Framing::Done;
                decoder.finish()?
            }
            _ => decoded(&self.body(&mut connection, &mut head).await?, head.json_len)?,
        };
        self.release(connection, &head);
        Ok(answer)
    }

    /// Opens a stream and returns the connection to read events from.
    pub(crate) async fn stream(&self, call: &ClientRequest, how: &CallOptions) -> Result<(Http1, Head)> {
        let (connection, head) = self.post(call, how, "infer_stream").await?;
        let (connection, head) = self.accepted(connection, head).await?;
        match head.encoding {
            None => Ok((connection, head)),
            Some(_) => Err(Error::new(Kind::Internal, "the server compresses its stream, which is not read").into()),
        }
    }

    /// Makes one attempt at an admin request.
    pub(crate) async fn admin(&self, request: &AdminRequest, how: &CallOptions) -> Result<Vec<u8>> {
        let (method, path, body) = request.rest();
        let outgoing = Outgoing {
            method,
            path: &path,
            headers: &how.headers,
            content_type: Some("application/json"),
            json_len: None,
            compression: None,
            body: BodyChunks::from_iter([Bytes::from(body)]),
            idempotent: request.is_idempotent(),
            all_headers: false,
        };
        let (mut connection, mut head) = self.exchange(&outgoing).await?;
        if request.is_health() && matches!(head.status, 200 | 400 | 503) {
            let ready = head.status == 200;
            let body = connection.body(&mut head.framing, MAX_REFUSAL).await?;
            self.release(connection, &head);
            return Ok(healthy(ready, &body));
        }
        let (mut connection, mut head) = self.accepted(connection, head).await?;
        let body = self.body(&mut connection, &mut head).await?;
        self.release(connection, &head);
        Ok(body)
    }

    async fn post(&self, call: &ClientRequest, how: &CallOptions, verb: &str) -> Result<(Http1, Head)> {
        let path = format!("{}/{verb}", model_path(&call.model, &call.version));
        self.exchange(&self.outgoing(call, how, (verb, &path))?).await
    }

    /// Encodes an inference, to be sent many times: its head and its body.
    pub(crate) fn prepared(&self, call: &ClientRequest, how: &CallOptions) -> Result<(Vec<u8>, BodyChunks)> {
        let path = format!("{}/infer", model_path(&call.model, &call.version));
        let outgoing = self.outgoing(call, how, ("infer", &path))?;
        Ok((self.head(&outgoing), outgoing.body))
    }

    fn outgoing<'a>(
        &self,
        call: &ClientRequest,
        how: &'a CallOptions,
        (verb, path): (&str, &'a str),
    ) -> Result<Outgoing<'a>> {
        // Events hold JSON only.
        let binary = self.options.binary && verb == "infer";
        let encoded = encode_request(call, binary).map_err(Failure::not_sent)?;
        let compression = self.options.compression;
        let body = match compression {
            Some(coding) => compression::compress(coding, &encoded.chunks).map_err(Failure::not_sent)?,
            None => encoded.chunks,
        };
        Ok(Outgoing {
            method: "POST",
            path,
            headers: &how.headers,
            content_type: Some(match encoded.json_len {
                Some(_) => "application/octet-stream",
                None => "application/json",
            }),
            json_len: encoded.json_len,
            compression,
            body,
            idempotent: false,
            all_headers: false,
        })
    }

    /// Sends a request and reads the response's head.
    async fn exchange(&self, outgoing: &Outgoing<'_>) -> Result<(Http1, Head)> {
        let head = self.head(outgoing);
        loop {
            let idle = self.take_idle();
            let fresh = idle.is_none();
            let mut connection = match idle {
                Some(connection) => connection,
                None => Http1::new(self.connector.connect().await?),
            };
            if let Err(unsent) = connection.send(&head, &outgoing.body).await {
                if !unsent.partly && !fresh {
                    continue;
                }
                // The server may have refused before it had read the whole request.
                return match connection.head(outgoing.all_headers).await {
                    Ok(head) if head.status >= 400 => Ok((connection, Head { keep_alive: false, ..head })),
                    _ => Err(unsent.into()),
                };
            }
            match connection.head(outgoing.all_headers).await {
                // A server may close an idle connection at any time.
                Err(failure) if outgoing.idempotent && !fresh && failure.error.kind() == Kind::Unavailable => {}
                answered => return answered.map(|head| (connection, head)),
            }
        }
    }

    fn head(&self, outgoing: &Outgoing<'_>) -> Vec<u8> {
        let mut out = Vec::with_capacity(256 + self.common.len());
        for part in [outgoing.method, " ", &self.target.prefix, outgoing.path, " HTTP/1.1\r\n"] {
            out.extend_from_slice(part.as_bytes());
        }
        if !self.has_host && !outgoing.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
            put_header(&mut out, "Host", &self.target.authority());
        }
        out.extend_from_slice(&self.common);
        put_headers(&mut out, outgoing.headers);
        let length: usize = outgoing.body.iter().map(Bytes::len).sum();
        if outgoing.method != "GET" || length > 0 {
            if let Some(content_type) = outgoing.content_type {
                put_header(&mut out, "Content-Type", content_type);
            }
            put_header(&mut out, "Content-Length", &length.to_string());
        }
        if let Some(json_len) = outgoing.json_len {
            put_header(&mut out, "Inference-Header-Content-Length", &json_len.to_string());
        }
        if let Some(encoding) = outgoing.compression {
            put_header(&mut out, "Content-Encoding", encoding.name());
        }
        out.extend_from_slice(b"\r\n");
        out
    }

    /// Reads and decompresses the body.
    async fn body(&self, connection: &mut Http1, head: &mut Head) -> Result<Vec<u8>> {
        let most = self.options.max_response_bytes;
        let body = connection.body(&mut head.framing, most).await?;
        Ok(match head.encoding {
            Some(coding) => compression::decompress(coding, &body, most)?,
            None => body,
        })
    }

    /// Passes successful responses through. Models may set any 2xx status.
    async fn accepted(&self, mut connection: Http1, mut head: Head) -> Result<(Http1, Head)> {
        if matches!(head.status, 200..300) {
            return Ok((connection, head));
        }
        let read = connection.body(&mut head.framing, MAX_REFUSAL).await;
        let body = match (read, head.encoding) {
            (Ok(body), Some(coding)) => compression::decompress(coding, &body, MAX_REFUSAL).unwrap_or_default(),
            // The status suffices.
            (read, _) => read.unwrap_or_default(),
        };
        let failure = refusal(&head, &body);
        self.release(connection, &head);
        Err(failure)
    }

    fn take_idle(&self) -> Option<Http1> {
        loop {
            let connection = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop()?;
            if connection.is_idle() {
                return Some(connection);
            }
        }
    }

    fn release(&self, connection: Http1, head: &Head) {
        if head.keep_alive && matches!(head.framing, Framing::Done | Framing::Length(0)) {
            let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
            if idle.len() < self.options.max_idle {
                idle.push(connection);
            }
        }
    }

    /// Drops all idle connections.
    pub(crate) fn close(&self) {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

fn put_headers(out: &mut Vec<u8>, headers: &[(String, String)]) {
    for (name, value) in headers {
        put_header(out, name, value);
    }
}

fn put_header(out: &mut Vec<u8>, name: &str, value: &str) {
    for part in [name, ": ", value, "\r\n"] {
        out.extend_from_slice(part.as_bytes());
    }
}
