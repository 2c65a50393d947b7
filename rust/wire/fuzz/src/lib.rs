//! Shared parts of the fuzz targets: models, and round trips.
#![forbid(unsafe_code)]

mod budget;
mod compare;
mod declaration;
mod memory;

pub use budget::within_budget;
pub use compare::{assert_well_formed, same_outcome, same_tensors, tensors};
pub use declaration::Declaration;
pub use memory::{SHARING, filled};

use penstock_core::{InferResponse, ModelSpec, Tensor, Timings};

/// A response whose outputs are a request's inputs; `None` when an optional input is absent.
///
/// The models here name outputs like their inputs, so that an encoded response is a request.
pub fn answer(spec: &ModelSpec, inputs: &[Tensor]) -> Option<InferResponse> {
    (inputs.len() == spec.outputs.len()).then(|| InferResponse {
        outputs: inputs.iter().cloned().collect(),
        parameters: Vec::new(),
        timings: Timings::default(),
        head: None,
    })
}

/// The JSON of a response as a request for the same tensors.
///
/// # Panics
/// It is not the JSON of a response without id and parameters.
pub fn as_request(answer: &[u8]) -> Vec<u8> {
    const OUTPUTS: &[u8] = b"\"outputs\":";
    let at = answer.windows(OUTPUTS.len()).position(|window| window == OUTPUTS).expect("an answer has outputs");
    [b"{\"inputs\":", &answer[at + OUTPUTS.len()..]].concat()
}

/// Splits `bytes` into chunks of the given sizes, repeatedly until nothing is left.
pub fn pieces<'a>(mut bytes: &'a [u8], sizes: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
    let mut sizes = sizes.iter().copied().cycle();
    std::iter::from_fn(move || {
        if bytes.is_empty() {
            return None;
        }
        // A size of zero would go on for ever.
        let size = sizes.next().map_or(bytes.len(), |size| usize::from(size).max(1));
        let (piece, rest) = bytes.split_at(size.min(bytes.len()));
        bytes = rest;
        Some(piece)
    })
}
