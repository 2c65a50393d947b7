//! Messages of a call's body: each follows a compression flag and a length.

use crate::{
    body::{RequestBody, inflate::Inflation, next_chunk, offload},
    settings::{Compression, Limits},
    state::RequestMemory,
};
use bytes::{Buf as _, Bytes, BytesMut};
use http::HeaderMap;
use penstock_core::{Error, Kind, Result};
use penstock_wire::{
    Limits as WireLimits,
    coding::{Coding, InflateLimits},
    grpc::{Envelope, FRAME_PREFIX, MessageDecoder},
};

/// Codings of messages, as `grpc-accept-encoding` lists them.
pub(super) const ACCEPTED: &str = "identity,gzip,deflate,zstd";

/// Returns the coding of a call's messages by its `grpc-encoding`.
///
/// # Errors
/// `Unsupported` that names the coding.
fn message_coding(headers: &HeaderMap) -> Result<Option<Coding>> {
    let Some(value) = headers.get("grpc-encoding") else { return Ok(None) };
    match value.as_bytes() {
        b"identity" => Ok(None),
        name => compression(name).map(|known| Some(known.coding())).ok_or_else(|| {
            let name = name[..name.len().min(64)].escape_ascii();
            Error::new(
                Kind::Unsupported,
                format!("the grpc-encoding '{name}' is not supported, expected one of {ACCEPTED}"),
            )
        }),
    }
}

fn compression(name: &[u8]) -> Option<Compression> {
    std::str::from_utf8(name).ok().and_then(Compression::from_name)
}

/// Reader of the messages of a body.
pub(super) struct Frames<B> {
    body: B,
    /// Received bytes that are not consumed.
    chunk: Bytes,
    /// Bytes of the current message that are not received.
    left: usize,
    coding: Option<Coding>,
    bounds: InflateLimits,
}

impl<B: RequestBody> Frames<B> {
    /// Starts to read the body of a call.
    ///
    /// # Errors
    /// `Unsupported` for an unknown coding.
    pub(super) fn new(body: B, headers: &HeaderMap, limits: &Limits) -> Result<Self> {
        let coding = message_coding(headers)?;
        Ok(Self { body, chunk: Bytes::new(), left: 0, coding, bounds: limits.inflation() })
    }

    /// Reads the next inference message; `None` at the end of the call. Its bytes are reserved in `held`.
    ///
    /// # Errors
    /// `TooLarge` by the limits, `InvalidInput` for a malformed frame or message, `Overloaded` when the limit on
    /// request
    /// memory is reached, `Cancelled` when the client leaves.
    pub(super) async fn request(&mut self, held: &mut RequestMemory) -> Result<Option<Envelope>> {
        let Some(is_compressed) = self.begin(self.bounds.bytes).await? else { return Ok(None) };
        if is_compressed {
            return Box::pin(self.inflated_request(held)).await.map(Some);
        }
        let mut decoder = MessageDecoder::new(self.left, &WireLimits::default());
        while self.left > 0 {
            let chunk = self.message_chunk().await?;
            held.reserve(chunk.len())?;
            decoder.push(&chunk)?;
        }
        offload::run(decoder.head_len(), || decoder.finish()).await.map(Some)
    }

    async fn inflated_request(&mut self, held: &mut RequestMemory) -> Result<Envelope> {
        let message = self.inflated(held).await?;
        let decode = move || {
            let mut decoder = MessageDecoder::new(message.len(), &WireLimits::default());
            decoder.push(&message)?;
            drop(message);
            decoder.finish()
        };
        offload::run(held.bytes(), decode).await
    }

    /// Reads the next message as bytes, at most `most`; `None` at the end of the call.
    ///
    /// # Errors
    /// Those of [`Frames::request`].
    pub(super) async fn message(&mut self, most: usize, held: &mut RequestMemory) -> Result<Option<Bytes>> {
        self.bounds.bytes = most;
        let Some(is_compressed) = self.begin(most).await? else { return Ok(None) };
        if is_compressed {
            return Box::pin(self.inflated(held)).await.map(Some);
        }
        let mut message = BytesMut::new();
        while self.left > 0 {
            let chunk = self.message_chunk().await?;
            held.reserve(chunk.len())?;
            message.extend_from_slice(&chunk);
        }
        Ok(Some(message.freeze()))
    }

    /// Reads and discards the rest of a refused message.
    ///
    /// # Errors
    /// `InvalidInput` where the body ends within it; `Cancelled` when the client leaves.
    pub(super) async fn skip(&mut self) -> Result<()> {
        while self.left > 0 {
            self.message_chunk().await?;
        }
        Ok(())
    }

    /// Checks that no other message follows.
    ///
    /// # Errors
    /// `InvalidInput` where one does; `Cancelled` when the client leaves.
    pub(super) async fn end(&mut self) -> Result<()> {
        match self.prefix().await? {
            None => Ok(()),
            Some(_) => Err(Error::invalid("the call carries more than one message")),
        }
    }

    async fn inflated(&mut self, held: &mut RequestMemory) -> Result<Bytes> {
        let coding = self.coding.ok_or_else(|| {
            Error::new(Kind::Unsupported, "the message is compressed, but the call has no grpc-encoding")
        })?;
        let mut inflation = Inflation::new(coding, self.bounds);
        while self.left > 0 {
            inflation = inflation.push(self.message_chunk().await?, held).await?;
        }
        inflation.finish(held).await
    }

    /// Reads the prefix of the next message: whether it is compressed; `None` at the end of the call.
    async fn begin(&mut self, most: usize) -> Result<Option<bool>> {
        let Some([flag, length @ ..]) = self.prefix().await? else { return Ok(None) };
        let length = u32::from_be_bytes(length) as usize;
        if flag > 1 {
            return Err(Error::invalid(format!("the message has the compression flag {flag}, expected 0 or 1")));
        }
        if length > most {
            let text = format!("the message has {length} bytes, at most {most} are accepted");
            return Err(Error::new(Kind::TooLarge, text));
        }
        self.left = length;
        Ok(Some(flag == 1))
    }

    async fn prefix(&mut self) -> Result<Option<[u8; FRAME_PREFIX]>> {
        let mut prefix = [0; FRAME_PREFIX];
        let mut have = 0;
        while have < FRAME_PREFIX {
            if self.chunk.is_empty() {
                if have == 0 && self.body.is_end_stream() {
                    return Ok(None);
                }
                match next_chunk(&mut self.body).await? {
                    Some(chunk) => self.chunk = chunk,
                    None if have == 0 => return Ok(None),
                    None => return Err(Error::invalid("the call's body ends within the prefix of a message")),
                }
            }
            let part = self.chunk.len().min(FRAME_PREFIX - have);
            prefix[have..have + part].copy_from_slice(&self.chunk[..part]);
            self.chunk.advance(part);
            have += part;
        }
        Ok(Some(prefix))
    }

    /// Returns the next bytes of the current message.
    async fn message_chunk(&mut self) -> Result<Bytes> {
        while self.chunk.is_empty() {
            self.chunk = next_chunk(&mut self.body)
                .await?
                .ok_or_else(|| Error::invalid("the call's body ends within a message"))?;
        }
        let chunk = match self.chunk.len() > self.left {
            true => self.chunk.split_to(self.left),
            false => std::mem::take(&mut self.chunk),
        };
        self.left -= chunk.len();
        Ok(chunk)
    }
}
