//! Parameters of requests and tensors: the protocol's and the client's custom ones.

use crate::{
    generated::inference::{InferParameter, infer_parameter::ParameterChoice},
    parameters::{ScheduleParameters, SharedMemoryParameters},
    shared_memory::RegionSlice,
};
use penstock_core::{Error, Parameter, Parameters, Result};
use std::{collections::BTreeMap, time::Duration};

/// Parameters of a message.
pub(super) type Given = BTreeMap<String, InferParameter>;

/// Parameters of a request, by meaning.
#[derive(Debug, Default)]
pub(super) struct RequestParameters {
    /// Parameters without a meaning in the protocol.
    pub(super) custom: Parameters,
    /// The client's timeout.
    pub(super) timeout: Option<Duration>,
    /// Its priority and sequence.
    pub(super) schedule: ScheduleParameters,
}

/// Sorts the parameters of a request.
pub(super) fn request(given: Given) -> Result<RequestParameters> {
    let mut sorted = RequestParameters::default();
    for (name, parameter) in given {
        let value = value(parameter).ok_or_else(|| Error::invalid(format!("parameter '{name}' has no value")))?;
        match name.as_str() {
            "sequence_id" => match value {
                Parameter::Int(_) | Parameter::Uint(_) | Parameter::String(_) => sorted.schedule.set_id(value),
                other => return Err(wrong(&name, &other, "an integer or a string")),
            },
            "sequence_start" => sorted.schedule.start = boolean(&name, &value)?,
            "sequence_end" => sorted.schedule.end = boolean(&name, &value)?,
            "triton_enable_empty_final_response" => drop(boolean(&name, &value)?),
            "priority" => sorted.schedule.priority = unsigned(&name, &value)?,
            "timeout" => {
                // Zero is the protocol's "no timeout".
                let microseconds = unsigned(&name, &value)?;
                sorted.timeout = (microseconds > 0).then(|| Duration::from_micros(microseconds));
            }
            "headers" => {}
            // Of REST; means nothing here.
            _ if name.starts_with("binary_data") => {}
            _ if name.starts_with("triton_") => {
                return Err(Error::invalid(format!(
                    "parameter '{name}' is reserved, expected a name that does not start with 'triton_'"
                )));
            }
            _ => sorted.custom.push((name, value)),
        }
    }
    Ok(sorted)
}

/// Parameters of a tensor, by meaning.
#[derive(Debug, Default)]
pub(super) struct TensorParameters {
    /// `classification`, 0 for none.
    pub(super) classes: u32,
    /// `shared_memory_*`: where its elements are or go.
    pub(super) span: Option<RegionSlice>,
    /// All others, if they are collected.
    pub(super) custom: Parameters,
}

/// Reads the parameters of a tensor; `role` is `input` or `output`. Custom ones are collected only if `keep_custom`.
pub(super) fn tensor(
    role: &str,
    tensor: &str,
    given: &Given,
    shared_memory: bool,
    keep_custom: bool,
) -> Result<TensorParameters> {
    let mut read = TensorParameters::default();
    if given.is_empty() {
        return Ok(read);
    }
    let mut span = SharedMemoryParameters::default();
    let named = |error: Error| Error::new(error.kind(), format!("{role} '{tensor}': {}", error.message()));
    for (name, parameter) in given {
        let value = value(parameter.clone())
            .ok_or_else(|| Error::invalid(format!("parameter '{name}' of {role} '{tensor}' has no value")))?;
        match name.as_str() {
            "classification" if role == "output" => read.classes = classes(name, &value)?,
            _ if SharedMemoryParameters::has(name) => span.take(name, value, shared_memory).map_err(named)?,
            // Of REST; means nothing here.
            _ if name.starts_with("binary_data") => {}
            _ if keep_custom => read.custom.push((name.clone(), value)),
            _ => {}
        }
    }
    read.span = span.finish().map_err(named)?;
    Ok(read)
}

/// Number of classes. Beyond `u32` it exceeds every output.
fn classes(name: &str, value: &Parameter) -> Result<u32> {
    match unsigned(name, value) {
        Ok(classes @ 1..) => Ok(u32::try_from(classes).unwrap_or(u32::MAX)),
        _ => Err(wrong(name, value, "an integer of 1 or more")),
    }
}

/// The message's form of a parameter.
pub(super) fn encoded(parameter: &Parameter) -> InferParameter {
    let choice = match parameter {
        Parameter::Bool(value) => ParameterChoice::BoolParam(*value),
        Parameter::Int(value) => ParameterChoice::Int64Param(*value),
        Parameter::Uint(value) => ParameterChoice::Uint64Param(*value),
        Parameter::Float(value) => ParameterChoice::DoubleParam(*value),
        Parameter::String(value) => ParameterChoice::StringParam(value.clone()),
        // The message has no lists. Only generate requests have list parameters, and their responses are JSON.
        Parameter::List(values) => ParameterChoice::StringParam(format!("{values:?}")),
    };
    InferParameter { parameter_choice: Some(choice) }
}

/// All parameters of a response; those without a value are left out.
pub(super) fn plain(given: Given) -> Parameters {
    given.into_iter().filter_map(|(name, parameter)| Some((name, value(parameter)?))).collect()
}

fn value(parameter: InferParameter) -> Option<Parameter> {
    Some(match parameter.parameter_choice? {
        ParameterChoice::BoolParam(value) => Parameter::Bool(value),
        ParameterChoice::Int64Param(value) => Parameter::Int(value),
        ParameterChoice::Uint64Param(value) => i64::try_from(value).map_or(Parameter::Uint(value), Parameter::Int),
        ParameterChoice::DoubleParam(value) => Parameter::Float(value),
        ParameterChoice::StringParam(value) => Parameter::String(value),
    })
}

fn boolean(name: &str, value: &Parameter) -> Result<bool> {
    match *value {
        Parameter::Bool(value) => Ok(value),
        _ => Err(wrong(name, value, "a bool")),
    }
}

fn unsigned(name: &str, value: &Parameter) -> Result<u64> {
    match *value {
        Parameter::Uint(value) => Some(value),
        Parameter::Int(value) => u64::try_from(value).ok(),
        _ => None,
    }
    .ok_or_else(|| wrong(name, value, "an integer of 0 or more"))
}

fn wrong(name: &str, value: &Parameter, expected: &str) -> Error {
    let given = match value {
        Parameter::Bool(value) => format!("the bool {value}"),
        Parameter::Int(value) => format!("the integer {value}"),
        Parameter::Uint(value) => format!("the integer {value}"),
        Parameter::Float(value) => format!("the double {value}"),
        Parameter::String(_) => "a string".to_owned(),
        Parameter::List(_) => "a list".to_owned(),
    };
    Error::invalid(format!("parameter '{name}' is {given}, expected {expected}"))
}

#[cfg(test)]
mod tests;
