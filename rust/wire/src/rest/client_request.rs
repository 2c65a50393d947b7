//! Makes a client's infer request: JSON, and binary tensors after it.

use super::encode::{Encoded, append_tails, write_integer, write_parameters};
use crate::json::{
    string,
    write::{self, Style},
};
use crate::{ClientRequest, NamedTensor};
use penstock_core::{Datatype, Error, Result, bytes_tensor};

/// Encodes the body of an infer request.
///
/// With `binary`, tensors follow the JSON, and outputs are requested in the same form; large tensors are not copied.
/// Without it, everything is JSON, for servers without the binary extension.
///
/// # Errors
/// `InvalidInput` for a BYTES element that is not text, without `binary`.
pub fn encode_request(call: &ClientRequest, binary: bool) -> Result<Encoded> {
    let mut out = Vec::with_capacity(192 + call.inputs.len() * 96);
    out.push(b'{');
    if !call.id.is_empty() {
        out.extend_from_slice(b"\"id\":");
        string::write(&mut out, &call.id);
        out.push(b',');
    }
    write_request_parameters(&mut out, call, binary);
    out.extend_from_slice(b"\"inputs\":[");
    for (position, input) in call.inputs.iter().enumerate() {
        if position > 0 {
            out.push(b',');
        }
        write_input(&mut out, input, binary)?;
    }
    out.push(b']');
    write_outputs(&mut out, call, binary);
    out.push(b'}');
    let json_len = out.len();
    let tails = call.inputs.iter().map(|input| input.tensor.buffer());
    let chunks = append_tails(out, tails.filter(|buffer| binary && !buffer.is_empty()));
    Ok(Encoded { chunks, json_len: binary.then_some(json_len) })
}

fn write_request_parameters(out: &mut Vec<u8>, call: &ClientRequest, binary: bool) {
    if call.parameters.is_empty() && !binary {
        return;
    }
    out.extend_from_slice(b"\"parameters\":");
    if !call.parameters.is_empty() {
        write_parameters(out, &call.parameters, false);
        // The closing brace: there is one more.
        out.pop();
    }
    if binary {
        out.push(if call.parameters.is_empty() { b'{' } else { b',' });
        out.extend_from_slice(b"\"binary_data_output\":true");
    }
    out.extend_from_slice(b"},");
}

fn write_input(out: &mut Vec<u8>, input: &NamedTensor, binary: bool) -> Result<()> {
    let NamedTensor { name, tensor } = input;
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
    if binary {
        out.extend_from_slice(b"],\"parameters\":{\"binary_data_size\":");
        write_integer(out, tensor.buffer().len());
        out.extend_from_slice(b"}}");
        return Ok(());
    }
    if tensor.datatype() == Datatype::Bytes {
        let elements = bytes_tensor::elements(tensor.as_slice());
        if let Some(index) = elements.map(std::str::from_utf8).position(|text| text.is_err()) {
            return Err(Error::invalid(format!(
                "element {index} of input '{name}' is not UTF-8 and cannot be sent as JSON, send it as binary data"
            )));
        }
    }
    out.extend_from_slice(b"],\"data\":");
    write::write(out, name, tensor, Style { strict: false, base64: false })?;
    out.push(b'}');
    Ok(())
}

fn write_outputs(out: &mut Vec<u8>, call: &ClientRequest, binary: bool) {
    for (position, name) in call.outputs.iter().enumerate() {
        out.extend_from_slice(if position == 0 { b",\"outputs\":[{\"name\":" } else { b",{\"name\":" });
        string::write(out, name);
        if binary {
            out.extend_from_slice(b",\"parameters\":{\"binary_data\":true}");
        }
        out.push(b'}');
    }
    if !call.outputs.is_empty() {
        out.push(b']');
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Limits, rest};
    use penstock_core::{Buffer, ModelSpec, Parameter, Tensor, TensorSpec};
    use proptest::prelude::*;
    use smallvec::smallvec;

    fn call(datatype: Datatype, count: usize, bytes: Vec<u8>) -> ClientRequest {
        let tensor = Tensor::new(datatype, smallvec![count], Buffer::Shared(bytes.into())).unwrap();
        ClientRequest {
            model: "m".to_owned(),
            inputs: smallvec![NamedTensor { name: "x".to_owned(), tensor }],
            ..ClientRequest::default()
        }
    }

    fn spec(datatype: Datatype) -> ModelSpec {
        let tensor = TensorSpec::new("x", datatype, vec![None]);
        ModelSpec { inputs: vec![tensor.clone()], outputs: vec![tensor], wants_context: true, ..ModelSpec::default() }
    }

    #[test]
    fn request_json_has_a_fixed_key_order() {
        let mut call = call(Datatype::Uint8, 2, vec![7, 8]);
        let json =
            |call: &ClientRequest| String::from_utf8(encode_request(call, false).unwrap().chunks.concat()).unwrap();
        assert_eq!(json(&call), r#"{"inputs":[{"name":"x","datatype":"UINT8","shape":[2],"data":[7,8]}]}"#);
        call.id = "a\"".to_owned();
        call.outputs = vec!["y".to_owned(), "z".to_owned()];
        call.parameters = vec![("k".to_owned(), Parameter::Int(1)), ("b".to_owned(), Parameter::Bool(true))];
        assert_eq!(
            json(&call),
            r#"{"id":"a\"","parameters":{"k":1,"b":true},"inputs":[{"name":"x","datatype":"UINT8","shape":[2],"data":[7,8]}],"outputs":[{"name":"y"},{"name":"z"}]}"#
        );
        let binary = encode_request(&call, true).unwrap();
        let body = binary.chunks.concat();
        let (head, tail) = body.split_at(binary.json_len.unwrap());
        assert_eq!(tail, [7, 8]);
        assert_eq!(
            std::str::from_utf8(head).unwrap(),
            r#"{"id":"a\"","parameters":{"k":1,"b":true,"binary_data_output":true},"inputs":[{"name":"x","datatype":"UINT8","shape":[2],"parameters":{"binary_data_size":2}}],"outputs":[{"name":"y","parameters":{"binary_data":true}},{"name":"z","parameters":{"binary_data":true}}]}"#
        );
    }

    #[test]
    fn large_inputs_are_not_copied() {
        let bytes = bytes::Bytes::from(vec![1; 64 << 10]);
        let mut call = call(Datatype::Uint8, 0, vec![]);
        call.inputs[0].tensor =
            Tensor::new(Datatype::Uint8, smallvec![64 << 10], Buffer::Shared(bytes.clone())).unwrap();
        let encoded = encode_request(&call, true).unwrap();
        assert_eq!(encoded.chunks[1].as_ptr(), bytes.as_ptr());
    }

    #[test]
    fn non_utf8_bytes_require_binary_data() {
        let call = call(Datatype::Bytes, 1, vec![1, 0, 0, 0, 0xff]);
        assert!(encode_request(&call, true).is_ok());
        assert_eq!(
            encode_request(&call, false).unwrap_err().message(),
            "element 0 of input 'x' is not UTF-8 and cannot be sent as JSON, send it as binary data"
        );
    }

    proptest! {
        #[test]
        fn encoded_requests_decode_on_the_server(values in proptest::collection::vec(any::<i32>(), 0..9), binary: bool) {
            let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
            let mut call = call(Datatype::Int32, values.len(), bytes.clone());
            call.parameters = vec![("k".to_owned(), Parameter::String("é\"\n".to_owned()))];
            let encoded = encode_request(&call, binary).unwrap();
            let body = encoded.chunks.concat();
            let (json, tail) = body.split_at(encoded.json_len.unwrap_or(body.len()));
            let spec = spec(Datatype::Int32);
            let mut decoder = rest::begin(&spec, json, tail.len(), &Limits::default()).unwrap();
            decoder.write(tail).unwrap();
            let decoded = decoder.finish().unwrap();
            prop_assert_eq!(decoded.request.inputs[0].as_ref().unwrap().as_slice(), bytes);
            prop_assert_eq!(&decoded.request.metadata.unwrap().parameters, &call.parameters);
            prop_assert_eq!(decoded.plan.binary, binary);
        }
    }
}
