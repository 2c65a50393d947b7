use super::*;
use crate::{
    generated::{inference as pb, inference::model_infer_response::InferOutputTensor},
    grpc::{
        encode,
        testing::{input, spec},
    },
};
use bytes::Bytes;
use penstock_core::{InferResponse, Parameter, ResponsePlan, Timings, bytes_tensor};
use proptest::prelude::*;
use smallvec::smallvec;

fn decoded(bytes: &[u8], cut: usize) -> Result<ClientResponse> {
    let mut decoder = ResponseDecoder::new(bytes.len(), &Limits::default());
    let (first, second) = bytes.split_at(cut.min(bytes.len()));
    decoder.push(first)?;
    decoder.push(second)?;
    decoder.finish()
}

fn refused(message: &pb::ModelInferResponse) -> String {
    let error = decoded(&message.encode_to_vec(), 0).unwrap_err();
    assert_eq!(error.kind(), Kind::Internal);
    error.message().strip_prefix("the server's answer does not follow the protocol: ").unwrap().to_owned()
}

fn output(datatype: &str, shape: &[i64]) -> InferOutputTensor {
    InferOutputTensor {
        name: "y".to_owned(),
        datatype: datatype.to_owned(),
        shape: shape.to_vec(),
        ..InferOutputTensor::default()
    }
}

fn message(outputs: Vec<InferOutputTensor>, raw: &[&[u8]]) -> pb::ModelInferResponse {
    let raw_output_contents = raw.iter().map(|entry| Bytes::copy_from_slice(entry)).collect();
    pb::ModelInferResponse { outputs, raw_output_contents, ..Default::default() }
}

#[test]
fn responses_of_penstock_are_decoded() {
    let mut spec = spec(vec![input("x", Datatype::Fp32, &[-1]), input("t", Datatype::Bytes, &[-1])]);
    spec.outputs[1].document = true;
    let text = [&bytes_tensor::prefix(2).unwrap()[..], b"ab"].concat();
    let outputs = smallvec![
        Tensor::new(Datatype::Fp32, smallvec![2], Buffer::Shared(vec![1; 8].into())).unwrap(),
        Tensor::new(Datatype::Bytes, smallvec![1], Buffer::Shared(text.clone().into())).unwrap(),
    ];
    let parameters = vec![("k".to_owned(), Parameter::Float(0.5)), ("s".to_owned(), Parameter::Bool(true))];
    let response = InferResponse { outputs, parameters, timings: Timings::default(), head: None };
    let plan = ResponsePlan { id: "7".to_owned(), ..ResponsePlan::default() };
    let bytes = encode(&spec, &plan, &response).unwrap().concat();
    for cut in 0..bytes.len() {
        let client_response = decoded(&bytes, cut).unwrap();
        assert_eq!(
            (client_response.model.as_str(), client_response.version.as_str(), client_response.id.as_str()),
            ("m", "1", "7")
        );
        assert_eq!(client_response.documents, ["t_out"]);
        assert_eq!(client_response.flag("s"), Some(true));
        assert_eq!(client_response.flag("k"), None);
        assert_eq!(client_response.outputs.iter().map(|o| o.name.as_str()).collect::<Vec<_>>(), ["x_out", "t_out"]);
        assert_eq!(client_response.outputs[0].tensor.as_slice(), [1; 8]);
        assert_eq!(client_response.outputs[1].tensor.as_slice(), text);
        assert!((client_response.outputs[0].tensor.as_slice().as_ptr() as usize).is_multiple_of(64));
    }
}

#[test]
fn typed_contents_of_other_servers_are_decoded() {
    let contents = pb::InferTensorContents { fp32_contents: vec![1.0, 2.0], ..Default::default() };
    let typed = InferOutputTensor { contents: Some(contents), ..output("FP32", &[2]) };
    for raw in [&[][..], &[&b""[..]]] {
        let client_response = decoded(&message(vec![typed.clone()], raw).encode_to_vec(), 0).unwrap();
        assert_eq!(client_response.outputs[0].tensor.as_slice(), [1_f32, 2.0].map(f32::to_le_bytes).concat());
    }
    let empty = message(vec![output("FP32", &[0]), output("INT8", &[1])], &[b"\x05"]);
    let client_response = decoded(&empty.encode_to_vec(), 0).unwrap();
    assert_eq!(client_response.outputs[1].tensor.as_slice(), [5]);
}

#[test]
fn invalid_responses_are_errors_with_a_reason() {
    for (outputs, raw, expected) in [
        (vec![output("FP31", &[1])], vec![&b"abcd"[..]], "output 'y' has unknown datatype 'FP31'"),
        (vec![output("FP32", &[-1])], vec![b"abcd"], "output 'y' has the impossible shape [-1]"),
        (
            vec![output("FP32", &[2])],
            vec![b"abcd"],
            "output 'y': got 4 bytes, expected 8 for datatype FP32 and shape [2]",
        ),
        (vec![output("INT8", &[1])], vec![b"a", b"b"], "it has 2 entries in raw_output_contents for 1 outputs"),
        (
            vec![output("FP32", &[1])],
            vec![],
            "output 'y' has no data, expected 1 elements of FP32 in contents.fp32_contents or raw_output_contents",
        ),
    ] {
        assert_eq!(refused(&message(outputs, &raw)), expected);
    }
}

#[test]
fn stream_error_is_a_handler_error() {
    let message = pb::ModelStreamInferResponse { error_message: "no".to_owned(), infer_response: None };
    let error = decode_stream_response(message.encode_to_vec().into()).unwrap_err();
    assert_eq!((error.kind(), error.message()), (Kind::Handler, "no"));
    let whole = message_of(vec![output("INT8", &[1])]);
    assert_eq!(decode_stream_response(whole.encode_to_vec().into()).unwrap().outputs[0].tensor.as_slice(), b"a");
}

fn message_of(outputs: Vec<InferOutputTensor>) -> pb::ModelStreamInferResponse {
    let raw = vec![&b"a"[..]; outputs.len()];
    pb::ModelStreamInferResponse { infer_response: Some(message(outputs, &raw)), ..Default::default() }
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..96), cut in 0usize..96) {
        let whole = decoded(&bytes, 0);
        prop_assert_eq!(whole.is_ok(), decoded(&bytes, cut).is_ok());
    }

    #[test]
    fn tensors_round_trip_over_any_chunk_boundary(raw in proptest::collection::vec(any::<u8>(), 0..64), cut in 0usize..128) {
        let bytes = message(vec![output("UINT8", &[raw.len() as i64])], &[&raw]).encode_to_vec();
        let client_response = decoded(&bytes, cut).unwrap();
        prop_assert_eq!(client_response.outputs[0].tensor.as_slice(), raw);
    }
}
