//! Inflates a compressed body or message while it comes, within bounds. Large ones are inflated on a thread of their
//! own, step by step: by what is read as well as by what is made of it, since data may inflate to nothing.

use super::{
    offload,
    request_body::{RequestBody, next_chunk},
};
use crate::{settings::Limits, state::RequestMemory};
use bytes::Bytes;
use penstock_core::Result;
use penstock_wire::coding::{Coding, InflateLimits, Inflater};

/// Bytes of work between two looks at what all bodies together may hold.
const STEP: usize = 1 << 20;

/// The whole of a body, inflated.
///
/// # Errors
/// As [`Inflation::push`] and [`Inflation::finish`]; `Cancelled` when the client leaves.
pub(crate) async fn inflated<B: RequestBody>(
    coding: Coding,
    body: &mut B,
    limits: &Limits,
    held: &mut RequestMemory,
) -> Result<Bytes> {
    let mut inflation = Inflation::new(coding, limits.inflation());
    while let Some(piece) = next_chunk(body).await? {
        inflation = inflation.push(piece, held).await?;
    }
    inflation.finish(held).await
}

/// A body that is being inflated.
pub(crate) struct Inflation(Inflater);

impl Inflation {
    /// For a body within `bounds`.
    pub(crate) fn new(coding: Coding, bounds: InflateLimits) -> Self {
        Self(Inflater::new(coding, bounds))
    }

    /// Inflates the next piece. Its bytes are counted in `held` as they are made.
    ///
    /// # Errors
    /// `TooLarge` by the limits, `InvalidInput` for data that is not of the coding, `Overloaded` when the server's
    /// bodies hold as much as they may.
    pub(crate) async fn push(self, mut piece: Bytes, held: &mut RequestMemory) -> Result<Self> {
        let mut inflater = self.0;
        while inflater.is_pending() || !piece.is_empty() {
            let (work, before) = (inflater.work(), inflater.len());
            let room = if work < offload::MIN_BYTES { offload::MIN_BYTES - work } else { STEP };
            let step = move || {
                let mut rest = &piece[..];
                inflater.write(&mut rest, room)?;
                let used = piece.len() - rest.len();
                Ok((inflater, piece.slice(used..)))
            };
            (inflater, piece) = offload::run(work, step).await?;
            held.reserve(inflater.len() - before)?;
        }
        Ok(Self(inflater))
    }

    /// The whole body, inflated.
    ///
    /// # Errors
    /// As [`Inflation::push`]; `InvalidInput` when the data ends too early.
    pub(crate) async fn finish(self, held: &mut RequestMemory) -> Result<Bytes> {
        let (work, before) = (self.0.work(), self.0.len());
        let bytes = offload::run(work, || self.0.finish()).await?;
        held.reserve(bytes.len() - before)?;
        Ok(bytes.into())
    }
}
