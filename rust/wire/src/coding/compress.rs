//! Compression of responses.

use super::codings::Coding;
use compression_codecs::{
    EncodeV2, GzipEncoder, ZlibEncoder, ZstdEncoder,
    core::{
        Level,
        util::{PartialBuffer, WriteBuffer},
    },
};
use penstock_core::{Error, Kind, Result};
use std::io;

/// Growth of the output per step, in bytes.
const STEP: usize = 32 << 10;

/// Compresses the chunks of a body into one. `deflate` is the zlib format: not every client reads raw data.
///
/// The levels are the fastest: a response is compressed once and read once.
///
/// # Errors
/// `Internal` for Brotli, which is only read, and should an encoder fail.
pub fn compress(coding: Coding, chunks: &[impl AsRef<[u8]>]) -> Result<Vec<u8>> {
    let made = encoder(coding).and_then(|mut encoder| run(encoder.as_mut(), chunks).ok());
    made.ok_or_else(|| {
        Error::new(Kind::Internal, format!("the response could not be compressed with {}", coding.name()))
    })
}

/// `None` for Brotli: its encoder would enlarge the wheel by a fifth, for clients that also accept gzip.
fn encoder(coding: Coding) -> Option<Box<dyn EncodeV2>> {
    Some(match coding {
        Coding::Gzip => Box::new(GzipEncoder::new(Level::Fastest.into())),
        Coding::Deflate => Box::new(ZlibEncoder::new(Level::Fastest.into())),
        Coding::Zstd => Box::new(ZstdEncoder::new(1)),
        Coding::Brotli => return None,
    })
}

fn run(encoder: &mut dyn EncodeV2, chunks: &[impl AsRef<[u8]>]) -> io::Result<Vec<u8>> {
    let mut out = Vec::new();
    for chunk in chunks {
        let mut input = PartialBuffer::new(chunk.as_ref());
        while !input.unwritten().is_empty() {
            grow(&mut out, |sink| encoder.encode(&mut input, sink))?;
        }
    }
    while !grow(&mut out, |sink| encoder.finish(sink))? {}
    Ok(out)
}

/// Appends what `write` writes, at most [`STEP`] bytes.
fn grow<T>(out: &mut Vec<u8>, write: impl FnOnce(&mut WriteBuffer<'_>) -> io::Result<T>) -> io::Result<T> {
    let start = out.len();
    out.resize(start + STEP, 0);
    let mut sink = WriteBuffer::new_initialized(&mut out[start..]);
    let result = write(&mut sink);
    let end = start + sink.written_len();
    out.truncate(end);
    result
}
