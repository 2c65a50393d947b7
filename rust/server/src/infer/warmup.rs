//! Warm-up samples, in the form of inference requests.

use penstock_core::{Error, InferRequest, ModelSpec, Protocol, Result, SequenceId, Step};
use penstock_wire::{Limits, rest};

/// Reads the body of an infer request, whose JSON is `json_length` bytes long and is followed by tensors.
///
/// For a model with sequences, it is a sequence of one request.
///
/// # Errors
/// Those of an inference request.
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
