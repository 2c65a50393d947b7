//! Receives a compressed body: it is inflated while it comes, within bounds.

use crate::{app::RequestGuard, config::Limits, front::Incoming, offload, pieces::next};
use bytes::Bytes;
use penstock_core::Result;
use penstock_wire::coding::{Bounds, Coding, Inflater};

/// Inflated bytes between two looks at what all bodies together may hold.
const STEP: usize = 1 << 20;

/// The whole body, inflated. A body that becomes large is inflated on a thread of its own, step by step.
///
/// # Errors
/// `TooLarge` by the limits, `InvalidInput` for data that is not of the coding, `Overloaded` when the
/// server's bodies hold as much as they may, `Cancelled` when the client leaves.
pub(super) async fn inflated<B: Incoming>(
    coding: Coding,
    body: &mut B,
    limits: &Limits,
    guard: &mut RequestGuard,
) -> Result<Bytes> {
    let mut inflater = Inflater::new(coding, Bounds { bytes: limits.body_bytes, ratio: limits.inflate_ratio });
    while let Some(mut piece) = next(body).await? {
        while inflater.is_pending() || !piece.is_empty() {
            let before = inflater.len();
            let room = if before < offload::FROM_BYTES { offload::FROM_BYTES - before } else { STEP };
            let work = move || {
                let mut rest = &piece[..];
                inflater.write(&mut rest, room)?;
                let used = piece.len() - rest.len();
                Ok((inflater, piece.slice(used..)))
            };
            (inflater, piece) = offload::run(before, work).await?;
            guard.reserve(inflater.len() - before)?;
        }
    }
    let before = inflater.len();
    let bytes = offload::run(before, || inflater.finish()).await?;
    guard.reserve(bytes.len() - before)?;
    Ok(bytes.into())
}
