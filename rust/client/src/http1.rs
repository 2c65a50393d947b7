//! HTTP/1.1 connection: writes a request, reads a response.

mod head;

pub(crate) use head::{Framing, Head};

use crate::http1::head::{not_http, parse};
use crate::{
    compression::too_large,
    failure::{Failure, Result, Stage},
    socket::Stream,
};
use bytes::{Buf as _, Bytes, BytesMut};
use smallvec::SmallVec;
use std::{
    future::poll_fn,
    io::{self, IoSlice},
    pin::Pin,
};
use tokio::io::{AsyncReadExt as _, AsyncWrite as _};

/// Maximum size of a response's head, or of a line in a chunked body, in bytes.
const MAX_HEAD: usize = 64 << 10;
/// Size of a read into the buffer.
const READ: usize = 16 << 10;

/// Connection, and bytes read ahead.
#[derive(Debug)]
pub(crate) struct Http1 {
    stream: Stream,
    buffer: BytesMut,
}

/// A request that was not written completely.
#[derive(Debug)]
pub(crate) struct SendError {
    /// Cause.
    pub(crate) error: io::Error,
    /// A part of it was written.
    pub(crate) partly: bool,
}

const LOST: &str = "the connection was lost while an answer was awaited";

impl Http1 {
    pub(crate) fn new(stream: Stream) -> Self {
        Self { stream, buffer: BytesMut::new() }
    }

    /// Returns whether the connection can take another request.
    pub(crate) fn is_idle(&self) -> bool {
        self.buffer.is_empty() && self.stream.idle() == crate::socket::idle::Idle::Quiet
    }

    /// Writes a request.
    ///
    /// # Errors
    /// What went wrong, and whether the server may have seen any of it.
    pub(crate) async fn send(&mut self, head: &[u8], body: &[Bytes]) -> std::result::Result<(), SendError> {
        let mut slices: SmallVec<[IoSlice<'_>; 4]> = SmallVec::new();
        slices.push(IoSlice::new(head));
        slices.extend(body.iter().filter(|chunk| !chunk.is_empty()).map(|chunk| IoSlice::new(chunk)));
        let mut rest: &mut [IoSlice<'_>] = &mut slices;
        let mut partly = false;
        while !rest.is_empty() {
            let written = poll_fn(|cx| Pin::new(&mut self.stream).poll_write_vectored(cx, rest)).await;
            match written {
                Ok(0) => return Err(SendError { error: io::ErrorKind::WriteZero.into(), partly }),
                Ok(count) => {
                    partly = true;
                    IoSlice::advance_slices(&mut rest, count);
                }
                Err(error) => return Err(SendError { error, partly }),
            }
        }
        let flushed = poll_fn(|cx| Pin::new(&mut self.stream).poll_flush(cx)).await;
        flushed.map_err(|error| SendError { error, partly })
    }

    /// Reads the head of the response, with `all` its headers if set. Informational responses are skipped.
    pub(crate) async fn head(&mut self, all: bool) -> Result<Head> {
        loop {
            if let Some((head, length)) = parse(&self.buffer, all)? {
                self.buffer.advance(length);
                if head.status >= 200 {
                    return Ok(head);
                }
                continue;
            }
            if self.buffer.len() > MAX_HEAD {
                return Err(not_http("its head has no end").into());
            }
            if self.read().await? == 0 {
                return Err(Failure::lost(LOST, &io::ErrorKind::UnexpectedEof.into()));
            }
        }
    }

    /// Reads the next bytes of the body; `None` at its end.
    pub(crate) async fn piece(&mut self, framing: &mut Framing) -> Result<Option<Bytes>> {
        loop {
            match *framing {
                Framing::Done | Framing::Length(0) => {
                    *framing = Framing::Done;
                    return Ok(None);
                }
                Framing::Chunked(0) => self.next_chunk(framing).await?,
                Framing::Length(left) | Framing::Chunked(left) => {
                    if self.buffer.is_empty() && self.read().await? == 0 {
                        return Err(Failure::lost(LOST, &io::ErrorKind::UnexpectedEof.into()));
                    }
                    let piece = self.buffer.split_to(left.min(self.buffer.len())).freeze();
                    *framing = framing.after(piece.len());
                    if *framing == Framing::Chunked(0) {
                        self.line().await?;
                    }
                    return Ok(Some(piece));
                }
                Framing::Close => {
                    if self.buffer.is_empty() && self.read().await? == 0 {
                        *framing = Framing::Done;
                        return Ok(None);
                    }
                    return Ok(Some(self.buffer.split().freeze()));
                }
            }
        }
    }

    /// Reads the whole body, of at most `most` bytes.
    pub(crate) async fn body(&mut self, framing: &mut Framing, most: usize) -> Result<Vec<u8>> {
        let mut body = Vec::new();
        while let Some(piece) = self.piece(framing).await? {
            if body.len() + piece.len() > most {
                return Err(too_large(most).into());
            }
            body.extend_from_slice(&piece);
        }
        Ok(body)
    }

    /// Reads the whole body, of at most `most` bytes, without keeping it. Returns its length.
    pub(crate) async fn discard(&mut self, framing: &mut Framing, most: usize) -> Result<usize> {
        let mut length = 0;
        loop {
            length += match *framing {
                Framing::Length(left) if left > 0 => {
                    if self.buffer.is_empty() && self.read().await? == 0 {
                        return Err(Failure::lost(LOST, &io::ErrorKind::UnexpectedEof.into()));
                    }
                    let count = left.min(self.buffer.len());
                    self.buffer.advance(count);
                    *framing = framing.after(count);
                    count
                }
                _ => match self.piece(framing).await? {
                    Some(piece) => piece.len(),
                    None => return Ok(length),
                },
            };
            if length > most {
                return Err(too_large(most).into());
            }
        }
    }

    /// Takes the first `length` bytes of a body.
    pub(crate) async fn prefix(&mut self, length: usize) -> Result<Bytes> {
        while self.buffer.len() < length {
            if self.read().await? == 0 {
                return Err(Failure::lost(LOST, &io::ErrorKind::UnexpectedEof.into()));
            }
        }
        Ok(self.buffer.split_to(length).freeze())
    }

    /// Reads the next bytes of a body into `room` and returns their count.
    pub(crate) async fn read_into(&mut self, room: &mut [u8]) -> Result<usize> {
        if !self.buffer.is_empty() {
            let count = room.len().min(self.buffer.len());
            self.buffer.copy_to_slice(&mut room[..count]);
            return Ok(count);
        }
        match self.stream.read(room).await {
            Ok(0) => Err(Failure::lost(LOST, &io::ErrorKind::UnexpectedEof.into())),
            Ok(count) => Ok(count),
            Err(error) => Err(Failure::lost(LOST, &error)),
        }
    }

    async fn next_chunk(&mut self, framing: &mut Framing) -> Result<()> {
        let line = self.line().await?;
        let digits = line.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
        let size = std::str::from_utf8(digits).ok().filter(|digits| !digits.starts_with('+'));
        let size = size.and_then(|digits| usize::from_str_radix(digits, 16).ok());
        *framing = Framing::Chunked(size.ok_or_else(|| not_http("a chunk's size is not a number"))?);
        if size == Some(0) {
            // Trailers, up to an empty line.
            let mut length = 0;
            loop {
                let line = self.line().await?;
                length += line.len();
                if line.is_empty() {
                    break;
                }
                if length > MAX_HEAD {
                    return Err(not_http("its trailers have no end").into());
                }
            }
            *framing = Framing::Done;
        }
        Ok(())
    }

    async fn line(&mut self) -> Result<Bytes> {
        let mut seen = 0;
        loop {
            if let Some(end) = self.buffer[seen..].iter().position(|byte| *byte == b'\n') {
                let line = self.buffer.split_to(seen + end + 1).freeze();
                let text = line[..line.len() - 1].strip_suffix(b"\r").unwrap_or(&line[..line.len() - 1]).len();
                return Ok(line.slice(..text));
            }
            seen = self.buffer.len();
            if seen > MAX_HEAD {
                return Err(not_http("a line has no end").into());
            }
            if self.read().await? == 0 {
                return Err(Failure::lost(LOST, &io::ErrorKind::UnexpectedEof.into()));
            }
        }
    }

    async fn read(&mut self) -> Result<usize> {
        self.buffer.reserve(READ);
        self.stream.read_buf(&mut self.buffer).await.map_err(|error| Failure::lost(LOST, &error))
    }
}

impl From<SendError> for Failure {
    fn from(unsent: SendError) -> Self {
        let failure = Self::lost("the connection was lost while the request was sent", &unsent.error);
        if unsent.partly { failure } else { failure.at(Stage::NotSent) }
    }
}

#[cfg(test)]
mod tests;
