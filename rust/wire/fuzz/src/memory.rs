//! Shared memory in which every region exists and holds zeros.

use penstock_core::{Error, ModelSpec, Result, aligned_zeroed};
use penstock_wire::{DecodedRequest, Limits};

/// Limits that accept tensors in shared memory.
pub const SHARING: Limits = Limits { shared_memory: true, ..Limits::DEFAULT };

/// Maximum size of an input in shared memory, in bytes.
const MOST: usize = 1 << 16;

/// A request with its inputs from shared memory.
///
/// # Errors
/// As for [`DecodedRequest::fill`]; larger inputs are refused.
///
/// # Panics
/// A region slice is left over, or an output in shared memory is not planned as one.
pub fn filled(spec: &ModelSpec, mut decoded: DecodedRequest) -> Result<DecodedRequest> {
    decoded.fill(spec, |input| match input.span.size {
        size if size <= MOST => Ok(aligned_zeroed(size)),
        _ => Err(Error::invalid("too large for a test")),
    })?;
    let planned = |index| decoded.plan.outputs.iter().flatten().any(|output| output.index == index && output.shared);
    if let Some(shared) = &decoded.shared {
        assert!(shared.inputs.is_empty());
        assert!(shared.outputs.iter().all(|output| planned(output.index)));
    }
    Ok(decoded)
}
