//! One inference response, and how it is sent.

use super::{Parameters, ResponseHead};
use crate::Tensor;
use bytes::Bytes;
use smallvec::SmallVec;
use std::time::Duration;

/// How an output is to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestedOutput {
    /// The output's declaration index.
    pub index: usize,
    /// REST only: as raw bytes after the JSON.
    pub binary: bool,
    /// How many of its largest elements are sent as text in its place ([`crate::classify`]); 0 for none.
    pub classes: u32,
    /// It goes to the caller's shared memory, and its elements are not sent.
    pub shared: bool,
}

impl RequestedOutput {
    /// An output that is sent as it is.
    pub const fn new(index: usize, binary: bool) -> Self {
        Self { index, binary, classes: 0, shared: false }
    }
}

/// The parts of a request that only the answer's encoder needs.
#[derive(Clone, Debug, Default)]
pub struct ResponsePlan {
    /// The request's id, empty if it has none.
    pub id: String,
    /// The outputs to send, in that order; `None` for all in declaration order.
    pub outputs: Option<SmallVec<[RequestedOutput; 4]>>,
    /// REST only: what an output that is not listed in `outputs` gets.
    pub binary: bool,
    /// REST only: BYTES came as base64 text, so BYTES go back as base64 text.
    pub base64: bool,
}

impl ResponsePlan {
    /// The outputs to send by themselves, as [`RequestMetadata`] has them.
    pub fn requested_indices(&self) -> Option<Box<[usize]>> {
        self.outputs.as_ref().map(|outputs| outputs.iter().map(|output| output.index).collect())
    }
}

/// Where a request's time went.
#[derive(Clone, Copy, Debug, Default)]
pub struct Timings {
    /// From arrival in the queue to the cut of its batch.
    pub queue: Duration,
    /// The handler's own time for the whole batch.
    pub compute: Duration,
    /// Rows in that batch.
    pub batch_rows: usize,
}

/// Where a batch's time at the interpreter went.
#[derive(Clone, Copy, Debug, Default)]
pub struct InterpreterTimes {
    /// The handler's wall time.
    pub handler: Duration,
    /// The handler thread's processor time within the handler.
    pub handler_cpu: Duration,
    /// Time attached to the interpreter before and after the handler.
    pub boundary: Duration,
    /// The part of `boundary` after the handler: taking its arrays.
    pub output: Duration,
}

/// A computed answer.
#[derive(Clone, Debug, Default)]
pub struct InferResponse {
    /// The outputs in declaration order.
    pub outputs: SmallVec<[Tensor; 2]>,
    /// Parameters that the handler set.
    pub parameters: Parameters,
    /// Where the time went.
    pub timings: Timings,
    /// What an open model tells beside the outputs; `None` for any other.
    pub head: Option<Box<ResponseHead>>,
}

impl InferResponse {
    /// The outputs to send, in order, with how. Those that the handler left out are not among them.
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

/// The bytes of an answer: small parts joined, large tensors as they lie in memory.
pub type BodyChunks = SmallVec<[Bytes; 2]>;
