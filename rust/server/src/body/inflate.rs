//! Inflates a compressed body or message as it arrives, within bounds. Large ones are inflated on a blocking thread,
//! step by step. A step counts input and output, since data may inflate to nothing.

use super::{
    offload,
    request_body::{RequestBody, next_chunk},
};
use crate::{settings::Limits, state::RequestMemory};
use bytes::Bytes;
use penstock_core::Result;
use penstock_wire::coding::{Coding, InflateLimits, Inflater};

/// Bytes of work between two checks of the memory limit.
const STEP: usize = 1 << 20;

/// Inflates a whole body.
///
/// # Errors
/// Those of [`Inflation::push`] and [`Inflation::finish`]; `Cancelled` when the client leaves.
pub(crate) async fn inflated<B: RequestBody>(
    coding: Coding,
    body: &mut B,
    limits: &Limits,
    held: &mut RequestMemory,
) -> Result<Bytes> {
    let mut inflation = Inflation::new(coding, limits.inflation());
    while let Some(chunk) = next_chunk(body).await? {
        inflation = inflation.push(chunk, held).await?;
    }
    inflation.finish(held).await
}

/// A body that is being inflated.
pub(crate) struct Inflation(Inflater);

impl Inflation {
    /// Starts to inflate a body within `bounds`.
    pub(crate) fn new(coding: Coding, bounds: InflateLimits) -> Self {
        Self(Inflater::new(coding, bounds))
    }

    /// Inflates the next chunk, and reserves its inflated bytes in `held`.
    ///
    /// # Errors
    /// `TooLarge` by the limits, `InvalidInput` for data that is not of the coding, `Overloaded` when the server's
    /// limit on request memory is reached.
    pub(crate) async fn push(self, mut chunk: Bytes, held: &mut RequestMemory) -> Result<Self> {
        let mut inflater = self.0;
        while inflater.is_pending() || !chunk.is_empty() {
            let (work, before) = (inflater.work(), inflater.len());
            let room = if work < offload::MIN_BYTES { offload::MIN_BYTES - work } else { STEP };
            let step = move || {
                let mut rest = &chunk[..];
                inflater.write(&mut rest, room)?;
                let used = chunk.len() - rest.len();
                Ok((inflater, chunk.slice(used..)))
            };
            (inflater, chunk) = offload::run(work, step).await?;
            held.reserve(inflater.len() - before)?;
        }
        Ok(Self(inflater))
    }

    /// Returns the inflated body.
    ///
    /// # Errors
    /// Those of [`Inflation::push`]; `InvalidInput` when the data ends too early.
    pub(crate) async fn finish(self, held: &mut RequestMemory) -> Result<Bytes> {
        let (work, before) = (self.0.work(), self.0.len());
        let bytes = offload::run(work, || self.0.finish()).await?;
        held.reserve(bytes.len() - before)?;
        Ok(bytes.into())
    }
}
