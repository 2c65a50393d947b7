//! Example requests, from a model's declaration.

use super::site::max_rows;
use penstock_core::{Datatype, ModelSpec, TensorSpec};
use serde_json::{Value, json};

/// Size of a variable axis.
const VARIABLE: usize = 2;

/// Maximum number of elements of an example.
const MOST_ELEMENTS: usize = 256;

/// Returns an inference request as JSON; `None` if it is too long or has documents without an example.
///
/// Numbers are 1, texts "text". Optional inputs are left out, unless one is needed for the number of rows.
pub(super) fn request(spec: &ModelSpec) -> Option<Value> {
    let mut written = Vec::new();
    for input in sent(spec)? {
        let shape = shape(input, max_rows(spec));
        let data = vec![element(input)?; shape.iter().product()];
        written.push(json!({"name": &*input.name, "datatype": input.datatype.name(), "shape": shape, "data": data}));
    }
    Some(with_sequence(spec, json!({"inputs": written})))
}

/// Adds the parameters of a whole sequence, if the model has sequences.
pub(super) fn with_sequence(spec: &ModelSpec, mut request: Value) -> Value {
    if spec.sequences.is_some() {
        request["parameters"] = json!({"sequence_id": 1, "sequence_start": true, "sequence_end": true});
    }
    request
}

/// The inputs that an example has; `None` if they are too long for one.
pub(super) fn sent(spec: &ModelSpec) -> Option<Vec<&TensorSpec>> {
    let mut inputs: Vec<&TensorSpec> = spec.inputs.iter().filter(|input| !input.optional).collect();
    if inputs.is_empty() && spec.batching.is_some() {
        inputs.extend(spec.inputs.first());
    }
    let mut left = MOST_ELEMENTS;
    for input in &inputs {
        let mut shape = shape(input, max_rows(spec)).into_iter();
        left = left.checked_sub(shape.try_fold(1_usize, usize::checked_mul)?)?;
    }
    Some(inputs)
}

/// A shape of one row, where there is a batch axis of at most `rows`.
pub(super) fn shape(tensor: &TensorSpec, rows: Option<usize>) -> Vec<usize> {
    let batch = rows.map(|_| 1);
    batch.into_iter().chain(tensor.dims.iter().map(|dim| dim.unwrap_or(VARIABLE))).collect()
}

/// An element; `None` for a document without an example.
pub(super) fn element(tensor: &TensorSpec) -> Option<Value> {
    match (&tensor.described, tensor.datatype) {
        (Some(document), _) => document.example.as_deref().map(Value::from),
        (None, Datatype::Bool) => Some(true.into()),
        (None, Datatype::Bytes) => Some("text".into()),
        (None, _) => Some(1.into()),
    }
}
