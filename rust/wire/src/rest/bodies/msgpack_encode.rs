//! The protocol's response in msgpack: the JSON object with tensors as bytes, and BYTES as a list.

use super::tensors::{BodyWriter, Output};
use penstock_core::{
    BodyChunks, Datatype, Error, Kind, ModelSpec, Parameter, Parameters, ResponsePlan, Result, bytes_tensor,
    copies::{self, Step},
    element_count,
};
use rmp::encode as rmp;

pub(super) fn encode(
    spec: &ModelSpec,
    plan: &ResponsePlan,
    parameters: &Parameters,
    outputs: &[Output<'_>],
) -> Result<BodyChunks> {
    let mut writer = BodyWriter::default();
    let out = &mut writer.out;
    length(out, 3 + usize::from(!plan.id.is_empty()) + usize::from(!parameters.is_empty()), rmp::write_map_len)?;
    text(out, "model_name")?;
    text(out, &spec.name)?;
    text(out, "model_version")?;
    text(out, &spec.version)?;
    if !plan.id.is_empty() {
        text(out, "id")?;
        text(out, &plan.id)?;
    }
    if !parameters.is_empty() {
        text(out, "parameters")?;
        length(out, parameters.len(), rmp::write_map_len)?;
        for (name, value) in parameters {
            text(out, name)?;
            parameter(out, value)?;
        }
    }
    text(out, "outputs")?;
    length(out, outputs.len(), rmp::write_array_len)?;
    for output in outputs {
        write(&mut writer, output)?;
    }
    Ok(writer.finish())
}

fn write(writer: &mut BodyWriter, output: &Output<'_>) -> Result<()> {
    let tensor = output.tensor;
    let out = &mut writer.out;
    length(out, 4, rmp::write_map_len)?;
    text(out, "name")?;
    text(out, &output.spec.name)?;
    text(out, "datatype")?;
    text(out, tensor.datatype().name())?;
    text(out, "shape")?;
    length(out, tensor.shape().len(), rmp::write_array_len)?;
    for &size in tensor.shape() {
        rmp::write_uint(out, size as u64).map_err(|_| failed())?;
    }
    text(out, "data")?;
    if tensor.datatype() != Datatype::Bytes {
        length(out, tensor.buffer().len(), rmp::write_bin_len)?;
        writer.tensor(tensor.buffer());
        return Ok(());
    }
    copies::count(Step::Encode, tensor.as_slice().len());
    length(out, element_count(tensor.shape())?, rmp::write_array_len)?;
    for element in bytes_tensor::elements(tensor.as_slice()) {
        match std::str::from_utf8(element).ok().filter(|_| output.spec.text) {
            Some(element) => text(out, element)?,
            None => rmp::write_bin(out, element).map_err(|_| failed())?,
        }
    }
    Ok(())
}

fn parameter(out: &mut Vec<u8>, value: &Parameter) -> Result<()> {
    match value {
        Parameter::Bool(value) => rmp::write_bool(out, *value).map_err(|_| failed()),
        Parameter::Int(value) => rmp::write_sint(out, *value).map(drop).map_err(|_| failed()),
        Parameter::Uint(value) => rmp::write_uint(out, *value).map(drop).map_err(|_| failed()),
        Parameter::Float(value) => rmp::write_f64(out, *value).map_err(|_| failed()),
        Parameter::String(value) => text(out, value),
        Parameter::List(values) => {
            length(out, values.len(), rmp::write_array_len)?;
            values.iter().try_for_each(|value| parameter(out, value))
        }
    }
}

fn text(out: &mut Vec<u8>, value: &str) -> Result<()> {
    rmp::write_str(out, value).map_err(|_| failed())
}

/// Writes a length, which msgpack has in 32 bits.
fn length<T, E>(
    out: &mut Vec<u8>,
    length: usize,
    write: impl Fn(&mut Vec<u8>, u32) -> std::result::Result<T, E>,
) -> Result<()> {
    let length = u32::try_from(length)
        .map_err(|_| Error::invalid("an output is longer than msgpack allows: accept another format"))?;
    write(out, length).map(drop).map_err(|_| failed())
}

fn failed() -> Error {
    Error::new(Kind::Internal, "the response could not be encoded as msgpack")
}
