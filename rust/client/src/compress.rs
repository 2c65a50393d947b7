//! Compressed bodies and messages.

use bytes::Bytes;
use flate2::{Compression, read, write};
use penstock_core::{Chunks, Error, Kind, Result};
use std::io::{self, Read, Write};

/// A way to compress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// As gzip does.
    Gzip,
    /// The zlib format, whose name on the wire is `deflate`.
    Deflate,
    /// Zstandard.
    Zstd,
}

/// What we read, as `Accept-Encoding` and `grpc-accept-encoding` have it.
pub(crate) const ACCEPTED: &str = "zstd,gzip,deflate";

impl Encoding {
    /// The encoding of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Gzip, Self::Deflate, Self::Zstd].into_iter().find(|encoding| encoding.name() == name)
    }

    /// The name in headers.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Deflate => "deflate",
            Self::Zstd => "zstd",
        }
    }

    /// The bytes, compressed.
    ///
    /// # Errors
    /// `Internal`; memory cannot fail otherwise.
    pub(crate) fn compress(self, chunks: &[Bytes]) -> Result<Chunks> {
        let compressed = || -> io::Result<Vec<u8>> {
            match self {
                Self::Gzip => fill(write::GzEncoder::new(Vec::new(), Compression::fast()), chunks)?.finish(),
                Self::Deflate => fill(write::ZlibEncoder::new(Vec::new(), Compression::fast()), chunks)?.finish(),
                Self::Zstd => fill(zstd::Encoder::new(Vec::new(), 1)?, chunks)?.finish(),
            }
        };
        let bytes = compressed()
            .map_err(|error| Error::new(Kind::Internal, format!("the request cannot be compressed: {error}")))?;
        Ok(Chunks::from_iter([Bytes::from(bytes)]))
    }

    /// The bytes as they were, of which there may be at most `most`.
    ///
    /// # Errors
    /// `TooLarge` beyond that; `Internal` when they are not what they are said to be.
    pub(crate) fn decompress(self, bytes: &[u8], most: usize) -> Result<Vec<u8>> {
        let mut out = Vec::new();
        let limit = most as u64 + 1;
        let read = match self {
            Self::Gzip => read::MultiGzDecoder::new(bytes).take(limit).read_to_end(&mut out),
            Self::Deflate => read::ZlibDecoder::new(bytes).take(limit).read_to_end(&mut out),
            Self::Zstd => zstd::Decoder::new(bytes).and_then(|decoder| decoder.take(limit).read_to_end(&mut out)),
        };
        if let Err(error) = read {
            let name = self.name();
            return Err(Error::new(Kind::Internal, format!("the server's answer is not {name} as it says: {error}")));
        }
        if out.len() > most {
            return Err(too_large(most));
        }
        Ok(out)
    }
}

/// That an answer has more than `most` bytes.
pub(crate) fn too_large(most: usize) -> Error {
    Error::new(Kind::TooLarge, format!("the server's answer has more than {most} bytes, the limit 'max_answer_bytes'"))
}

fn fill<W: Write>(mut writer: W, chunks: &[Bytes]) -> io::Result<W> {
    for chunk in chunks {
        writer.write_all(chunk)?;
    }
    Ok(writer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_back() {
        let chunks = [Bytes::from(vec![1; 100_000]), Bytes::from_static(b"end")];
        for encoding in [Encoding::Gzip, Encoding::Deflate, Encoding::Zstd] {
            assert_eq!(Encoding::from_name(encoding.name()), Some(encoding));
            let small = encoding.compress(&chunks).unwrap().concat();
            assert!(small.len() < 2000);
            assert_eq!(encoding.decompress(&small, 100_003).unwrap(), chunks.concat());
            assert_eq!(encoding.decompress(&small, 100_002).unwrap_err().kind(), Kind::TooLarge);
            assert_eq!(encoding.decompress(b"no such thing", 100).unwrap_err().kind(), Kind::Internal);
        }
    }
}
