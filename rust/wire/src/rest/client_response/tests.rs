use super::*;
use crate::rest::{EncodeOptions, encode, testing};
use penstock_core::{InferResponse, Kind, ResponsePlan, Timings};
use proptest::prelude::*;
use smallvec::smallvec;

fn decoded(json: &[u8], tail: &[u8], cut: usize) -> Result<ClientResponse> {
    let mut decoder = begin_response(json, tail.len(), &Limits::default())?;
    let (first, second) = tail.split_at(cut.min(tail.len()));
    decoder.write(first)?;
    decoder.write(second)?;
    decoder.finish()
}

fn refused(json: &str, tail: &[u8]) -> String {
    let error = decoded(json.as_bytes(), tail, 0).unwrap_err();
    assert_eq!(error.kind(), Kind::Internal);
    error.message().strip_prefix("the server's answer does not follow the protocol: ").unwrap().to_owned()
}

fn output(rest: &str) -> String {
    format!(r#"{{"outputs":[{{"name":"y",{rest}}}]}}"#)
}

#[test]
fn responses_of_other_servers_are_decoded() {
    let json = br#" {"id":null,"model_version":null,"model_name":"m\u00e9","more":{"a":[1]},"parameters":{"nested":{"a":1},
        "none":null,"k":1,"u":18446744073709551615,"f":1.5,"b":true,"s":"t"},
        "outputs":[{"data":[[1,2],[3,4]],"shape":[2,2],"parameters":{"content_type":"np"},"name":"y","datatype":"INT16"},
        {"name":"t","datatype":"BYTES","shape":[1],"parameters":null,"data":["a"]}]} "#;
    let client_response = decoded(json, &[], 0).unwrap();
    assert_eq!(
        (client_response.id.as_str(), client_response.version.as_str(), client_response.model.as_str()),
        ("", "", "mé")
    );
    let names: Vec<_> = client_response.parameters.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["k", "u", "f", "b", "s"]);
    assert_eq!(client_response.outputs[0].tensor.as_slice(), [1, 0, 2, 0, 3, 0, 4, 0]);
    assert_eq!(client_response.outputs[1].tensor.as_slice(), b"\x01\0\0\0a");
    let base64 = output(r#""datatype":"BYTES","shape":[1],"parameters":{"content_type":"base64"},"data":["/w=="]"#);
    assert_eq!(decoded(base64.as_bytes(), &[], 0).unwrap().outputs[0].tensor.as_slice(), b"\x01\0\0\0\xff");
    let document =
        output(r#""datatype":"BYTES","shape":[],"parameters":{"content_type":"application/json"},"data":["1"]"#);
    assert_eq!(decoded(document.as_bytes(), &[], 0).unwrap().documents, ["y"]);
    let strict = output(r#""datatype":"FP16","shape":[2],"data":[null,1]"#);
    assert_eq!(decoded(strict.as_bytes(), &[], 0).unwrap().outputs[0].tensor.as_slice(), [0, 0x7e, 0, 0x3c]);
    assert!(decoded(br#"{"outputs":[]}"#, &[], 0).unwrap().outputs.is_empty());
}

#[test]
fn invalid_responses_are_errors_with_a_reason() {
    let binary =
        |size: &str| output(&format!(r#""datatype":"FP32","shape":[1],"parameters":{{"binary_data_size":{size}}}"#));
    for (json, tail, expected) in [
        ("{}".to_owned(), &[][..], "it has no 'outputs'"),
        ("[]".to_owned(), &[], "its JSON at byte 0: expected a JSON object"),
        (r#"{"outputs":[]} 1"#.to_owned(), &[], "its JSON at byte 15: expected nothing after the answer's object"),
        (output(r#""datatype":"FP31""#), &[], "unknown datatype 'FP31'"),
        (output(r#""datatype":"FP32","data":[1]"#), &[], "output 'y' has no 'shape'"),
        (output(r#""shape":[1],"data":[1]"#), &[], "output 'y' has no 'datatype'"),
        (output(r#""datatype":"FP32","shape":[1]"#), &[], "output 'y' has neither 'data' nor 'binary_data_size'"),
        (
            output(r#""datatype":"FP32","shape":[2],"data":[1]"#),
            &[],
            "output 'y' has 1 elements in 'data', shape [2] expects 2",
        ),
        (binary("8"), &[0; 8], "output 'y' has 'binary_data_size' 8, datatype FP32 and shape [1] take 4"),
        (binary("-4"), &[0; 4], "'binary_data_size' is not a size"),
        (binary("4"), &[0; 5], "5 bytes follow its JSON, 'binary_data_size' announces 4"),
        (binary("4"), &[], "0 bytes follow its JSON, 'binary_data_size' announces 4"),
        (r#"{"outputs":[{"shape":[1]}]}"#.to_owned(), &[], "an output has no 'name'"),
    ] {
        assert_eq!(refused(&json, tail), expected);
    }
}

#[test]
fn binary_tail_is_read_in_place() {
    let json = output(r#""datatype":"UINT8","shape":[300000],"parameters":{"binary_data_size":300000}"#);
    let mut decoder = begin_response(json.as_bytes(), 300_000, &Limits::default()).unwrap();
    let mut at = 0_u32;
    loop {
        let room = decoder.room();
        if room.is_empty() {
            break;
        }
        let count = room.len().min(70_001);
        for byte in &mut room[..count] {
            *byte = at as u8;
            at += 1;
        }
        decoder.filled(count);
    }
    let client_response = decoder.finish().unwrap();
    let bytes = client_response.outputs[0].tensor.as_slice();
    assert!(bytes.iter().enumerate().all(|(index, byte)| *byte == index as u8));
    assert!((bytes.as_ptr() as usize).is_multiple_of(64));
}

#[test]
fn truncated_body_names_the_output() {
    let json = output(r#""datatype":"UINT8","shape":[3],"parameters":{"binary_data_size":3}"#);
    let mut decoder = begin_response(json.as_bytes(), 3, &Limits::default()).unwrap();
    decoder.write(&[1]).unwrap();
    let error = decoder.finish().unwrap_err();
    assert!(error.message().ends_with("the body ends 2 bytes before the end of output 'y'"), "{error}");
}

proptest! {
    #[test]
    fn responses_of_penstock_are_decoded(values in proptest::collection::vec(any::<u16>(), 0..9), binary: bool, cut in 0usize..20) {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        let tensor = Tensor::new(Datatype::Uint16, smallvec![values.len()], Buffer::Shared(bytes.clone().into())).unwrap();
        let response = InferResponse {
            outputs: smallvec![tensor],
            parameters: vec![("k".to_owned(), Parameter::Int(-3))],
            timings: Timings::default(),
            head: None,
        };
        let spec = testing::identity(Datatype::Uint16, &[None]);
        let plan = ResponsePlan { id: "a".to_owned(), binary, ..ResponsePlan::default() };
        let encoded = encode(&spec, &plan, &response, &EncodeOptions::default()).unwrap();
        let body = encoded.chunks.concat();
        let (json, tail) = body.split_at(encoded.json_len.unwrap_or(body.len()));
        let client_response = decoded(json, tail, cut).unwrap();
        prop_assert_eq!(client_response.outputs[0].tensor.as_slice(), bytes);
        prop_assert_eq!(client_response.parameters, response.parameters);
        prop_assert_eq!(client_response.id, "a");
    }

    #[test]
    fn arbitrary_bytes_never_panic(json in proptest::collection::vec(any::<u8>(), 0..64), tail in 0usize..9) {
        let _ = decoded(&json, &vec![0; tail], 1);
    }
}
