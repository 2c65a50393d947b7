//! Encodes infer answers: JSON, and the outputs that were asked for as binary after it.

use super::{
    output_text::{self, Style},
    text,
};
use bytes::Bytes;
use penstock_core::{
    AnswerPlan, Buffer, Chunks, Error, InferResponse, Kind, ModelSpec, Parameter, Parameters, RequestedOutput, Result,
    Tensor,
};

/// Choices of the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EncodeOptions {
    /// `null` for NaN and the infinities, instead of their names, which are not JSON.
    pub strict_json: bool,
}

/// An answer's body.
#[derive(Clone, Debug)]
pub struct Encoded {
    /// The bytes.
    pub chunks: Chunks,
    /// How many of them are JSON, if binary ones follow: `Inference-Header-Content-Length`, and then
    /// the content type is `application/octet-stream`.
    pub json_len: Option<usize>,
}

/// From this size a binary output is sent as it lies in memory; smaller ones are joined.
const OWN_CHUNK: usize = 16 << 10;

/// Encodes an answer as its request's plan has it.
///
/// Large binary outputs are not copied if their buffer is [`Buffer::Shared`].
///
/// # Errors
/// `InvalidInput` for a BYTES output that is not text and was not asked for as binary; `Internal`
/// when the answer has not the model's outputs.
pub fn encode(
    spec: &ModelSpec,
    plan: &AnswerPlan,
    response: &InferResponse,
    options: &EncodeOptions,
) -> Result<Encoded> {
    if response.outputs.len() != spec.outputs.len() {
        return Err(Error::new(
            Kind::Internal,
            format!("the answer has {} outputs, model '{}' has {}", response.outputs.len(), spec.name, spec.outputs.len()),
        ));
    }
    let selected = response.selected(plan);
    let mut out = Vec::with_capacity(estimate(spec, plan, &selected));
    write_head(&mut out, spec, plan, &response.parameters, options.strict_json);
    let style = Style { strict: options.strict_json, base64: plan.base64 };
    for (position, (requested, tensor)) in selected.iter().enumerate() {
        if position > 0 {
            out.push(b',');
        }
        write_output(&mut out, &spec.outputs[requested.index].name, *requested, tensor, style)?;
    }
    out.extend_from_slice(b"]}");
    let json_len = out.len();
    let tensors = selected.iter().filter(|(requested, tensor)| requested.binary && !tensor.buffer().is_empty());
    let has_tail = tensors.clone().next().is_some();
    let chunks = append_tails(out, tensors.map(|(_, tensor)| tensor.buffer()));
    Ok(Encoded { chunks, json_len: has_tail.then_some(json_len) })
}

fn write_head(out: &mut Vec<u8>, spec: &ModelSpec, plan: &AnswerPlan, parameters: &Parameters, strict: bool) {
    out.extend_from_slice(b"{\"model_name\":");
    text::write(out, &spec.name);
    out.extend_from_slice(b",\"model_version\":");
    text::write(out, &spec.version);
    if !plan.id.is_empty() {
        out.extend_from_slice(b",\"id\":");
        text::write(out, &plan.id);
    }
    if !parameters.is_empty() {
        out.extend_from_slice(b",\"parameters\":");
        write_parameters(out, parameters, strict);
    }
    out.extend_from_slice(b",\"outputs\":[");
}

fn write_parameters(out: &mut Vec<u8>, parameters: &Parameters, strict: bool) {
    let mut separator = b'{';
    for (name, value) in parameters {
        out.push(separator);
        separator = b',';
        text::write(out, name);
        out.push(b':');
        match value {
            Parameter::Bool(value) => out.extend_from_slice(if *value { b"true" } else { b"false" }),
            Parameter::Int(value) => write_integer(out, *value),
            Parameter::Uint(value) => write_integer(out, *value),
            Parameter::Float(value) => output_text::double(out, *value, strict),
            Parameter::String(value) => text::write(out, value),
        }
    }
    out.push(b'}');
}

fn write_integer(out: &mut Vec<u8>, value: impl itoa::Integer) {
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

fn write_output(
    out: &mut Vec<u8>,
    name: &str,
    requested: RequestedOutput,
    tensor: &Tensor,
    style: Style,
) -> Result<()> {
    out.extend_from_slice(b"{\"name\":");
    text::write(out, name);
    out.extend_from_slice(b",\"datatype\":\"");
    out.extend_from_slice(tensor.datatype().name().as_bytes());
    out.extend_from_slice(b"\",\"shape\":[");
    for (axis, &size) in tensor.shape().iter().enumerate() {
        if axis > 0 {
            out.push(b',');
        }
        write_integer(out, size);
    }
    if requested.binary {
        out.extend_from_slice(b"],\"parameters\":{\"binary_data_size\":");
        write_integer(out, tensor.buffer().len());
        out.extend_from_slice(b"}}");
    } else {
        out.extend_from_slice(b"],\"data\":");
        output_text::write(out, name, tensor, style)?;
        out.push(b'}');
    }
    Ok(())
}

/// Puts the binary outputs after the JSON: small ones joined, large ones as they are.
fn append_tails<'b>(mut out: Vec<u8>, buffers: impl Iterator<Item = &'b Buffer>) -> Chunks {
    let mut chunks = Chunks::new();
    for buffer in buffers {
        match buffer {
            Buffer::Shared(bytes) if bytes.len() >= OWN_CHUNK => {
                if !out.is_empty() {
                    chunks.push(Bytes::from(std::mem::take(&mut out)));
                }
                chunks.push(bytes.clone());
            }
            _ => out.extend_from_slice(buffer.as_slice()),
        }
    }
    if !out.is_empty() {
        chunks.push(Bytes::from(out));
    }
    chunks
}

/// Bytes of the first chunk, roughly.
fn estimate(spec: &ModelSpec, plan: &AnswerPlan, selected: &[(RequestedOutput, &Tensor)]) -> usize {
    let outputs = selected.iter().map(|(requested, tensor)| {
        let name = spec.outputs[requested.index].name.len();
        let length = tensor.buffer().len();
        let elements = match requested.binary {
            false => output_text::estimate(tensor),
            true if length < OWN_CHUNK || matches!(tensor.buffer(), Buffer::Aligned(_)) => length,
            true => 0,
        };
        elements + name + 96
    });
    80 + spec.name.len() + spec.version.len() + plan.id.len() + outputs.sum::<usize>()
}
