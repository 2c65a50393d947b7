//! Compressed bodies and messages.

use bytes::Bytes;
use penstock_core::{BodyChunks, Error, Kind, Result};
use penstock_wire::coding::{self, Coding, InflateLimits, Inflater};

/// Value of `Accept-Encoding`.
pub(crate) const ACCEPTED: &str = "zstd, gzip, deflate, br";

/// Value of `grpc-accept-encoding`.
pub(crate) const ACCEPTED_MESSAGES: &str = "identity,zstd,gzip,deflate";

/// Compresses the bytes.
///
/// # Errors
/// `Internal` for a coding that is only read.
pub(crate) fn compress(coding: Coding, chunks: &[Bytes]) -> Result<BodyChunks> {
    Ok(BodyChunks::from_iter([Bytes::from(coding::compress(coding, chunks)?)]))
}

/// Decompresses the bytes into at most `most` bytes.
///
/// # Errors
/// `TooLarge` beyond `most`; `Internal` for bytes that are not of the coding.
pub(crate) fn decompress(coding: Coding, mut bytes: &[u8], most: usize) -> Result<Vec<u8>> {
    let mut inflater = Inflater::new(coding, InflateLimits { bytes: most, ratio: usize::MAX });
    let mut inflate = || -> Result<()> {
        while !bytes.is_empty() || inflater.is_pending() {
            inflater.write(&mut bytes, usize::MAX)?;
        }
        Ok(())
    };
    inflate().and_then(|()| inflater.finish()).map_err(|error| match error.kind() {
        Kind::TooLarge => too_large(most),
        _ => {
            let name = coding.name();
            Error::new(Kind::Internal, format!("the server's answer is not {name} as it says: {error}"))
        }
    })
}

/// Error for a response of more than `most` bytes.
pub(crate) fn too_large(most: usize) -> Error {
    Error::new(Kind::TooLarge, format!("the server's answer has more than {most} bytes, the limit 'max_answer_bytes'"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compressed_chunks_round_trip() {
        let chunks = [Bytes::from(vec![1; 100_000]), Bytes::from_static(b"end")];
        for coding in [Coding::Gzip, Coding::Deflate, Coding::Zstd] {
            let small = compress(coding, &chunks).unwrap().concat();
            assert!(small.len() < 2000);
            assert_eq!(decompress(coding, &small, 100_003).unwrap(), chunks.concat());
            assert_eq!(decompress(coding, &small, 100_002).unwrap_err().kind(), Kind::TooLarge);
            assert_eq!(decompress(coding, b"no such thing", 100).unwrap_err().kind(), Kind::Internal);
        }
    }
}
