use super::{
    BodyLimits, Format, RequestOptions, check_response, decode, encode,
    msgpack_reader::{Item, Reader},
};
use crate::rest::testing::{add, identity, model, tensor};
use crate::{DecodedRequest, Limits, coding::InflateLimits};
use bytes::Bytes;
use penstock_core::{Buffer, Datatype, InferResponse, Kind, ModelSpec, ResponsePlan, Result, Tensor, Timings};
use proptest::prelude::*;

const LIMITS: BodyLimits = BodyLimits {
    lists: Limits { max_inputs: 1024, max_outputs: 1024, max_depth: 64, shared_memory: false, permissive: false },
    inflated: InflateLimits { bytes: 1 << 20, ratio: 100 },
};

fn decoded(format: Format, spec: &ModelSpec, body: &[u8]) -> Result<DecodedRequest> {
    decode(format, spec, RequestOptions::default(), Bytes::copy_from_slice(body), &LIMITS)
}

fn response(tensors: Vec<Tensor>) -> InferResponse {
    InferResponse { outputs: tensors.into(), parameters: Vec::new(), timings: Timings::default(), head: None }
}

/// A response as a request for a model whose inputs are named as its outputs.
fn round_trip(format: Format, spec: &ModelSpec, tensors: Vec<Tensor>) -> Result<DecodedRequest> {
    let encoded = encode(format, spec, &ResponsePlan::default(), &response(tensors))?.concat();
    let body = match format {
        // The response's list is called `outputs`, of the same form.
        Format::Msgpack => {
            let at = encoded.windows(8).position(|window| window == b"\xA7outputs").expect("it has outputs");
            [b"\x81\xA6inputs", &encoded[at + 8..]].concat()
        }
        _ => encoded,
    };
    decoded(format, spec, &body)
}

fn shared(datatype: Datatype, shape: &[usize], bytes: Vec<u8>) -> Tensor {
    Tensor::new(datatype, shape.iter().copied().collect(), Buffer::Shared(bytes.into())).unwrap()
}

fn can_hold(format: Format, datatype: Datatype) -> bool {
    match format {
        Format::Arrow => datatype != Datatype::Bf16,
        Format::Safetensors => datatype != Datatype::Bytes,
        _ => true,
    }
}

#[test]
fn content_types_round_trip() {
    for format in Format::ALL {
        assert_eq!(Format::from_content_type(format.content_type()), Some(format));
        assert_eq!(Format::accepted(format.content_type()), Some(Some(format)));
    }
    for other in ["", "application/json", "application/octet-stream", "application/x-npy+x", "npy"] {
        assert_eq!(Format::from_content_type(other), None);
    }
}

#[test]
fn unsupported_datatypes_of_a_format_are_refused_before_inference() {
    let two =
        model("two", Vec::new(), vec![tensor("a", Datatype::Bf16, &[None]), tensor("b", Datatype::Bytes, &[None])]);
    let refusal = |format| check_response(format, &two, &ResponsePlan::default()).unwrap_err().message().to_owned();
    assert!(refusal(Format::Npy).starts_with("an npy answer is one output, the request asks for 2"));
    assert_eq!(
        refusal(Format::Arrow),
        "output 'a' has datatype BF16, which Arrow IPC cannot hold: accept another format"
    );
    assert_eq!(
        refusal(Format::Safetensors),
        "output 'b' has datatype BYTES, which safetensors cannot hold: accept another format"
    );
    assert!(check_response(Format::Npz, &two, &ResponsePlan::default()).is_ok());
}

#[test]
fn response_without_the_declared_outputs_is_an_internal_error() {
    for format in Format::ALL {
        let error = encode(format, &add(), &ResponsePlan::default(), &response(Vec::new())).unwrap_err();
        assert_eq!(error.kind(), Kind::Internal);
    }
}

#[test]
fn priorities_and_sequences_are_read_from_query_and_body() {
    let spec = identity(Datatype::Uint8, &[None]);
    let parameters = r#"{"priority":2,"sequence_id":7,"sequence_start":true}"#;
    let extras = RequestOptions::from_query(&spec, [("parameters", parameters)]).unwrap();
    let npy =
        encode(Format::Npy, &spec, &ResponsePlan::default(), &response(vec![shared(Datatype::Uint8, &[1], vec![5])]));
    let body = Bytes::from(npy.unwrap().concat());
    let by_query = decode(Format::Npy, &spec, extras, body, &LIMITS).unwrap().request.schedule;
    assert_eq!(by_query.priority, 2);
    let map = b"\x82\xaaparameters\x81\xa8priority\x02\xa6inputs\x91\x84\xa4name\xa1x\xa8datatype\xa5UINT8\xa5shape\x91\x01\xa4data\xc4\x01\x05";
    assert_eq!(decoded(Format::Msgpack, &spec, map).unwrap().request.schedule.priority, 2);
}

#[test]
fn msgpack_items_are_decoded() {
    for (bytes, item) in [
        (&b"\x05"[..], Item::Uint(5)),
        (b"\xff", Item::Int(-1)),
        (b"\xcf\xff\xff\xff\xff\xff\xff\xff\xff", Item::Uint(u64::MAX)),
        (b"\xd1\x80\x00", Item::Int(-32768)),
        (b"\xca\x3f\x80\0\0", Item::Float(1.0)),
        (b"\xa1a", Item::Str(b"a")),
        (b"\xc4\x01b", Item::Bin(b"b")),
        (b"\xdc\x01\0", Item::Array(256)),
        (b"\x82", Item::Map(2)),
        (b"\xd4\x01x", Item::Ext),
        (b"\xc7\x02\x01xy", Item::Ext),
    ] {
        let mut reader = Reader::new(bytes, 8);
        assert_eq!(reader.item().unwrap(), item);
        assert_eq!(reader.remaining(), 0);
        for end in 0..bytes.len() {
            assert!(Reader::new(&bytes[..end], 8).item().is_err());
        }
    }
    let mut json = Vec::new();
    let value = b"\x84\xa1a\xc0\xa1b\x93\x01\xff\xc3\xa1c\xcb\x3f\xe0\0\0\0\0\0\0\xa1d\x80";
    Reader::new(value, 8).json(&mut json).unwrap();
    assert_eq!(json, br#"{"a":null,"b":[1,-1,true],"c":0.5,"d":{}}"#);
}

proptest! {
    #[test]
    fn encoded_responses_decode_as_requests(
        format in 0usize..5,
        datatype in 0..Datatype::ALL.len(),
        rows in 0usize..4,
        columns in 0usize..4,
        seed in proptest::collection::vec(1u8..128, 200),
    ) {
        let (format, datatype) = (Format::ALL[format], Datatype::ALL[datatype]);
        let mut spec = identity(datatype, &[None, Some(columns)]);
        spec.outputs[0].name = "x".into();
        let count = rows * columns;
        let bytes = match datatype.size() {
            // A bool is 0 or 1.
            Some(1) if datatype == Datatype::Bool => seed[..count].iter().map(|byte| byte % 2).collect(),
            Some(size) => seed[..count * size].to_vec(),
            None => seed[..count].iter().flat_map(|&byte| [1, 0, 0, 0, byte]).collect(),
        };
        if can_hold(format, datatype) {
            let sent = shared(datatype, &[rows, columns], bytes.clone());
            let back = round_trip(format, &spec, vec![sent]).unwrap().request.inputs[0].take().unwrap();
            prop_assert_eq!((back.datatype(), back.shape(), back.as_slice()), (datatype, &[rows, columns][..], &bytes[..]));
        }
    }

    #[test]
    fn arbitrary_bytes_never_panic(
        format in 0usize..5,
        body in proptest::collection::vec(any::<u8>(), 0..200),
    ) {
        prop_assert!(decoded(Format::ALL[format], &identity(Datatype::Fp32, &[None]), &body).is_err());
    }

    #[test]
    fn damaged_bodies_never_panic(
        format in 0usize..5,
        datatype in 0..Datatype::ALL.len(),
        at in any::<prop::sample::Index>(),
        value in any::<u8>(),
    ) {
        let (format, datatype) = (Format::ALL[format], Datatype::ALL[datatype]);
        prop_assume!(can_hold(format, datatype));
        let mut spec = identity(datatype, &[None]);
        spec.outputs[0].name = "x".into();
        let bytes = match datatype.size() {
            Some(size) => vec![1; 3 * size],
            None => [1, 0, 0, 0, b'a'].repeat(3),
        };
        let outputs = response(vec![shared(datatype, &[3], bytes)]);
        let mut body = encode(format, &spec, &ResponsePlan::default(), &outputs).unwrap().concat();
        let at = at.index(body.len());
        body[at] = value;
        if let Ok(accepted) = decoded(format, &spec, &body) {
            prop_assert_eq!(accepted.request.inputs[0].as_ref().unwrap().datatype(), datatype);
        }
    }
}
