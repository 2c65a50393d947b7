//! Archives of npy files by name.

use super::{
    npy_decode, npy_encode,
    tensors::{BodyWriter, Inputs, Output},
};
use crate::coding::InflateLimits;
use penstock_core::{BodyChunks, Error, Kind, Result};
use std::io::{Cursor, Read, Write};
use zip::{CompressionMethod, ZipArchive, ZipWriter, result::ZipError, write::SimpleFileOptions};

/// Bytes inflated between two checks of the limits.
const STEP: usize = 64 << 10;

pub(super) fn decode(body: &[u8], bounds: InflateLimits, inputs: &mut Inputs<'_>) -> Result<()> {
    let mut archive = ZipArchive::new(Cursor::new(body)).map_err(|error| broken(&error))?;
    if archive.len() > inputs.limits.max_inputs {
        return Err(Error::invalid(format!("the request has more than {} inputs", inputs.limits.max_inputs)));
    }
    let mut inflated = 0;
    for position in 0..archive.len() {
        let mut entry = archive.by_index(position).map_err(|error| broken(&error))?;
        let path = entry.name().map_err(|error| broken(&error))?.into_owned();
        let Some(name) = path.strip_suffix(".npy") else {
            return Err(Error::invalid(format!(
                "the npz archive has an entry '{path}', expected names that end with '.npy'"
            )));
        };
        let index = inputs.index(name)?;
        if !matches!(entry.compression(), CompressionMethod::Stored | CompressionMethod::Deflated) {
            return Err(broken(&ZipError::UnsupportedArchive("compression")));
        }
        let file = read(&mut entry, &mut inflated, body.len(), bounds)?;
        npy_decode::input(&file, index, inputs)?;
    }
    Ok(())
}

/// Reads an entry to its end, within the bounds on all entries together.
fn read(entry: &mut impl Read, inflated: &mut usize, packed: usize, bounds: InflateLimits) -> Result<Vec<u8>> {
    let mut file = Vec::new();
    loop {
        let start = file.len();
        file.resize(start + STEP, 0);
        let read = entry.read(&mut file[start..]).map_err(|_| Error::invalid("the npz archive is broken"))?;
        file.truncate(start + read);
        *inflated += read;
        if *inflated > bounds.bytes {
            let most = bounds.bytes;
            let message = format!("the request's body inflates to more than {most} bytes, at most {most} are accepted");
            return Err(Error::new(Kind::TooLarge, message));
        }
        if *inflated > InflateLimits::FREE && *inflated > packed.saturating_mul(bounds.ratio) {
            let message = format!(
                "the request's body inflates to more than {} times its size, which is not accepted",
                bounds.ratio
            );
            return Err(Error::new(Kind::TooLarge, message));
        }
        if read == 0 {
            return Ok(file);
        }
    }
}

fn broken(error: &ZipError) -> Error {
    let why = match error {
        ZipError::InvalidArchive(_) | ZipError::Io(_) => "it is not a zip archive, or a broken one",
        _ => "it needs what is not supported, expected entries that are stored or deflated",
    };
    Error::invalid(format!("the npz archive cannot be read: {why}"))
}

pub(super) fn encode(outputs: &[Output<'_>]) -> Result<BodyChunks> {
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    for output in outputs {
        let mut file = BodyWriter::default();
        npy_encode::write(&mut file, output)?;
        let chunks = file.finish();
        let size: usize = chunks.iter().map(bytes::Bytes::len).sum();
        let options = SimpleFileOptions::default()
            .compression_method(CompressionMethod::Stored)
            .large_file(u32::try_from(size).is_err());
        let written = writer.start_file(format!("{}.npy", output.spec.name), options);
        written.map_err(|_| failed())?;
        chunks.iter().try_for_each(|chunk| writer.write_all(chunk)).map_err(|_| failed())?;
    }
    let archive = writer.finish().map_err(|_| failed())?.into_inner();
    Ok(BodyChunks::from_iter([archive.into()]))
}

fn failed() -> Error {
    Error::new(Kind::Internal, "the response could not be encoded as npz")
}
