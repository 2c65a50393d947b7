//! Responses, and the plan for their encoding.

use super::{Parameters, ResponseHead};
use crate::Tensor;
use bytes::Bytes;
use smallvec::SmallVec;
use std::time::Duration;

/// Requested output, and its encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestedOutput {
    /// Index of the output.
    pub index: usize,
    /// REST only: raw bytes after the JSON.
    pub binary: bool,
    /// Number of classes to send as text in place of the elements ([`crate::classify`]); 0 for the elements.
    pub classes: u32,
    /// Written to the client's shared memory; the elements are not sent.
    pub shared: bool,
}

impl RequestedOutput {
    /// An output without classes and shared memory.
    pub const fn new(index: usize, binary: bool) -> Self {
        Self { index, binary, classes: 0, shared: false }
    }
}

/// Parts of a request that only the encoder of the response needs.
#[derive(Clone, Debug, Default)]
pub struct ResponsePlan {
    /// Request id; empty if there is none.
    pub id: String,
    /// Outputs to send, in order; `None` for all in declaration order.
    pub outputs: Option<SmallVec<[RequestedOutput; 4]>>,
    /// REST only: raw bytes for outputs that `outputs` does not list.
    pub binary: bool,
    /// REST only: BYTES inputs were base64 text, so BYTES outputs are too.
    pub base64: bool,
}

impl ResponsePlan {
    /// Indices of the requested outputs, for [`super::RequestMetadata`].
    pub fn requested_indices(&self) -> Option<Box<[usize]>> {
        self.outputs.as_ref().map(|outputs| outputs.iter().map(|output| output.index).collect())
    }
}

/// Durations of a request's phases.
#[derive(Clone, Copy, Debug, Default)]
pub struct Timings {
    /// From arrival in the queue to the cut of the batch.
    pub queue: Duration,
    /// Part of `queue` in which the instance that took the request had no batch: it waited for more requests, or to wake
    /// up.
    pub batch_wait: Duration,
    /// Set where the policy had it wait for more requests.
    pub gathered: bool,
    /// Handler's time for the whole batch.
    pub compute: Duration,
    /// Rows of that batch.
    pub batch_rows: usize,
}

/// Durations of a batch around the GIL.
#[derive(Clone, Copy, Debug, Default)]
pub struct InterpreterTimes {
    /// Wall time of the handler.
    pub handler: Duration,
    /// CPU time of the handler's thread within the handler.
    pub handler_cpu: Duration,
    /// Time with the GIL before and after the handler.
    pub boundary: Duration,
    /// Part of `boundary` after the handler: reading its arrays.
    pub output: Duration,
}

/// Response to one request.
#[derive(Clone, Debug, Default)]
pub struct InferResponse {
    /// Outputs in declaration order.
    pub outputs: SmallVec<[Tensor; 2]>,
    /// Parameters that the handler set.
    pub parameters: Parameters,
    /// Durations of the phases.
    pub timings: Timings,
    /// Response head of a raw-request model; `None` for other models.
    pub head: Option<Box<ResponseHead>>,
}

impl InferResponse {
    /// Outputs to send, in order, with their encoding. Absent outputs are left out.
    pub fn selected(&self, plan: &ResponsePlan) -> SmallVec<[(RequestedOutput, &Tensor); 4]> {
        let is_there = |(_, tensor): &(RequestedOutput, &Tensor)| !tensor.is_absent();
        match &plan.outputs {
            Some(requested) => {
                requested.iter().map(|&output| (output, &self.outputs[output.index])).filter(is_there).collect()
            }
            None => self
                .outputs
                .iter()
                .enumerate()
                .map(|(index, tensor)| (RequestedOutput::new(index, plan.binary), tensor))
                .filter(is_there)
                .collect(),
        }
    }
}

/// Bytes of a body: small parts are joined, large tensors are shared without a copy.
pub type BodyChunks = SmallVec<[Bytes; 2]>;
