//! Decoded requests, and the limits on what one may name.

use crate::shared_memory::{SharedInput, SharedTensors};
use penstock_core::{AlignedBuffer, Buffer, Error, InferRequest, ModelSpec, ResponsePlan, Result, Tensor};
use std::time::Duration;

/// Maximum number of parameters of a request and its tensors; list items count.
pub(crate) const MAX_PARAMETERS: usize = 4096;

/// Refuses a list of more than `max` entries, of what the request has.
pub(crate) fn bounded(what: &str, count: usize, max: usize) -> Result<()> {
    if count > max {
        return Err(Error::invalid(format!("the request has more than {max} {what}")));
    }
    Ok(())
}

/// Limits on the lists of a request, so that a small message cannot become large in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The most inputs.
    pub max_inputs: usize,
    /// The most requested outputs.
    pub max_outputs: usize,
    /// REST only: the deepest nesting of a JSON value that is skipped; at most 128.
    pub max_depth: usize,
    /// Accept tensors in shared memory; if not, a request that names some is refused.
    pub shared_memory: bool,
    /// Accept `null` for NaN and datatypes in lower case, in requests to raw-request models.
    pub permissive: bool,
}

impl Limits {
    /// Default limits.
    pub const DEFAULT: Self =
        Self { max_inputs: 1024, max_outputs: 1024, max_depth: 64, shared_memory: false, permissive: false };
}

impl Default for Limits {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// A request as it came off the wire, checked against its model.
#[derive(Debug)]
pub struct DecodedRequest {
    /// The request for the queue.
    pub request: InferRequest,
    /// The plan for the response's encoder.
    pub plan: ResponsePlan,
    /// The client's timeout, from now.
    pub timeout: Option<Duration>,
    /// The tensors in shared memory, if the limits allow them. Its inputs are missing in the request
    /// until [`DecodedRequest::fill`].
    pub shared: Option<Box<SharedTensors>>,
}

impl DecodedRequest {
    /// Puts the inputs in shared memory into the request, and checks it as a whole. `read` gets the
    /// bytes of one: exactly as many as its span has.
    ///
    /// # Errors
    /// What `read` returns, with the input's name before it; `InvalidInput` for broken BYTES framing and
    /// for inputs that are not what the model takes together.
    pub fn fill(
        &mut self,
        spec: &ModelSpec,
        mut read: impl FnMut(&SharedInput) -> Result<AlignedBuffer>,
    ) -> Result<()> {
        let Some(shared) = self.shared.as_mut().filter(|shared| !shared.inputs.is_empty()) else { return Ok(()) };
        for input in std::mem::take(&mut shared.inputs) {
            let named = |error: Error| {
                Error::new(error.kind(), format!("input '{}': {}", spec.inputs[input.index].name, error.message()))
            };
            let buffer = Buffer::Aligned(read(&input).map_err(named)?);
            let tensor = Tensor::new(input.datatype, input.shape, buffer).map_err(named)?;
            self.request.inputs[input.index] = Some(tensor);
        }
        self.request.check(spec)
    }
}
