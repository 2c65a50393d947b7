//! Samples that warm a model up, in the form in which requests come.

use penstock_core::{Error, InferRequest, ModelSpec, Protocol, Result, SequenceId, Step};
use penstock_wire::{Limits, rest};

/// Reads the body of an infer request, whose JSON is `json_length` bytes long and is followed by tensors.
///
/// For a model with sequences it is one of a single request.
///
/// # Errors
/// What a client is answered that sends it.
pub fn sample(spec: &ModelSpec, body: &[u8], json_length: usize) -> Result<InferRequest> {
    let split = body.split_at_checked(json_length);
    let (json, tensors) = split.ok_or_else(|| Error::invalid("the body is shorter than its JSON"))?;
    let mut decoder = rest::begin(spec, json, tensors.len(), &Limits::default())?;
    decoder.write(tensors)?;
    let mut request = decoder.finish()?.request;
    request.protocol = Protocol::InProcess;
    if spec.sequences.is_some() {
        let id = SequenceId::Text("penstock-warmup".into());
        request.schedule.step = Some(Box::new(Step { id, start: true, end: true }));
    }
    Ok(request)
}
