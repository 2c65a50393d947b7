//! Models for the tests.

use crate::{DecodedRequest, Limits};
use penstock_core::{Batching, Datatype, Kind, ModelSpec, Result, TensorSpec};

/// A declared tensor.
pub(crate) fn tensor(name: &str, datatype: Datatype, dims: &[Option<usize>]) -> TensorSpec {
    TensorSpec::new(name, datatype, dims.to_vec())
}

/// A model without a batch axis.
pub(crate) fn model(name: &str, inputs: Vec<TensorSpec>, outputs: Vec<TensorSpec>) -> ModelSpec {
    ModelSpec { name: name.into(), inputs, outputs, ..ModelSpec::default() }
}

/// Two inputs of four columns in batches of at most eight.
pub(crate) fn add() -> ModelSpec {
    let row = [Some(4)];
    let inputs = vec![tensor("a", Datatype::Fp32, &row), tensor("b", Datatype::Fp32, &row)];
    let batching = Batching { hold: false, ..Batching::new(8) };
    let spec = model("add", inputs, vec![tensor("sum", Datatype::Fp32, &row)]);
    ModelSpec { batching: Some(batching), ..spec }
}

/// One input `x` and one output `y` of the same datatype and of any dims.
pub(crate) fn identity(datatype: Datatype, dims: &[Option<usize>]) -> ModelSpec {
    model("identity", vec![tensor("x", datatype, dims)], vec![tensor("y", datatype, dims)])
}

/// Decodes a request whose body is all JSON.
pub(crate) fn decode(spec: &ModelSpec, json: &str) -> Result<DecodedRequest> {
    super::begin(spec, json.as_bytes(), 0, &Limits::default())?.finish()
}

/// Error text of a request that must be refused as the client's mistake.
pub(crate) fn refusal(spec: &ModelSpec, json: &str) -> String {
    let error = decode(spec, json).expect_err(json);
    assert_eq!(error.kind(), Kind::InvalidInput, "{json}");
    error.message().to_owned()
}

/// A request for an [`identity`] model.
pub(crate) fn request(datatype: &str, shape: &str, data: &str) -> String {
    format!(r#"{{"inputs":[{{"name":"x","datatype":"{datatype}","shape":{shape},"data":{data}}}]}}"#)
}
