//! Checks a request message against its model and orders its inputs as the model declares them.

use super::{
    contents::{self, TensorHeader},
    field_limits::beyond_rank,
    message_types::TensorMessage,
    parameters::{self, TensorParameters},
    request_decoder::Envelope,
};
use crate::{
    DecodedRequest, Limits,
    generated::inference::model_infer_request::InferRequestedOutputTensor,
    request::bounded,
    request_schema::RequestSchema,
    shared_memory::{self, RegionSlice, SharedInput, SharedOutput},
};
use penstock_core::{
    AlignedBuffer, Buffer, Datatype, DecodedInput, Error, Headers, MAX_RANK, ModelSpec, Protocol, RequestMetadata,
    RequestedOutput, ResponsePlan, Result, Shape, Tensor, aligned_with_capacity, element_count,
};
use smallvec::SmallVec;

type RequestedOutputs = SmallVec<[RequestedOutput; 4]>;

/// The inputs of a request, by where their elements are.
#[derive(Default)]
struct Inputs {
    own: SmallVec<[DecodedInput; 2]>,
    shared: Vec<SharedInput>,
}

/// Decodes a request message and checks it against its model.
///
/// # Errors
/// `InvalidInput` for what the model or the protocol does not allow, `Unsupported` for disabled shared memory. The text
/// names the tensor or parameter, what came and what was expected.
pub fn decode(spec: &ModelSpec, envelope: Envelope, limits: &Limits) -> Result<DecodedRequest> {
    let mut schema = RequestSchema::new(spec, limits.permissive);
    let limits = &Limits { shared_memory: limits.shared_memory && !spec.raw_requests, ..*limits };
    let Envelope { message, raw } = envelope;
    bounded("inputs", message.inputs.len(), limits.max_inputs)?;
    bounded("outputs", message.outputs.len(), limits.max_outputs)?;
    let parameters = parameters::request(message.parameters)?;
    let (outputs, shared_outputs) = requested_outputs(&mut schema, &message.outputs, limits)?;
    let is_raw = !raw.is_empty();
    let inputs = if raw.is_empty() {
        typed_inputs(&mut schema, message.inputs, limits)?
    } else {
        raw_inputs(&mut schema, &message.inputs, raw, limits)?
    };
    let mut request = shared_memory::request(&schema, inputs.own, &inputs.shared, Protocol::Grpc)?;
    request.raw = schema.into_raw_request(is_raw);
    request.schedule = parameters.schedule.finish();
    let plan = ResponsePlan { id: message.id, outputs, ..ResponsePlan::default() };
    if spec.wants_context {
        let (id, parameters) = (plan.id.clone(), parameters.custom);
        request.metadata = Some(Box::new(RequestMetadata {
            id,
            parameters,
            headers: Headers::default(),
            outputs: plan.requested_indices(),
            client: None,
        }));
    }
    let shared = shared_memory::boxed(inputs.shared, shared_outputs);
    Ok(DecodedRequest { request, plan, timeout: parameters.timeout, shared })
}

fn requested_outputs(
    schema: &mut RequestSchema<'_>,
    given: &[InferRequestedOutputTensor],
    limits: &Limits,
) -> Result<(Option<RequestedOutputs>, Vec<SharedOutput>)> {
    let (mut outputs, mut shared) = (RequestedOutputs::new(), Vec::new());
    for (position, output) in given.iter().enumerate() {
        let (index, name) = (schema.output(&output.name, position)?, &output.name);
        let TensorParameters { classes, span, .. } =
            parameters::tensor("output", name, &output.parameters, limits.shared_memory, false)?;
        if classes > 0 {
            schema.check_classes(index)?;
            if span.is_some() {
                return Err(Error::invalid(format!(
                    "output '{name}' has 'classification' together with 'shared_memory_region'"
                )));
            }
        }
        if outputs.iter().any(|earlier| earlier.index == index) {
            return Err(Error::invalid(format!("output '{name}' is requested twice")));
        }
        outputs.push(RequestedOutput { index, binary: false, classes, shared: span.is_some() });
        shared.extend(span.map(|span| SharedOutput { index, span }));
    }
    Ok(((!given.is_empty()).then_some(outputs), shared))
}

fn typed_inputs(schema: &mut RequestSchema<'_>, given: Vec<TensorMessage>, limits: &Limits) -> Result<Inputs> {
    let mut inputs = Inputs::default();
    for (position, input) in given.into_iter().enumerate() {
        let mut header = header(schema, &input, position, limits)?;
        if let Some(span) = header.span.take() {
            inputs.shared.push(shared_input(schema, &input, header, span)?);
            continue;
        }
        let buffer = contents::buffer(&input.name, &header, &input.contents)?;
        inputs.own.push(tensor(&input.name, header, buffer)?);
    }
    Ok(inputs)
}

fn raw_inputs(
    schema: &mut RequestSchema<'_>,
    given: &[TensorMessage],
    raw: SmallVec<[AlignedBuffer; 2]>,
    limits: &Limits,
) -> Result<Inputs> {
    // MLServer's client sends empty contents with raw tensors.
    for input in given.iter().filter(|input| !input.contents.is_empty()) {
        if contents::is_filled(&input.name, &input.contents)? {
            return Err(Error::invalid(format!(
                "input '{}' has contents together with the request's raw_input_contents, expected one of the two",
                input.name
            )));
        }
    }
    let own = given.iter().filter(|input| !is_shared(input));
    // An input without elements may have an empty entry or none.
    let all_have_one = raw.len() == own.clone().count();
    if !all_have_one && raw.len() != own.clone().filter(|input| !input.shape.contains(&0)).count() {
        // An error in an input explains more than the count.
        given.iter().enumerate().try_for_each(|(position, input)| header(schema, input, position, limits).map(drop))?;
        return Err(wrong_entries(&own.collect::<Vec<_>>(), raw.len()));
    }
    let mut raw = raw.into_iter();
    let mut inputs = Inputs::default();
    for (position, input) in given.iter().enumerate() {
        let mut header = header(schema, input, position, limits)?;
        if let Some(span) = header.span.take() {
            // It has no entry: the next one is the next input's.
            inputs.shared.push(shared_input(schema, input, header, span)?);
            continue;
        }
        let entry = if all_have_one || header.count > 0 { raw.next() } else { None };
        inputs.own.push(tensor(&input.name, header, entry.unwrap_or_else(|| aligned_with_capacity(0)))?);
    }
    Ok(inputs)
}

fn is_shared(input: &TensorMessage) -> bool {
    input.parameters.contains_key("shared_memory_region")
}

fn shared_input(
    spec: &ModelSpec,
    input: &TensorMessage,
    header: TensorHeader,
    span: RegionSlice,
) -> Result<SharedInput> {
    if !input.contents.is_empty() {
        let name = &input.name;
        return Err(Error::invalid(format!("input '{name}' has contents together with 'shared_memory_region'")));
    }
    let TensorHeader { index, datatype, shape, .. } = header;
    shared_memory::check_size(&spec.inputs[index], datatype, &shape, (crate::parameters::BYTE_SIZE, span.size))?;
    Ok(SharedInput { index, datatype, shape, span })
}

fn wrong_entries(given: &[&TensorMessage], got: usize) -> Error {
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

fn header(
    schema: &mut RequestSchema<'_>,
    input: &TensorMessage,
    position: usize,
    limits: &Limits,
) -> Result<TensorHeader> {
    let index = schema.input(&input.name, position)?;
    let TensorParameters { span, custom, .. } =
        parameters::tensor("input", &input.name, &input.parameters, limits.shared_memory, schema.raw_requests)?;
    schema.set_input_parameters(position, custom);
    let spec = &**schema;
    let datatype = schema.datatype(&input.datatype).ok_or_else(|| {
        let known = Datatype::ALL.map(Datatype::name).join(", ");
        let expected = match spec.raw_requests {
            true => format!("expected one of {known}"),
            false => format!("model '{}' expects {}", spec.name, spec.inputs[index].datatype),
        };
        Error::invalid(format!("input '{}' has unknown datatype '{}', {expected}", input.name, input.datatype))
    })?;
    let shape = shape(input)?;
    spec.check_input(index, datatype, &shape)?;
    let count = element_count(&shape).map_err(|error| named(&input.name, &error))?;
    Ok(TensorHeader { index, datatype, shape, count, span })
}

fn shape(input: &TensorMessage) -> Result<Shape> {
    if input.shape.len() > MAX_RANK {
        return Err(beyond_rank(&input.name, input.shape.len()));
    }
    let dims = input.shape.iter().map(|&dim| usize::try_from(dim));
    dims.collect::<std::result::Result<_, _>>().map_err(|_| {
        Error::invalid(format!("input '{}' has shape {:?}, expected dimensions of 0 or more", input.name, input.shape))
    })
}

fn tensor(name: &str, header: TensorHeader, buffer: AlignedBuffer) -> Result<DecodedInput> {
    let tensor = Tensor::new(header.datatype, header.shape, Buffer::Aligned(buffer));
    Ok((header.index, tensor.map_err(|error| named(name, &error))?))
}

fn named(input: &str, error: &Error) -> Error {
    Error::new(error.kind(), format!("input '{input}': {}", error.message()))
}

#[cfg(test)]
mod tests;
