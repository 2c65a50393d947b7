//! Decodes request bodies and encodes responses, in every format.

use super::{
    Format, RequestOptions, arrow_decode, arrow_encode, msgpack_decode, msgpack_encode, npy_decode, npy_encode, npz,
    safetensors,
    tensors::{self, Inputs},
};
use crate::{DecodedRequest, Limits, coding::InflateLimits, request_schema::refuse_raw_request_model};
use bytes::Bytes;
use penstock_core::{
    BodyChunks, Datatype, Error, InferRequest, InferResponse, Kind, ModelSpec, Protocol, ResponsePlan, Result,
};

/// Limits of a body.
#[derive(Clone, Copy, Debug)]
pub struct BodyLimits {
    /// InflateLimits on lists and nesting.
    pub lists: Limits,
    /// InflateLimits on what is compressed within the body.
    pub inflated: InflateLimits,
}

/// Decodes a body of `format`.
///
/// ```
/// use penstock_core::{Datatype, ModelSpec, TensorSpec};
/// use penstock_wire::{Limits, coding::InflateLimits, rest::bodies};
///
/// let tensor = TensorSpec::new("x", Datatype::Uint8, vec![None]);
/// let spec = ModelSpec { inputs: vec![tensor.clone()], outputs: vec![tensor], ..ModelSpec::default() };
/// let limits = bodies::BodyLimits { lists: Limits::default(), inflated: InflateLimits { bytes: 1000, ratio: 100 } };
/// let header = b"{'descr': '|u1', 'fortran_order': False, 'shape': (3,), }\n";
/// let body = [b"\x93NUMPY\x01\0", &[header.len() as u8, 0][..], header, &[1, 2, 3]].concat();
/// let decoded = bodies::decode(bodies::Format::Npy, &spec, bodies::RequestOptions::default(), body.into(), &limits)?;
/// assert_eq!(decoded.request.inputs[0].as_ref().unwrap().as_slice(), [1, 2, 3]);
/// # Ok::<(), penstock_core::Error>(())
/// ```
///
/// # Errors
/// `InvalidInput` that names the tensor and what was expected of it; `TooLarge` when what is compressed
/// within the body is over its bounds.
pub fn decode(
    format: Format,
    spec: &ModelSpec,
    mut extras: RequestOptions,
    body: Bytes,
    limits: &BodyLimits,
) -> Result<DecodedRequest> {
    refuse_raw_request_model(spec, &format!("a body in {} is not supported", format.name()))?;
    let mut inputs = Inputs::new(spec, limits.lists);
    match format {
        Format::Npy => npy_decode::decode(&body, &mut inputs)?,
        Format::Npz => npz::decode(&body, limits.inflated, &mut inputs)?,
        Format::Msgpack => msgpack_decode::decode(&body, &mut inputs, &mut extras)?,
        Format::Arrow => arrow_decode::decode(body, &mut inputs)?,
        Format::Safetensors => safetensors::decode(&body, &mut inputs)?,
    }
    let mut request = InferRequest::assemble(spec, inputs.finish(), Protocol::Http)?;
    request.metadata = extras.caller;
    request.schedule = extras.schedule;
    Ok(DecodedRequest { request, plan: extras.plan, timeout: extras.timeout, shared: None })
}

/// Checks that `format` can hold the outputs of a plan, before they are computed. Outputs of raw-request models are
/// known only then.
///
/// # Errors
/// `InvalidInput` with the reason.
pub fn check_response(format: Format, spec: &ModelSpec, plan: &ResponsePlan) -> Result<()> {
    if let Some(output) = plan.outputs.iter().flatten().find(|output| output.shared) {
        let name = &spec.outputs[output.index].name;
        return Err(Error::invalid(format!(
            "output '{name}' cannot go to shared memory with a response in this format"
        )));
    }
    let chosen: Vec<_> = match &plan.outputs {
        Some(outputs) => outputs.iter().map(|output| (&spec.outputs[output.index], output.classes > 0)).collect(),
        None => spec.outputs.iter().map(|output| (output, false)).collect(),
    };
    if format == Format::Npy && chosen.len() != 1 {
        return Err(Error::invalid(format!(
            "an npy answer is one output, the request asks for {}: name one in the query, as in ?output=NAME",
            chosen.len()
        )));
    }
    for (output, as_text) in chosen {
        let datatype = if as_text { Datatype::Bytes } else { output.datatype };
        if !format.holds(datatype) {
            return Err(Error::invalid(format!(
                "output '{}' has datatype {datatype}, which {} cannot hold: accept another format",
                output.name,
                format.name()
            )));
        }
    }
    Ok(())
}

/// Encodes a response in `format`.
///
/// # Errors
/// `InvalidInput` for values that the format cannot hold; `Internal` when outputs are missing.
pub fn encode(format: Format, spec: &ModelSpec, plan: &ResponsePlan, response: &InferResponse) -> Result<BodyChunks> {
    let own = response.raw_spec(spec);
    if let Some(own) = &own {
        check_response(format, own, plan)?;
    }
    let spec = own.as_ref().unwrap_or(spec);
    if response.outputs.len() != spec.outputs.len() {
        return Err(Error::new(Kind::Internal, format!("the response lacks outputs of model '{}'", spec.name)));
    }
    let outputs: Vec<tensors::Output<'_>> = response
        .selected(plan)
        .into_iter()
        .map(|(requested, tensor)| tensors::Output { spec: &spec.outputs[requested.index], tensor })
        .collect();
    match format {
        Format::Npy => npy_encode::encode(&outputs),
        Format::Npz => npz::encode(&outputs),
        Format::Msgpack => msgpack_encode::encode(spec, plan, &response.parameters, &outputs),
        Format::Arrow => arrow_encode::encode(spec, plan, &outputs),
        Format::Safetensors => safetensors::encode(spec, plan, &outputs),
    }
}
