//! A response over HTTP/2: its head, its messages and its status.

use crate::{
    compression::{decompress, too_large},
    failure::{Failure, Result, Stage, from_io},
};
use bytes::{Buf as _, Bytes, BytesMut};
use h2::{RecvStream, client::SendRequest};
use http::{HeaderMap, Request, StatusCode};
use penstock_core::{BodyChunks, Error, Kind};
use penstock_wire::{
    ClientResponse, Limits,
    coding::Coding,
    grpc::{FRAME_PREFIX, ResponseDecoder, error::kind},
    rest,
};
use std::{io, time::Duration};

/// Returns the settings of connections.
pub(crate) fn builder() -> h2::client::Builder {
    let mut builder = h2::client::Builder::new();
    builder
        .initial_window_size(16 << 20)
        .initial_connection_window_size(64 << 20)
        .max_frame_size(1 << 20)
        .max_header_list_size(64 << 10)
        .enable_push(false);
    builder
}

/// A response whose head has arrived.
pub(crate) struct ResponseReader {
    body: RecvStream,
    encoding: Option<Coding>,
    /// Bytes of messages that are not read yet.
    buffer: BytesMut,
    max_response_bytes: usize,
    /// The head holds the final status already: an empty stream.
    is_over: bool,
}

/// Sends a request's messages, and awaits the head of the response.
pub(crate) async fn open(
    send: SendRequest<Bytes>,
    request: Request<()>,
    chunks: BodyChunks,
    max_response_bytes: usize,
) -> Result<ResponseReader> {
    let mut send = send.ready().await.map_err(|error| unsent(&error))?;
    let (response, mut stream) = send.send_request(request, false).map_err(|error| unsent(&error))?;
    let last = chunks.len().saturating_sub(1);
    for (index, chunk) in chunks.into_iter().enumerate() {
        // The response holds the reason.
        if stream.send_data(chunk, index == last).is_err() {
            break;
        }
    }
    let response = response.await.map_err(|error| lost(&error))?;
    let (head, body) = response.into_parts();
    let is_grpc =
        head.headers.get("content-type").is_some_and(|value| value.as_bytes().starts_with(b"application/grpc"));
    if !is_grpc {
        return Err(not_grpc(head.status));
    }
    // A response without messages has its status in the head.
    let is_over = status(&head.headers).transpose()?.is_some();
    let encoding = match head.headers.get("grpc-encoding").map(|value| value.as_bytes()) {
        None | Some(b"identity") => None,
        Some(name) => {
            let known = std::str::from_utf8(name).ok().and_then(Coding::from_name);
            Some(known.ok_or_else(|| protocol("its compression is not known"))?)
        }
    };
    Ok(ResponseReader { body, encoding, buffer: BytesMut::new(), max_response_bytes, is_over })
}

impl ResponseReader {
    /// Reads the only message of the response; its tensors are copied once.
    pub(crate) async fn answer(mut self) -> Result<ClientResponse> {
        let Some((compressed, length)) = self.prefix().await? else {
            return Err(self.end().await.err().unwrap_or_else(|| protocol("it has no message")));
        };
        let answer = if compressed {
            let message = self.message(length, true).await?;
            let mut decoder = ResponseDecoder::new(message.len(), &Limits::default());
            decoder.push(&message)?;
            decoder.finish()?
        } else {
            let mut decoder = ResponseDecoder::new(length, &Limits::default());
            let mut left = length;
            while left > 0 {
                if self.buffer.is_empty() {
                    let chunk = self.chunk().await?.ok_or_else(|| protocol("it ends within a message"))?;
                    let (own, rest) = chunk.split_at(chunk.len().min(left));
                    decoder.push(own)?;
                    self.buffer.extend_from_slice(rest);
                    left -= own.len();
                } else {
                    let own = self.buffer.split_to(self.buffer.len().min(left));
                    decoder.push(&own)?;
                    left -= own.len();
                }
            }
            decoder.finish()?
        };
        self.end().await?;
        Ok(answer)
    }

    /// Reads the only message without keeping it. Returns its length.
    pub(crate) async fn discard(mut self) -> Result<usize> {
        let mut length: usize = 0;
        while let Some(chunk) = self.chunk().await? {
            length += chunk.len();
            if length > self.max_response_bytes {
                return Err(too_large(self.max_response_bytes).into());
            }
        }
        self.end().await?;
        length.checked_sub(FRAME_PREFIX).ok_or_else(|| protocol("it has no message"))
    }

    /// Reads and decodes the only message. Returns its length.
    pub(crate) async fn validated(mut self) -> Result<usize> {
        let message = self.next().await?.ok_or_else(|| protocol("it has no message"))?;
        let mut decoder = ResponseDecoder::new(message.len(), &Limits::default());
        decoder.push(&message)?;
        decoder.finish()?;
        match self.next().await? {
            None => Ok(message.len()),
            Some(_) => Err(protocol("it has more than one message")),
        }
    }

    /// Reads the next message; `None` at a regular end.
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>> {
        match self.prefix().await? {
            Some((compressed, length)) => Ok(Some(self.message(length, compressed).await?)),
            None => self.end().await.map(|()| None),
        }
    }

    async fn prefix(&mut self) -> Result<Option<(bool, usize)>> {
        while self.buffer.len() < FRAME_PREFIX {
            match self.chunk().await? {
                Some(chunk) => self.buffer.extend_from_slice(&chunk),
                None if self.buffer.is_empty() => return Ok(None),
                None => return Err(protocol("it ends within a message")),
            }
        }
        let compressed = match self.buffer.get_u8() {
            0 => false,
            1 if self.encoding.is_some() => true,
            _ => return Err(protocol("a message has a flag that is not known")),
        };
        let length = self.buffer.get_u32() as usize;
        if length > self.max_response_bytes {
            return Err(too_large(self.max_response_bytes).into());
        }
        Ok(Some((compressed, length)))
    }

    async fn message(&mut self, length: usize, compressed: bool) -> Result<Bytes> {
        while self.buffer.len() < length {
            let chunk = self.chunk().await?.ok_or_else(|| protocol("it ends within a message"))?;
            self.buffer.extend_from_slice(&chunk);
        }
        let message = self.buffer.split_to(length).freeze();
        match self.encoding.filter(|_| compressed) {
            Some(encoding) => Ok(decompress(encoding, &message, self.max_response_bytes)?.into()),
            None => Ok(message),
        }
    }

    async fn chunk(&mut self) -> Result<Option<Bytes>> {
        match self.body.data().await {
            None => Ok(None),
            Some(Ok(chunk)) => {
                // The sender may send as much again.
                let _ = self.body.flow_control().release_capacity(chunk.len());
                Ok(Some(chunk))
            }
            Some(Err(error)) => Err(lost(&error)),
        }
    }

    /// Reads the status from the trailers.
    async fn end(&mut self) -> Result<()> {
        let trailers = self.body.trailers().await.map_err(|error| lost(&error))?;
        let said = trailers.as_ref().and_then(status);
        said.unwrap_or_else(|| if self.is_over { Ok(()) } else { Err(protocol("it ends without a status")) })
    }
}

/// Status in headers or trailers; `None` without one.
fn status(headers: &HeaderMap) -> Option<Result<()>> {
    let text = |name: &str| headers.get(name).and_then(|value| std::str::from_utf8(value.as_bytes()).ok());
    let code: i32 = text("grpc-status")?.parse().unwrap_or(2);
    if code == 0 {
        return Some(Ok(()));
    }
    let said = percent_encoding::percent_decode_str(text("grpc-message").unwrap_or_default()).decode_utf8_lossy();
    let said = if said.is_empty() { format!("the server answered with gRPC status {code}") } else { said.into_owned() };
    let mut error = Error::new(kind(code), said);
    if let Some(seconds) = text("retry-after").and_then(|seconds| seconds.parse().ok()) {
        error = error.retry_after(Duration::from_secs(seconds));
    }
    Some(Err(Failure::responded(error, u16::try_from(code).unwrap_or(2))))
}

fn not_grpc(status: StatusCode) -> Failure {
    if status == StatusCode::OK {
        return protocol("it is not gRPC: is this a REST port?");
    }
    let said = format!("the server does not speak gRPC here: it answered with HTTP status {}", status.as_u16());
    Failure::responded(Error::new(rest::error::kind(status.as_u16()), said), status.as_u16())
}

fn protocol(why: &str) -> Failure {
    Error::new(Kind::Internal, format!("the server's answer does not follow the protocol: {why}")).into()
}

/// An error before the request was sent.
pub(super) fn unsent(error: &h2::Error) -> Failure {
    lost(error).at(Stage::NotSent)
}

/// Error after the request was sent.
pub(super) fn lost(error: &h2::Error) -> Failure {
    const WHAT: &str = "the connection was lost while an answer was awaited";
    if let Some(error) = error.get_io() {
        return Failure::lost(WHAT, error);
    }
    let refused = error.reason() == Some(h2::Reason::REFUSED_STREAM)
        || (error.is_go_away() && error.is_remote() && error.reason() == Some(h2::Reason::NO_ERROR));
    let stage = if refused { Stage::NotSent } else { Stage::Unknown };
    let said = from_io(WHAT, &io::Error::other(error.to_string()));
    Failure { error: said, status: None, stage }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grpc_status_is_parsed_with_its_message_and_retry_hint() {
        let mut headers = HeaderMap::new();
        assert!(status(&headers).is_none());
        headers.insert("grpc-status", "0".parse().unwrap());
        assert!(status(&headers).unwrap().is_ok());
        headers.insert("grpc-status", "8".parse().unwrap());
        headers.insert("grpc-message", "a%20%C3%A9".parse().unwrap());
        headers.insert("retry-after", "2".parse().unwrap());
        let failure = status(&headers).unwrap().unwrap_err();
        assert_eq!((failure.status, failure.error.message()), (Some(8), "a é"));
        assert_eq!(failure.error.kind(), Kind::Overloaded);
        assert_eq!(failure.error.retry_hint(), Some(Duration::from_secs(2)));
    }
}
