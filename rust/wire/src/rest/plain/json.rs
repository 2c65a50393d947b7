//! Plain JSON: an object of values by input name, answered with the value of the output.

use super::decoded;
use crate::{
    DecodedRequest, Limits,
    json::{reader::Reader, write},
    request_schema::refuse_raw_request_model,
    rest::{
        EncodeOptions,
        values::{Table, Writers},
    },
};
use penstock_core::{InferResponse, ModelSpec, Result};

/// Decodes a request: an object of values by input name. With batching, values begin with the batch axis.
///
/// ```
/// use penstock_core::{Datatype, ModelSpec, TensorSpec};
/// use penstock_wire::{Limits, rest::plain};
///
/// let document = TensorSpec { document: true, ..TensorSpec::new("rows", Datatype::Bytes, vec![]) };
/// let spec = ModelSpec { inputs: vec![document], ..ModelSpec::default() };
/// let request = plain::decode(&spec, br#"{"rows": [{"alcohol": 9.4}]}"#, &Limits::default())?.request;
/// let text = request.inputs[0].as_ref().unwrap();
/// assert_eq!(&text.as_slice()[4..], br#"[{"alcohol": 9.4}]"#);
/// # Ok::<(), penstock_core::Error>(())
/// ```
///
/// # Errors
/// `InvalidInput` that says where the JSON is wrong, or names the input, what it has and what it expects.
pub fn decode(spec: &ModelSpec, json: &[u8], limits: &Limits) -> Result<DecodedRequest> {
    refuse_raw_request_model(spec, "plain JSON is not supported")?;
    let mut table = Table::new(spec, limits, spec.batching.is_some());
    let mut reader = Reader::new(json);
    table.read_named(&mut reader)?;
    if reader.peek().is_some() {
        return Err(reader.fault("nothing after the request's object").into());
    }
    Ok(decoded(spec, table.finish(None)?))
}

/// Encodes a response: the value of the only output, or an object of the values of several by output name.
///
/// BYTES are strings, or `{"b64": text}` if they are not UTF-8.
///
/// # Errors
/// `Internal` when outputs are missing; `Handler` for a document that is not JSON.
pub fn encode(spec: &ModelSpec, response: &InferResponse, options: &EncodeOptions) -> Result<Vec<u8>> {
    let mut out = Vec::with_capacity(16 + response.outputs.iter().map(write::estimate).sum::<usize>());
    append(&mut out, spec, response, options)?;
    Ok(out)
}

/// Appends what [`encode`] returns.
///
/// # Errors
/// Those of [`encode`].
pub(crate) fn append(
    out: &mut Vec<u8>,
    spec: &ModelSpec,
    response: &InferResponse,
    options: &EncodeOptions,
) -> Result<()> {
    Writers::new(spec, response, *options)?.write(out, false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rest::testing::{identity, model, tensor};
    use bytes::Bytes;
    use penstock_core::{Batching, Buffer, Datatype, Kind, Tensor, TensorSpec, Timings, bytes_tensor};
    use smallvec::smallvec;

    fn read(spec: &ModelSpec, json: &str) -> Result<DecodedRequest> {
        decode(spec, json.as_bytes(), &Limits::default())
    }

    fn refused(spec: &ModelSpec, json: &str) -> String {
        let error = read(spec, json).expect_err(json);
        assert_eq!(error.kind(), Kind::InvalidInput, "{json}");
        error.message().to_owned()
    }

    fn documents(batched: bool) -> ModelSpec {
        let rows = TensorSpec { document: true, ..tensor("rows", Datatype::Bytes, &[]) };
        let limit = TensorSpec { optional: true, ..tensor("limit", Datatype::Int64, &[]) };
        let spec = model("wines", vec![rows, limit], Vec::new());
        if batched {
            let inputs = vec![spec.inputs[0].clone()];
            return ModelSpec { batching: Some(Batching::new(8)), inputs, ..spec };
        }
        spec
    }

    fn texts(request: &DecodedRequest) -> Vec<&str> {
        let tensor = request.request.inputs[0].as_ref().unwrap();
        bytes_tensor::elements(tensor.as_slice()).map(|element| std::str::from_utf8(element).unwrap()).collect()
    }

    #[test]
    fn documents_are_kept_as_they_are_written() {
        let request = read(&documents(false), r#" {"rows": [ {"a":1.50} , null ], "limit": 3} "#).unwrap();
        assert_eq!(texts(&request), [r#"[ {"a":1.50} , null ]"#]);
        assert!(request.request.inputs[1].is_some());
        let request = read(&documents(false), r#"{"limit": null, "rows": "x"}"#).unwrap();
        assert_eq!((texts(&request), request.request.inputs[1].is_none()), (vec!["\"x\""], true));
    }

    #[test]
    fn batched_documents_are_elements() {
        let request = read(&documents(true), r#"{"rows": [{"a":1},{"a":2},[]]}"#).unwrap();
        assert_eq!((texts(&request), request.request.rows), (vec![r#"{"a":1}"#, r#"{"a":2}"#, "[]"], 3));
    }

    #[test]
    fn invalid_requests_are_refused_by_name() {
        let (wines, numbers) = (documents(false), identity(Datatype::Fp32, &[Some(2)]));
        for (spec, json, message) in [
            (
                &wines,
                r#"{"rows":[1],"rwos":[]}"#,
                "unexpected input 'rwos' for model 'wines', expected 'rows', 'limit'",
            ),
            (&wines, r#"{"limit":1}"#, "input 'rows' is missing, model 'wines' expects 'rows', 'limit'"),
            (&wines, r#"{"rows":[],"rows":[]}"#, "input 'rows' is given twice"),
            (&wines, "[]", "expected an object with the inputs of model 'wines': 'rows', 'limit'"),
            (&wines, r#"{"rows":[1,}"#, "request JSON at byte 11: expected a JSON value"),
            (&wines, r#"{"rows":1} 2"#, "request JSON at byte 11: expected nothing after the request's object"),
            (&numbers, r#"{"x":[1,2,3]}"#, "input 'x' has shape [3], model 'identity' expects [2]"),
        ] {
            assert_eq!(refused(spec, json), message);
        }
    }

    #[test]
    fn only_output_is_answered_alone_and_several_by_name() {
        let document = TensorSpec { document: true, ..tensor("output", Datatype::Bytes, &[]) };
        let n = tensor("n", Datatype::Int32, &[None]);
        let text = |shape| {
            Tensor::new(Datatype::Bytes, shape, Buffer::Shared(Bytes::from_static(b"\x07\0\0\0{\"a\":1}"))).unwrap()
        };
        let numbers =
            Tensor::new(Datatype::Int32, smallvec![1], Buffer::Shared(Bytes::from_static(b"\x05\0\0\0"))).unwrap();
        let written = |outputs: Vec<TensorSpec>, tensors: Vec<Tensor>| {
            let spec = model("m", Vec::new(), outputs);
            let response = InferResponse {
                outputs: tensors.into_iter().collect(),
                parameters: Vec::new(),
                timings: Timings::default(),
                head: None,
            };
            String::from_utf8(encode(&spec, &response, &EncodeOptions::default()).unwrap()).unwrap()
        };
        assert_eq!(written(vec![document.clone()], vec![text(smallvec![])]), r#"{"a":1}"#);
        assert_eq!(written(vec![n.clone()], vec![numbers.clone()]), "[5]");
        assert_eq!(written(vec![document, n], vec![text(smallvec![]), numbers]), r#"{"output":{"a":1},"n":[5]}"#);
    }
}
