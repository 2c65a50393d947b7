use super::*;
use crate::{
    generated::inference::ModelInferResponse,
    grpc::testing::{input, spec},
};
use penstock_core::{Datatype, Parameter, RequestedOutput, Timings, aligned_zeroed};
use proptest::prelude::*;

/// A response of UINT8 tensors with those bytes, each in shared memory.
fn infer_response(outputs: &[Bytes]) -> (ModelSpec, InferResponse) {
    let declared = outputs.iter().enumerate();
    let spec = spec(declared.map(|(index, _)| input(&format!("o{index}"), Datatype::Uint8, &[-1])).collect());
    let tensors = outputs.iter().map(|bytes| {
        Tensor::new(Datatype::Uint8, [bytes.len()].into_iter().collect(), Buffer::Shared(bytes.clone())).unwrap()
    });
    let outputs = tensors.collect();
    (spec, InferResponse { outputs, parameters: Parameters::new(), timings: Timings::default(), head: None })
}

fn joined(chunks: &BodyChunks) -> Vec<u8> {
    chunks.iter().flat_map(|chunk| chunk.iter().copied()).collect()
}

#[test]
fn empty_output_has_an_empty_raw_entry() {
    let (spec, infer_response) = infer_response(&[Bytes::new(), Bytes::from_static(b"ab"), Bytes::new()]);
    let plan = ResponsePlan::default();
    let message = response(&spec, &plan, &infer_response).unwrap();
    assert_eq!(message.raw_output_contents, [&b""[..], b"ab", b""]);
    assert_eq!(message.outputs.iter().map(|output| &output.shape[..]).collect::<Vec<_>>(), [[0], [2], [0]]);
    assert!(message.outputs.iter().all(|output| output.contents.is_none()));
    let bytes = joined(&encode(&spec, &plan, &infer_response).unwrap());
    assert_eq!(ModelInferResponse::decode(bytes.as_slice()).unwrap(), message);
}

#[test]
fn outputs_of_documents_name_their_content_type() {
    let (mut spec, infer_response) = infer_response(&[Bytes::from_static(b"a"), Bytes::from_static(b"b")]);
    spec.outputs[1].document = true;
    let plan = ResponsePlan::default();
    let message = response(&spec, &plan, &infer_response).unwrap();
    assert!(message.outputs[0].parameters.is_empty());
    assert_eq!(message.outputs[1].parameters, [json_type()].into());
    let bytes = joined(&encode(&spec, &plan, &infer_response).unwrap());
    assert_eq!(ModelInferResponse::decode(bytes.as_slice()).unwrap(), message);
}

#[test]
fn response_names_model_version_id_and_outputs() {
    let (spec, infer_response) = infer_response(&[Bytes::from_static(b"a"), Bytes::from_static(b"b")]);
    let requested = [RequestedOutput::new(1, false)];
    let plan = ResponsePlan { id: "r1".into(), outputs: Some(requested.into_iter().collect()), ..Default::default() };
    let message = response(&spec, &plan, &infer_response).unwrap();
    assert_eq!((&message.model_name[..], &message.model_version[..], &message.id[..]), ("m", "1", "r1"));
    assert_eq!(message.outputs.len(), 1);
    assert_eq!((&message.outputs[0].name[..], &message.outputs[0].datatype[..]), ("o1_out", "UINT8"));
    assert_eq!(message.raw_output_contents, [&b"b"[..]]);
}

#[test]
fn large_tensors_are_sent_without_copies() {
    let (small, large) = (Bytes::from(vec![1; OWN_CHUNK - 1]), Bytes::from(vec![2; OWN_CHUNK]));
    let (spec, infer_response) = infer_response(&[small.clone(), large.clone(), small, large.clone()]);
    let chunks = encode_framed(&spec, &ResponsePlan::default(), &infer_response).unwrap();
    let own: Vec<_> = chunks.iter().filter(|chunk| chunk.as_ptr() == large.as_ptr()).collect();
    assert_eq!(own, [&large, &large]);
    assert_eq!(chunks.len(), 4);
    let message = response(&spec, &ResponsePlan::default(), &infer_response).unwrap();
    assert_eq!(message.raw_output_contents[1].as_ptr(), large.as_ptr());
}

#[test]
fn small_response_is_one_chunk() {
    let (spec, infer_response) = infer_response(&[Bytes::from_static(b"ab")]);
    assert_eq!(encode_framed(&spec, &ResponsePlan::default(), &infer_response).unwrap().len(), 1);
}

#[test]
fn aligned_tensors_are_encoded() {
    let (spec, mut infer_response) = infer_response(&[Bytes::new()]);
    let buffer = Buffer::Aligned(aligned_zeroed(OWN_CHUNK));
    infer_response.outputs[0] = Tensor::new(Datatype::Uint8, [OWN_CHUNK].into_iter().collect(), buffer).unwrap();
    let message = response(&spec, &ResponsePlan::default(), &infer_response).unwrap();
    assert_eq!(message.raw_output_contents[0], vec![0; OWN_CHUNK]);
    let bytes = joined(&encode(&spec, &ResponsePlan::default(), &infer_response).unwrap());
    assert_eq!(ModelInferResponse::decode(bytes.as_slice()).unwrap(), message);
}

#[test]
fn response_over_the_grpc_limit_is_refused() {
    let entry = Bytes::from(vec![0; 1 << 20]);
    let (spec, infer_response) = infer_response(&vec![entry; 2048]);
    let error = encode_framed(&spec, &ResponsePlan::default(), &infer_response).unwrap_err();
    assert_eq!(error.kind(), Kind::TooLarge);
    let text = error.message();
    assert!(text.starts_with("the response has 21475"), "{text}");
    assert!(text.ends_with(" bytes, a gRPC message holds at most 2147483647"), "{text}");
}

#[test]
fn more_outputs_than_declared_are_an_internal_error() {
    let (mut spec, infer_response) = infer_response(&[Bytes::new(), Bytes::new()]);
    spec.outputs.pop();
    let error = response(&spec, &ResponsePlan::default(), &infer_response).unwrap_err();
    assert_eq!(error.kind(), Kind::Internal);
    assert_eq!(error.message(), "model 'm' returned more outputs than it declares");
}

/// A framed message of a stream, encoded by prost.
fn stream_message(infer_response: &ModelInferResponse) -> Vec<u8> {
    let infer_response = Some(infer_response.clone());
    let message = pb::ModelStreamInferResponse { infer_response, ..Default::default() }.encode_to_vec();
    [&prefix(false, message.len()).unwrap()[..], &message].concat()
}

#[test]
fn refused_stream_response_appends_nothing() {
    let (mut spec, infer_response) = infer_response(&[Bytes::new(), Bytes::new()]);
    spec.outputs.pop();
    let mut out = BytesMut::from(&b"before"[..]);
    put_stream_response(&mut out, &spec, &ResponsePlan::default(), &infer_response, false).unwrap_err();
    assert_eq!(&out[..], b"before");
}

fn parameter() -> impl Strategy<Value = Parameter> {
    prop_oneof![
        any::<bool>().prop_map(Parameter::Bool),
        any::<i64>().prop_map(Parameter::Int),
        any::<u64>().prop_map(Parameter::Uint),
        (-1e9..1e9).prop_map(Parameter::Float),
        ".{0,9}".prop_map(Parameter::String),
    ]
}

proptest! {
    #[test]
    fn encoding_agrees_with_prost(
        sizes in proptest::collection::vec(prop_oneof![0usize..300, OWN_CHUNK - 2..OWN_CHUNK + 2], 0..5),
        parameters in proptest::collection::btree_map(".{0,5}", parameter(), 0..4),
        (id, version) in (".{0,200}", "[0-9]{0,3}"),
        scalar: bool,
        last: bool,
    ) {
        let outputs: Vec<Bytes> = sizes.iter().map(|&size| vec![size as u8; size].into()).collect();
        let (mut spec, mut infer_response) = infer_response(&outputs);
        spec.version = version.into();
        infer_response.parameters = parameters.into_iter().collect();
        if scalar {
            spec.outputs.push(input("scalar", Datatype::Bool, &[]));
            let tensor = Tensor::new(Datatype::Bool, Default::default(), Buffer::Aligned(aligned_zeroed(1)));
            infer_response.outputs.push(tensor.unwrap());
        }
        let plan = ResponsePlan { id, ..ResponsePlan::default() };
        let expected = response(&spec, &plan, &infer_response).unwrap().encode_to_vec();
        let bytes = joined(&encode(&spec, &plan, &infer_response).unwrap());
        prop_assert_eq!(&bytes, &expected);

        let framed = joined(&encode_framed(&spec, &plan, &infer_response).unwrap());
        let (prefix, message) = framed.split_at(FRAME_PREFIX);
        prop_assert_eq!(message, expected);
        prop_assert_eq!(prefix[0], 0);
        prop_assert_eq!(u32::from_be_bytes(prefix[1..].try_into().unwrap()) as usize, message.len());

        let mut streamed = BytesMut::from(&b"before"[..]);
        put_stream_response(&mut streamed, &spec, &plan, &infer_response, last).unwrap();
        let length = u32::from_be_bytes(streamed[7..6 + FRAME_PREFIX].try_into().unwrap()) as usize;
        let message = &streamed[6 + FRAME_PREFIX..];
        prop_assert_eq!(length, message.len());
        // The order of a map's entries is free.
        let message = pb::ModelStreamInferResponse::decode(message).unwrap();
        infer_response.parameters.push((FINAL_RESPONSE.to_owned(), Parameter::Bool(last)));
        prop_assert_eq!(message.infer_response, Some(response(&spec, &plan, &infer_response).unwrap()));
    }
}

#[test]
fn message_from_the_handler_is_sent_unchanged() {
    let (spec, mut response) = infer_response(&[]);
    let body = pb::ModelInferResponse { id: "its".to_owned(), ..Default::default() }.encode_to_vec();
    let headers = [("Content-Type", "application/grpc")].into_iter().collect();
    response.head =
        Some(Box::new(ResponseHead { body: Some(body.clone().into()), headers, ..ResponseHead::default() }));
    let plan = ResponsePlan::default();
    let bytes = |chunks: BodyChunks| chunks.concat();
    assert_eq!(bytes(encode(&spec, &plan, &response).unwrap()), body);
    let framed = bytes(encode_framed(&spec, &plan, &response).unwrap());
    assert_eq!(framed[..FRAME_PREFIX], [0, 0, 0, 0, u8::try_from(body.len()).unwrap()]);
    assert_eq!(framed[FRAME_PREFIX..], body);
    let message = super::response(&spec, &plan, &response).unwrap();
    assert_eq!(message.id, "its");
    let mut streamed = BytesMut::new();
    put_stream_response(&mut streamed, &spec, &plan, &response, true).unwrap();
    assert_eq!(&streamed[..], stream_message(&message));
    response.head.as_mut().unwrap().body = Some(Bytes::from_static(b"\xff"));
    let error = super::response(&spec, &plan, &response).unwrap_err();
    assert!(error.message().contains("not a ModelInferResponse"), "{error}");
}
