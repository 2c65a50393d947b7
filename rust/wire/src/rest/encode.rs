//! Encodes infer responses: JSON, and binary outputs after it.

use crate::client_types::JSON;
use crate::json::{
    string,
    write::{self, Style},
};
use bytes::Bytes;
use penstock_core::{
    BodyChunks, Buffer, Error, InferResponse, Kind, ModelSpec, Parameter, Parameters, RequestedOutput, ResponsePlan,
    Result, Tensor,
    copies::{self, Step},
};

/// Choices of the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EncodeOptions {
    /// `null` for NaN and the infinities, instead of their names, which are not JSON.
    pub strict_json: bool,
}

/// Body of a response.
#[derive(Clone, Debug)]
pub struct Encoded {
    /// The bytes.
    pub chunks: BodyChunks,
    /// Length of the JSON if binary outputs follow: `Inference-Header-Content-Length`; the content type is then
    /// `application/octet-stream`.
    pub json_len: Option<usize>,
}

/// Binary outputs of at least this size are sent without a copy; smaller ones are joined.
const OWN_CHUNK: usize = 16 << 10;

/// Encodes a response by its request's plan.
///
/// Large binary outputs are not copied if their buffer is [`Buffer::Shared`].
///
/// # Errors
/// `InvalidInput` for a BYTES output that is not text and was not requested as binary; `Internal` when outputs are
/// missing.
pub fn encode(
    spec: &ModelSpec,
    plan: &ResponsePlan,
    response: &InferResponse,
    options: &EncodeOptions,
) -> Result<Encoded> {
    let count = response.head.as_ref().map_or(spec.outputs.len(), |told| told.names.len());
    if response.outputs.len() != count {
        return Err(Error::new(
            Kind::Internal,
            format!("the answer has {} outputs, model '{}' has {}", response.outputs.len(), spec.name, count),
        ));
    }
    let selected = response.selected(plan);
    let name = |index| response.output_name(spec, index).unwrap_or_default();
    let mut out = Vec::with_capacity(estimate(spec, plan, &selected));
    write_head(&mut out, spec, plan, &response.parameters, options.strict_json);
    let style = Style { strict: options.strict_json, base64: plan.base64 };
    for (position, (requested, tensor)) in selected.iter().enumerate() {
        if position > 0 {
            out.push(b',');
        }
        // The text of classes is the server's own, whatever form the request's text had.
        let style = Style { base64: style.base64 && requested.classes == 0, ..style };
        let content_type = (!style.base64 && response.is_document(spec, *requested)).then_some(JSON);
        write_output(&mut out, (name(requested.index), content_type), *requested, tensor, style)?;
    }
    out.extend_from_slice(b"]}");
    let json_len = out.len();
    let tensors = selected.iter().filter(|(requested, tensor)| requested.binary && !tensor.buffer().is_empty());
    let has_tail = tensors.clone().next().is_some();
    let chunks = append_tails(out, tensors.map(|(_, tensor)| tensor.buffer()));
    Ok(Encoded { chunks, json_len: has_tail.then_some(json_len) })
}

fn write_head(out: &mut Vec<u8>, spec: &ModelSpec, plan: &ResponsePlan, parameters: &Parameters, strict: bool) {
    out.extend_from_slice(b"{\"model_name\":");
    string::write(out, &spec.name);
    out.extend_from_slice(b",\"model_version\":");
    string::write(out, &spec.version);
    if !plan.id.is_empty() {
        out.extend_from_slice(b",\"id\":");
        string::write(out, &plan.id);
    }
    if !parameters.is_empty() {
        out.extend_from_slice(b",\"parameters\":");
        write_parameters(out, parameters, strict);
    }
    out.extend_from_slice(b",\"outputs\":[");
}

pub(super) fn write_parameters(out: &mut Vec<u8>, parameters: &Parameters, strict: bool) {
    let mut separator = b'{';
    for (name, value) in parameters {
        out.push(separator);
        separator = b',';
        string::write(out, name);
        out.push(b':');
        write_parameter(out, value, strict);
    }
    out.push(b'}');
}

/// Appends a parameter's value.
pub(super) fn write_parameter(out: &mut Vec<u8>, value: &Parameter, strict: bool) {
    match value {
        Parameter::Bool(value) => out.extend_from_slice(if *value { b"true" } else { b"false" }),
        Parameter::Int(value) => write_integer(out, *value),
        Parameter::Uint(value) => write_integer(out, *value),
        Parameter::Float(value) => write::double(out, *value, strict),
        Parameter::String(value) => string::write(out, value),
        Parameter::List(values) => {
            out.push(b'[');
            for (index, value) in values.iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                write_parameter(out, value, strict);
            }
            out.push(b']');
        }
    }
}

pub(super) fn write_integer(out: &mut Vec<u8>, value: impl itoa::Integer) {
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

fn write_output(
    out: &mut Vec<u8>,
    (name, content_type): (&str, Option<&str>),
    requested: RequestedOutput,
    tensor: &Tensor,
    style: Style,
) -> Result<()> {
    out.extend_from_slice(b"{\"name\":");
    string::write(out, name);
    out.extend_from_slice(b",\"datatype\":\"");
    out.extend_from_slice(tensor.datatype().name().as_bytes());
    out.extend_from_slice(b"\",\"shape\":[");
    for (axis, &size) in tensor.shape().iter().enumerate() {
        if axis > 0 {
            out.push(b',');
        }
        write_integer(out, size);
    }
    out.push(b']');
    let size = (requested.binary && !requested.shared).then(|| tensor.buffer().len());
    if size.is_some() || content_type.is_some() {
        write_form(out, size, content_type);
    }
    if size.is_none() && !requested.shared {
        out.extend_from_slice(b",\"data\":");
        write::write(out, name, tensor, style)?;
    }
    out.push(b'}');
    Ok(())
}

/// Writes the parameters of an output: the size of its bytes after the JSON, and the form of its elements.
fn write_form(out: &mut Vec<u8>, size: Option<usize>, content_type: Option<&str>) {
    out.extend_from_slice(b",\"parameters\":{");
    if let Some(size) = size {
        out.extend_from_slice(b"\"binary_data_size\":");
        write_integer(out, size);
    }
    if let Some(content_type) = content_type {
        out.extend_from_slice(if size.is_some() { b",\"content_type\":" } else { b"\"content_type\":" });
        string::write(out, content_type);
    }
    out.push(b'}');
}

/// Puts the binary outputs after the JSON: small ones joined, large ones as they are.
pub(super) fn append_tails<'b>(mut out: Vec<u8>, buffers: impl Iterator<Item = &'b Buffer>) -> BodyChunks {
    let mut chunks = BodyChunks::new();
    for buffer in buffers {
        match buffer {
            Buffer::Shared(bytes) if bytes.len() >= OWN_CHUNK => {
                if !out.is_empty() {
                    chunks.push(Bytes::from(std::mem::take(&mut out)));
                }
                chunks.push(bytes.clone());
            }
            _ => {
                copies::count(Step::Encode, buffer.len());
                out.extend_from_slice(buffer.as_slice());
            }
        }
    }
    if !out.is_empty() {
        chunks.push(Bytes::from(out));
    }
    chunks
}

/// Bytes of the first chunk, roughly.
fn estimate(spec: &ModelSpec, plan: &ResponsePlan, selected: &[(RequestedOutput, &Tensor)]) -> usize {
    let outputs = selected.iter().map(|(requested, tensor)| {
        let name = spec.outputs.get(requested.index).map_or(32, |output| output.name.len());
        let length = tensor.buffer().len();
        let elements = match requested.binary {
            _ if requested.shared => 0,
            false => write::estimate(tensor),
            true if length < OWN_CHUNK || matches!(tensor.buffer(), Buffer::Aligned(_)) => length,
            true => 0,
        };
        elements + name + 96
    });
    80 + spec.name.len() + spec.version.len() + plan.id.len() + outputs.sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rest::testing::{identity, model, tensor};
    use penstock_core::{Datatype, Timings, aligned_with_capacity, bytes_tensor};
    use smallvec::{SmallVec, smallvec};

    fn infer_response(outputs: Vec<(Datatype, &[usize], Vec<u8>)>) -> InferResponse {
        let outputs = outputs.into_iter().map(|(datatype, shape, bytes)| {
            Tensor::new(datatype, shape.iter().copied().collect(), Buffer::Shared(bytes.into())).unwrap()
        });
        InferResponse { outputs: outputs.collect(), parameters: Vec::new(), timings: Timings::default(), head: None }
    }

    fn framed(elements: &[&[u8]]) -> Vec<u8> {
        let frame = |element: &&[u8]| [&bytes_tensor::prefix(element.len()).unwrap()[..], element].concat();
        elements.iter().flat_map(frame).collect()
    }

    fn json(encoded: Encoded) -> String {
        assert_eq!(encoded.json_len, None);
        String::from_utf8(encoded.chunks.concat()).unwrap()
    }

    fn encode_one(datatype: Datatype, bytes: Vec<u8>, count: usize, strict_json: bool) -> Result<String> {
        let spec = identity(datatype, &[None]);
        let response = infer_response(vec![(datatype, &[count], bytes)]);
        encode(&spec, &ResponsePlan::default(), &response, &EncodeOptions { strict_json }).map(json)
    }

    #[test]
    fn outputs_of_documents_name_their_content_type() {
        let mut spec = identity(Datatype::Bytes, &[None]);
        spec.outputs[0].document = true;
        let response = infer_response(vec![(Datatype::Bytes, &[1], framed(&[b"{}"]))]);
        let encoded = |plan: &ResponsePlan| encode(&spec, plan, &response, &EncodeOptions::default()).unwrap();
        let head =
            r#"{"model_name":"identity","model_version":"1","outputs":[{"name":"y","datatype":"BYTES","shape":[1]"#;
        let text = r#","parameters":{"content_type":"application/json"},"data":["{}"]}]}"#;
        assert_eq!(json(encoded(&ResponsePlan::default())), format!("{head}{text}"));
        let base64 = ResponsePlan { base64: true, ..ResponsePlan::default() };
        assert_eq!(json(encoded(&base64)), format!(r#"{head},"data":["e30="]}}]}}"#));
        let binary = encoded(&ResponsePlan { binary: true, ..ResponsePlan::default() });
        let tail = r#","parameters":{"binary_data_size":6,"content_type":"application/json"}}]}"#;
        assert_eq!(&binary.chunks.concat()[..binary.json_len.unwrap()], format!("{head}{tail}").as_bytes());
    }

    #[test]
    fn response_json_has_a_fixed_key_order() {
        let spec = identity(Datatype::Fp32, &[None]);
        let mut response =
            infer_response(vec![(Datatype::Fp32, &[1, 2], [0.1_f32, 2.0].map(f32::to_le_bytes).concat())]);
        let plain = encode(&spec, &ResponsePlan::default(), &response, &EncodeOptions::default()).unwrap();
        assert_eq!(
            json(plain),
            r#"{"model_name":"identity","model_version":"1","outputs":[{"name":"y","datatype":"FP32","shape":[1,2],"data":[0.1,2.0]}]}"#
        );
        response.parameters = vec![
            ("b".to_owned(), Parameter::Bool(true)),
            ("i".to_owned(), Parameter::Int(-1)),
            ("u".to_owned(), Parameter::Uint(u64::MAX)),
            ("f".to_owned(), Parameter::Float(0.5)),
            ("s\"".to_owned(), Parameter::String("é\n".to_owned())),
        ];
        let plan = ResponsePlan { id: "4\"2".to_owned(), ..ResponsePlan::default() };
        let full = json(encode(&spec, &plan, &response, &EncodeOptions::default()).unwrap());
        assert_eq!(
            full.split_once(",\"outputs\"").unwrap().0,
            r#"{"model_name":"identity","model_version":"1","id":"4\"2","parameters":{"b":true,"i":-1,"u":18446744073709551615,"f":0.5,"s\"":"é\n"}"#
        );
    }

    #[test]
    fn non_finite_numbers_are_words_or_null() {
        let values = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY].map(f32::to_le_bytes).concat();
        let words = encode_one(Datatype::Fp32, values.clone(), 3, false).unwrap();
        assert!(words.ends_with(r#""data":[NaN,Infinity,-Infinity]}]}"#), "{words}");
        let nulls = encode_one(Datatype::Fp32, values, 3, true).unwrap();
        assert!(nulls.ends_with(r#""data":[null,null,null]}]}"#), "{nulls}");
    }

    #[test]
    fn elements_have_their_shortest_text() {
        for (datatype, bytes, count, text) in [
            (Datatype::Bool, vec![0, 1, 7], 3, "[false,true,true]"),
            (Datatype::Uint64, u64::MAX.to_le_bytes().to_vec(), 1, "[18446744073709551615]"),
            (Datatype::Int8, vec![0x80, 0x7F], 2, "[-128,127]"),
            (Datatype::Fp64, 0.1_f64.to_le_bytes().to_vec(), 1, "[0.1]"),
            (Datatype::Fp16, vec![0, 0x3C], 1, "[1.0]"),
            (Datatype::Bf16, vec![0xC0, 0xBF], 1, "[-1.5]"),
            (Datatype::Fp32, Vec::new(), 0, "[]"),
            (Datatype::Bytes, framed(&[b"", "h\"é".as_bytes()]), 2, r#"["","h\"é"]"#),
        ] {
            let text = format!("\"data\":{text}}}]}}");
            let encoded = encode_one(datatype, bytes, count, false).unwrap();
            assert!(encoded.ends_with(&text), "{encoded}");
        }
    }

    #[test]
    fn non_utf8_bytes_are_refused_or_base64() {
        let error = encode_one(Datatype::Bytes, framed(&[b"a", b"\xff"]), 2, false).unwrap_err();
        assert_eq!(error.kind(), Kind::InvalidInput);
        assert_eq!(
            error.message(),
            "element 1 of output 'y' is not UTF-8 and cannot be sent as JSON, request the output as binary data"
        );
        let response = infer_response(vec![(Datatype::Bytes, &[3], framed(&[b"", b"\xff", b"abc"]))]);
        let plan = ResponsePlan { base64: true, ..ResponsePlan::default() };
        let spec = identity(Datatype::Bytes, &[None]);
        let encoded = json(encode(&spec, &plan, &response, &EncodeOptions::default()).unwrap());
        assert!(encoded.ends_with(r#""shape":[3],"data":["","/w==","YWJj"]}]}"#), "{encoded}");
    }

    #[test]
    fn response_plan_selects_and_orders_outputs() {
        let outputs = vec![tensor("o1", Datatype::Uint8, &[None]), tensor("o2", Datatype::Uint8, &[None])];
        let spec = model("two", Vec::new(), outputs);
        let response = infer_response(vec![(Datatype::Uint8, &[1], vec![1]), (Datatype::Uint8, &[2], vec![2, 3])]);
        let outputs = smallvec![RequestedOutput::new(1, true), RequestedOutput::new(0, false)];
        let plan = ResponsePlan { outputs: Some(outputs), ..ResponsePlan::default() };
        let encoded = encode(&spec, &plan, &response, &EncodeOptions::default()).unwrap();
        let body = encoded.chunks.concat();
        let (head, tail) = body.split_at(encoded.json_len.unwrap());
        assert_eq!(tail, [2, 3]);
        assert!(head.ends_with(
            br#""outputs":[{"name":"o2","datatype":"UINT8","shape":[2],"parameters":{"binary_data_size":2}},{"name":"o1","datatype":"UINT8","shape":[1],"data":[1]}]}"#
        ));
    }

    #[test]
    fn empty_binary_outputs_need_no_tail() {
        let spec = identity(Datatype::Fp32, &[None]);
        let plan = ResponsePlan { binary: true, ..ResponsePlan::default() };
        let response = infer_response(vec![(Datatype::Fp32, &[0], Vec::new())]);
        let encoded = json(encode(&spec, &plan, &response, &EncodeOptions::default()).unwrap());
        assert!(encoded.ends_with(r#""shape":[0],"parameters":{"binary_data_size":0}}]}"#), "{encoded}");
    }

    #[test]
    fn large_outputs_are_not_copied_and_small_ones_are_joined() {
        let names = ["small", "large", "last"].map(|name| tensor(name, Datatype::Uint8, &[None])).to_vec();
        let spec = model("three", Vec::new(), names);
        let large = Bytes::from(vec![7; OWN_CHUNK]);
        let mut response = infer_response(vec![
            (Datatype::Uint8, &[2], vec![1, 2]),
            (Datatype::Uint8, &[0], vec![]),
            (Datatype::Uint8, &[1], vec![9]),
        ]);
        let shared = Tensor::new(Datatype::Uint8, smallvec![OWN_CHUNK], Buffer::Shared(large.clone())).unwrap();
        response.outputs[1] = shared;
        let plan = ResponsePlan { binary: true, ..ResponsePlan::default() };
        let encoded = encode(&spec, &plan, &response, &EncodeOptions::default()).unwrap();
        assert_eq!(encoded.chunks.iter().map(Bytes::len).skip(1).collect::<Vec<_>>(), [OWN_CHUNK, 1]);
        assert_eq!(encoded.chunks[1].as_ptr(), large.as_ptr());
        assert_eq!(encoded.chunks[0][encoded.json_len.unwrap()..], [1, 2]);
        let mut own = aligned_with_capacity(OWN_CHUNK);
        own.extend_from_slice(&large);
        response.outputs[1] = Tensor::new(Datatype::Uint8, smallvec![OWN_CHUNK], Buffer::Aligned(own)).unwrap();
        let copied = encode(&spec, &plan, &response, &EncodeOptions::default()).unwrap();
        assert_eq!(copied.chunks.concat(), encoded.chunks.concat());
    }

    #[test]
    fn response_without_the_declared_outputs_is_an_internal_error() {
        let response =
            InferResponse { outputs: SmallVec::new(), parameters: Vec::new(), timings: Timings::default(), head: None };
        let spec = identity(Datatype::Fp32, &[None]);
        let error = encode(&spec, &ResponsePlan::default(), &response, &EncodeOptions::default()).unwrap_err();
        assert_eq!(error.kind(), Kind::Internal);
        assert_eq!(error.message(), "the answer has 0 outputs, model 'identity' has 1");
    }
}
