//! Checks a request message against its model and puts its inputs in the model's order.

use super::{contents, message::Envelope, parameters};
use crate::{Decoded, Limits, generated::inference::model_infer_request as pb};
use penstock_core::{
    AlignedBuffer, AnswerPlan, Buffer, CallerInfo, Datatype, DecodedInput, Error, InferRequest, MAX_RANK, ModelSpec,
    Protocol, RequestedOutput, Result, Shape, Tensor, aligned_with_capacity, classify, element_count,
};
use smallvec::SmallVec;

type DecodedInputs = SmallVec<[DecodedInput; 2]>;
type RequestedOutputs = SmallVec<[RequestedOutput; 4]>;

/// What a request says of an input, checked against the model.
pub(super) struct Header {
    pub(super) index: usize,
    pub(super) datatype: Datatype,
    pub(super) shape: Shape,
    /// Elements of the shape.
    pub(super) count: usize,
}

/// The request of a message, checked against its model.
///
/// # Errors
/// `InvalidInput` for what the model or the protocol does not allow, `Unsupported` for shared memory. The message names the tensor or parameter, what was given and what is expected.
pub fn decode(spec: &ModelSpec, envelope: Envelope, limits: &Limits) -> Result<Decoded> {
    let Envelope { message, raw } = envelope;
    bounded("inputs", message.inputs.len(), limits.max_inputs)?;
    bounded("outputs", message.outputs.len(), limits.max_outputs)?;
    let parameters = parameters::request(message.parameters)?;
    let outputs = requested_outputs(spec, &message.outputs)?;
    let inputs =
        if raw.is_empty() { typed_inputs(spec, message.inputs)? } else { raw_inputs(spec, &message.inputs, raw)? };
    let mut request = InferRequest::assemble(spec, inputs, Protocol::Grpc)?;
    request.schedule = parameters.schedule.finish();
    if spec.wants_context {
        let (id, parameters) = (message.id.clone(), parameters.custom);
        request.caller = Some(Box::new(CallerInfo { id, parameters, headers: Vec::new() }));
    }
    let plan = AnswerPlan { id: message.id, outputs, ..AnswerPlan::default() };
    Ok(Decoded { request, plan, timeout: parameters.timeout })
}

/// Refuses a list of more than `max` entries.
pub(super) fn bounded(what: &str, count: usize, max: usize) -> Result<()> {
    if count > max {
        return Err(Error::invalid(format!("the request has more than {max} {what}")));
    }
    Ok(())
}

fn requested_outputs(spec: &ModelSpec, given: &[pb::InferRequestedOutputTensor]) -> Result<Option<RequestedOutputs>> {
    let mut outputs = RequestedOutputs::new();
    for output in given {
        let index = spec.output_index(&output.name)?;
        let parameters::TensorParameters { classes } = parameters::tensor("output", &output.name, &output.parameters)?;
        if classes > 0 {
            classify::check(&spec.outputs[index])?;
        }
        if outputs.iter().any(|earlier| earlier.index == index) {
            return Err(Error::invalid(format!("output '{}' is requested twice", output.name)));
        }
        outputs.push(RequestedOutput { classes, ..RequestedOutput::new(index, false) });
    }
    Ok((!given.is_empty()).then_some(outputs))
}

fn typed_inputs(spec: &ModelSpec, given: Vec<pb::InferInputTensor>) -> Result<DecodedInputs> {
    let typed = given.into_iter().map(|input| {
        let header = header(spec, &input)?;
        let buffer = contents::buffer(&input.name, &header, input.contents.unwrap_or_default())?;
        tensor(&input.name, header, buffer)
    });
    typed.collect()
}

fn raw_inputs(
    spec: &ModelSpec,
    given: &[pb::InferInputTensor],
    raw: SmallVec<[AlignedBuffer; 2]>,
) -> Result<DecodedInputs> {
    // MLServer's client sends contents with nothing in them beside raw tensors.
    let filled =
        |input: &&pb::InferInputTensor| input.contents.as_ref().is_some_and(|contents| *contents != Default::default());
    if let Some(both) = given.iter().find(filled) {
        return Err(Error::invalid(format!(
            "input '{}' has contents beside the request's raw_input_contents, expected one of the two",
            both.name
        )));
    }
    // An input without elements may have an empty entry or none.
    let all_have_one = raw.len() == given.len();
    if !all_have_one && raw.len() != given.iter().filter(|input| !input.shape.contains(&0)).count() {
        // What is wrong with an input, shared memory for one, explains more than the count.
        given.iter().try_for_each(|input| header(spec, input).map(drop))?;
        return Err(wrong_entries(given, raw.len()));
    }
    let mut raw = raw.into_iter();
    let tensors = given.iter().map(|input| {
        let header = header(spec, input)?;
        let entry = if all_have_one || header.count > 0 { raw.next() } else { None };
        tensor(&input.name, header, entry.unwrap_or_else(|| aligned_with_capacity(0)))
    });
    tensors.collect()
}

fn wrong_entries(given: &[pb::InferInputTensor], got: usize) -> Error {
    let expected = given.len();
    Error::invalid(match given.get(got) {
        Some(without) => {
            let name = &without.name;
            format!("input '{name}' has no entry in raw_input_contents: the request has {got}, expected {expected}")
        }
        None => {
            let names: Vec<String> = given.iter().map(|input| format!("'{}'", input.name)).collect();
            let names = names.join(", ");
            format!("the request has {got} entries in raw_input_contents, expected {expected} for its inputs ({names})")
        }
    })
}

fn header(spec: &ModelSpec, input: &pb::InferInputTensor) -> Result<Header> {
    let index = spec.input_index(&input.name)?;
    parameters::tensor("input", &input.name, &input.parameters)?;
    let datatype = Datatype::from_name(&input.datatype).ok_or_else(|| {
        Error::invalid(format!(
            "input '{}' has unknown datatype '{}', model '{}' expects {}",
            input.name, input.datatype, spec.name, spec.inputs[index].datatype
        ))
    })?;
    let shape = shape(input)?;
    spec.check_input(index, datatype, &shape)?;
    let count = element_count(&shape).map_err(|error| named(&input.name, &error))?;
    Ok(Header { index, datatype, shape, count })
}

fn shape(input: &pb::InferInputTensor) -> Result<Shape> {
    if input.shape.len() > MAX_RANK {
        let rank = input.shape.len();
        return Err(Error::invalid(format!(
            "input '{}' has a shape of {rank} dimensions, at most {MAX_RANK} are accepted",
            input.name
        )));
    }
    let dims = input.shape.iter().map(|&dim| usize::try_from(dim));
    dims.collect::<std::result::Result<_, _>>().map_err(|_| {
        Error::invalid(format!("input '{}' has shape {:?}, expected dimensions of 0 or more", input.name, input.shape))
    })
}

fn tensor(name: &str, header: Header, buffer: AlignedBuffer) -> Result<DecodedInput> {
    let tensor = Tensor::new(header.datatype, header.shape, Buffer::Aligned(buffer));
    Ok((header.index, tensor.map_err(|error| named(name, &error))?))
}

fn named(input: &str, error: &Error) -> Error {
    Error::new(error.kind(), format!("input '{input}': {}", error.message()))
}

#[cfg(test)]
mod tests;
