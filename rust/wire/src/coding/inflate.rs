//! Decompression of request bodies, chunk by chunk and within limits.

use super::codings::Coding;
use compression_codecs::{
    BrotliDecoder, DecodeV2, DeflateDecoder, GzipDecoder, ZlibDecoder, ZstdDecoder,
    core::util::{PartialBuffer, WriteBuffer},
    zstd::params::DParameter,
};
use penstock_core::{Error, Kind, Result};
use std::fmt;

/// Limits of an inflated body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InflateLimits {
    /// Bytes of the inflated body.
    pub bytes: usize,
    /// Maximum inflated bytes per compressed byte. It applies from [`InflateLimits::FREE`] on, since a small body of
    /// zeros does no harm.
    pub ratio: usize,
}

impl InflateLimits {
    /// Bytes to which no ratio applies, inflated or compressed.
    pub const FREE: usize = 1 << 20;
}

/// Maximum compressed bytes per inflated byte, from [`InflateLimits::FREE`] on. Encoders enlarge data by a few per cent
/// at most; empty blocks and frames would cost time for nothing.
const EXPANSION: usize = 8;

/// Streams, or frames, that a body may have whatever they inflate to; beyond them, one for each [`STREAM_BYTES`].
const FREE_STREAMS: usize = 1024;

/// Inflated bytes of a stream, on average. Each stream costs as much as some kilobytes, however small it is.
const STREAM_BYTES: usize = 1 << 10;

/// The most that the output grows by in one step.
const STEP: usize = 64 << 10;

/// The largest window of zstd data, as a power of two.
const ZSTD_WINDOW: u32 = 23;

/// Decompresses a body as its chunks arrive. It holds the inflated bytes and the decoder's window.
pub struct Inflater {
    coding: Coding,
    bounds: InflateLimits,
    state: State,
    /// Compressed bytes read.
    taken: usize,
    /// Streams, or frames, that ended.
    streams: usize,
    /// The decoder may have more output for what it has read.
    pending: bool,
    out: Vec<u8>,
}

enum State {
    /// Nothing read, or one byte, which does not identify the `deflate` variant yet.
    New(Option<u8>),
    /// Within a stream.
    Inside(Box<dyn DecodeV2 + Send>),
    /// Between two streams, or after the last.
    Ended(Box<dyn DecodeV2 + Send>),
}

impl Inflater {
    /// Creates an inflater.
    pub fn new(coding: Coding, bounds: InflateLimits) -> Self {
        Self { coding, bounds, state: State::New(None), taken: 0, streams: 0, pending: false, out: Vec::new() }
    }

    /// Number of inflated bytes.
    pub fn len(&self) -> usize {
        self.out.len()
    }

    /// Bytes read and written: a measure of the time spent.
    pub fn work(&self) -> usize {
        self.taken + self.out.len()
    }

    /// Returns whether nothing is inflated yet.
    pub fn is_empty(&self) -> bool {
        self.out.is_empty()
    }

    /// Returns whether [`Inflater::write`] stopped for lack of room: call it again, even with an empty chunk.
    pub fn is_pending(&self) -> bool {
        self.pending
    }

    /// Inflates the front of `chunk` until it is used up, or about `room` bytes are read and written.
    ///
    /// # Errors
    /// `TooLarge` by the bounds; `InvalidInput` for data that is not of the coding.
    pub fn write(&mut self, chunk: &mut &[u8], room: usize) -> Result<()> {
        let until = self.work().saturating_add(room);
        while (self.pending || !chunk.is_empty()) && self.work() < until {
            if self.pending {
                self.drain()?;
                continue;
            }
            let (mut part, later) = chunk.split_at(chunk.len().min(room));
            let length = part.len();
            self.step(&mut part)?;
            *chunk = if part.is_empty() { later } else { &chunk[length - part.len()..] };
        }
        Ok(())
    }

    /// The whole body.
    ///
    /// # Errors
    /// As [`Inflater::write`], and `InvalidInput` when the data ends too early.
    pub fn finish(mut self) -> Result<Vec<u8>> {
        if let State::New(Some(first)) = self.state {
            self.state = State::Inside(decoder(Coding::Deflate, [first, 0]));
            self.decode(&mut &[first][..])?;
        }
        let early = || Error::invalid(format!("the request's body ends before its {} data does", self.coding.name()));
        while let State::Inside(decoder) = &mut self.state {
            let (ended, _) =
                grow(&mut self.out, self.bounds, STEP, |sink| decoder.finish(sink)).map_err(|_| early())?;
            check(self.out.len(), self.taken, self.bounds)?;
            if ended {
                return Ok(self.out);
            }
        }
        match self.state {
            State::Ended(_) => Ok(self.out),
            _ => Err(early()),
        }
    }

    fn step(&mut self, chunk: &mut &[u8]) -> Result<()> {
        match std::mem::replace(&mut self.state, State::New(None)) {
            State::New(held) if self.coding == Coding::Deflate && held.is_none() && chunk.len() == 1 => {
                self.state = State::New(Some(chunk[0]));
                *chunk = &[];
                Ok(())
            }
            State::New(held) => {
                let first = held.unwrap_or(chunk[0]);
                let second = chunk.get(usize::from(held.is_none())).copied().unwrap_or_default();
                self.state = State::Inside(decoder(self.coding, [first, second]));
                match held {
                    Some(byte) => self.decode(&mut &[byte][..]),
                    None => self.decode(chunk),
                }
            }
            State::Inside(decoder) => {
                self.state = State::Inside(decoder);
                self.decode(chunk)
            }
            State::Ended(mut decoder) => {
                // Both formats are a sequence of streams; the others end where they end.
                if !matches!(self.coding, Coding::Gzip | Coding::Zstd) || decoder.reinit().is_err() {
                    let name = self.coding.name();
                    return Err(Error::invalid(format!("bytes follow the {name} data of the request's body")));
                }
                self.streams += 1;
                check_streams(self.coding, self.streams, self.out.len())?;
                self.state = State::Inside(decoder);
                self.decode(chunk)
            }
        }
    }

    /// Takes what the decoder holds back.
    fn drain(&mut self) -> Result<()> {
        let State::Inside(decoder) = &mut self.state else {
            self.pending = false;
            return Ok(());
        };
        let (drained, _) =
            grow(&mut self.out, self.bounds, STEP, |sink| decoder.flush(sink)).map_err(|_| corrupt(self.coding))?;
        self.pending = !drained;
        check(self.out.len(), self.taken, self.bounds)
    }

    fn decode(&mut self, chunk: &mut &[u8]) -> Result<()> {
        let State::Inside(decoder) = &mut self.state else { return Ok(()) };
        let mut input = PartialBuffer::new(*chunk);
        let step = chunk.len().saturating_mul(4).clamp(4 << 10, STEP);
        let decoded = grow(&mut self.out, self.bounds, step, |sink| decoder.decode(&mut input, sink));
        let taken = input.written_len();
        self.taken += taken;
        *chunk = &chunk[taken..];
        let (ended, written) = decoded.map_err(|_| corrupt(self.coding))?;
        check(self.out.len(), self.taken, self.bounds)?;
        self.pending = !ended && written == step;
        if ended {
            if let State::Inside(decoder) = std::mem::replace(&mut self.state, State::New(None)) {
                self.state = State::Ended(decoder);
            }
        } else if taken == 0 && written == 0 {
            // No decoder does this; one that did would loop forever.
            return Err(corrupt(self.coding));
        }
        Ok(())
    }
}

impl fmt::Debug for Inflater {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Inflater({}, {} bytes of {})", self.coding.name(), self.out.len(), self.taken)
    }
}

/// A decoder for data that begins with these bytes.
fn decoder(coding: Coding, [first, second]: [u8; 2]) -> Box<dyn DecodeV2 + Send> {
    match coding {
        Coding::Gzip => Box::new(GzipDecoder::new()),
        // A zlib header: method 8 in a window of at most 32 KiB, and a checksum. Raw data cannot
        // match: it would be a stored block whose padding is not zero.
        Coding::Deflate
            if first & 0x0F == 8 && first >> 4 < 8 && u16::from_be_bytes([first, second]).is_multiple_of(31) =>
        {
            Box::new(ZlibDecoder::new())
        }
        Coding::Deflate => Box::new(DeflateDecoder::new()),
        Coding::Brotli => Box::new(BrotliDecoder::new()),
        Coding::Zstd => Box::new(ZstdDecoder::new_with_params(&[DParameter::window_log_max(ZSTD_WINDOW)])),
    }
}

/// Appends what `write` writes, at most `step` bytes and never more than one byte above the bound. Says
/// also how much that was.
fn grow<T>(
    out: &mut Vec<u8>,
    bounds: InflateLimits,
    step: usize,
    write: impl FnOnce(&mut WriteBuffer<'_>) -> std::io::Result<T>,
) -> std::io::Result<(T, usize)> {
    let start = out.len();
    let end = (start + step).min(bounds.bytes.saturating_add(1).max(start));
    if out.capacity() < end {
        // By doubling, but never to more than a body may have.
        let capacity = (out.capacity() * 2).clamp(end, bounds.bytes.saturating_add(1).max(end));
        out.reserve_exact(capacity - start);
    }
    out.resize(end, 0);
    let mut sink = WriteBuffer::new_initialized(&mut out[start..]);
    let result = write(&mut sink);
    let written = sink.written_len();
    out.truncate(start + written);
    Ok((result?, written))
}

fn check(length: usize, taken: usize, bounds: InflateLimits) -> Result<()> {
    let InflateLimits { bytes, ratio } = bounds;
    if length > bytes {
        let message = format!("the request's body inflates to more than {bytes} bytes, at most {bytes} are accepted");
        return Err(Error::new(Kind::TooLarge, message));
    }
    if length > InflateLimits::FREE && length > taken.saturating_mul(ratio) {
        let message = format!("the request's body inflates to more than {ratio} times its size, which is not accepted");
        return Err(Error::new(Kind::TooLarge, message));
    }
    if taken > InflateLimits::FREE && taken > length.saturating_mul(EXPANSION) {
        let message = format!(
            "the request's body inflates to less than a part in {EXPANSION} of its size, which is not accepted"
        );
        return Err(Error::new(Kind::TooLarge, message));
    }
    Ok(())
}

fn check_streams(coding: Coding, streams: usize, length: usize) -> Result<()> {
    let most = FREE_STREAMS + length / STREAM_BYTES;
    if streams <= most {
        return Ok(());
    }
    let name = coding.name();
    let message = format!(
        "the request's body has more than {most} {name} streams, accepted are {FREE_STREAMS} and one for each KiB inflated"
    );
    Err(Error::new(Kind::TooLarge, message))
}

fn corrupt(coding: Coding) -> Error {
    let window = if coding == Coding::Zstd { " with a window of at most 8 MiB" } else { "" };
    Error::invalid(format!("the request's body is not valid {} data{window}", coding.name()))
}
