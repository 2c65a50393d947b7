//! Encoded tensors decode to the same, in every datatype and form; and no body causes a panic.

use super::{EncodeOptions, begin, begin_raw, encode, testing};
use crate::Limits;
use half::{bf16, f16};
use penstock_core::{
    Buffer, Datatype, InferResponse, ResponsePlan, Shape, Tensor, Timings, bytes_tensor, element_count,
};
use proptest::{collection::vec, prelude::*, sample::select};

/// Random elements of a datatype. NaN has one pattern only, for JSON has one word only.
fn elements(datatype: Datatype, count: usize, text: bool) -> BoxedStrategy<Vec<u8>> {
    let Some(size) = datatype.size() else {
        let element =
            if text { any::<String>().prop_map(String::into_bytes).boxed() } else { vec(any::<u8>(), 0..9).boxed() };
        return vec(element, count)
            .prop_map(|elements| {
                let frame = |element: Vec<u8>| [&bytes_tensor::prefix(element.len()).unwrap()[..], &element].concat();
                elements.into_iter().flat_map(frame).collect()
            })
            .boxed();
    };
    vec(any::<u8>(), count * size)
        .prop_map(move |bytes| bytes.chunks_exact(size).flat_map(|one| canonical(datatype, one)).collect())
        .boxed()
}

fn canonical(datatype: Datatype, element: &[u8]) -> Vec<u8> {
    match (datatype, element) {
        (Datatype::Bool, &[byte]) => vec![byte & 1],
        (Datatype::Fp16, &[a, b]) if f16::from_le_bytes([a, b]).is_nan() => f16::NAN.to_le_bytes().to_vec(),
        (Datatype::Bf16, &[a, b]) if bf16::from_le_bytes([a, b]).is_nan() => bf16::NAN.to_le_bytes().to_vec(),
        (Datatype::Fp32, &[a, b, c, d]) if f32::from_le_bytes([a, b, c, d]).is_nan() => f32::NAN.to_le_bytes().to_vec(),
        (Datatype::Fp64, bytes) => match f64::from_le_bytes(bytes.try_into().unwrap()) {
            value if value.is_nan() => f64::NAN.to_le_bytes().to_vec(),
            _ => bytes.to_vec(),
        },
        (_, bytes) => bytes.to_vec(),
    }
}

/// A tensor of any datatype; `text` keeps its BYTES to UTF-8.
fn tensors(text: bool) -> impl Strategy<Value = Tensor> {
    tensors_of(&Datatype::ALL, text)
}

fn tensors_of(datatypes: &[Datatype], text: bool) -> impl Strategy<Value = Tensor> {
    let shape = vec(0usize..5, 0..4);
    (select(datatypes.to_vec()), shape).prop_flat_map(move |(datatype, shape)| {
        let count = element_count(&shape).unwrap();
        elements(datatype, count, text).prop_map(move |bytes| {
            // One byte before it puts the tensor at an odd address.
            let bytes = bytes::Bytes::from([&[0], &bytes[..]].concat()).slice(1..);
            Tensor::new(datatype, Shape::from_slice(&shape), Buffer::Shared(bytes)).unwrap()
        })
    })
}

fn spec_of(tensor: &Tensor) -> penstock_core::ModelSpec {
    let mut spec = testing::identity(tensor.datatype(), &vec![None; tensor.shape().len()]);
    // What was written as an output is read as an input.
    spec.inputs[0].name = "y".into();
    spec
}

/// Encodes a tensor as a response and turns that into a request: JSON, and the bytes after it.
fn as_request(tensor: &Tensor, plan: &ResponsePlan) -> (String, Vec<u8>) {
    let response = InferResponse {
        outputs: std::iter::once(tensor.clone()).collect(),
        parameters: Vec::new(),
        timings: Timings::default(),
        head: None,
    };
    let encoded = encode(&spec_of(tensor), plan, &response, &EncodeOptions::default()).unwrap();
    let mut json = encoded.chunks.concat();
    let tail = json.split_off(encoded.json_len.unwrap_or(json.len()));
    let json = String::from_utf8(json).unwrap();
    let (_, outputs) = json.split_once("\"outputs\":").unwrap();
    (format!("{{\"inputs\":{outputs}"), tail)
}

fn decoded(tensor: &Tensor, json: &str, chunks: &[&[u8]]) -> Tensor {
    let spec = spec_of(tensor);
    let tail_len = chunks.iter().map(|chunk| chunk.len()).sum();
    let mut decoder = begin(&spec, json.as_bytes(), tail_len, &Limits::default()).unwrap();
    chunks.iter().for_each(|chunk| decoder.write(chunk).unwrap());
    decoder.finish().unwrap().request.inputs[0].take().unwrap()
}

fn assert_same(left: &Tensor, right: &Tensor) {
    assert_eq!((left.datatype(), left.shape(), left.as_slice()), (right.datatype(), right.shape(), right.as_slice()));
}

/// Nests the items of a flat array by a shape.
fn nest(items: &mut impl Iterator<Item = String>, shape: &[usize]) -> String {
    match shape {
        [] => items.next().unwrap(),
        [length, rest @ ..] => {
            let parts: Vec<String> = (0..*length).map(|_| nest(items, rest)).collect();
            format!("[ {}]", parts.join(" ,\n"))
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn flat_json_round_trips(tensor in tensors(true)) {
        let (json, tail) = as_request(&tensor, &ResponsePlan::default());
        prop_assert!(tail.is_empty());
        assert_same(&decoded(&tensor, &json, &[]), &tensor);
    }

    #[test]
    fn nested_json_round_trips(tensor in tensors(true)) {
        prop_assume!(!tensor.shape().is_empty() && tensor.datatype() != Datatype::Bytes);
        let (json, _) = as_request(&tensor, &ResponsePlan::default());
        let (head, data) = json.split_once("\"data\":[").unwrap();
        let (data, rest) = data.split_once(']').unwrap();
        let nested = nest(&mut data.split(',').map(str::to_owned), tensor.shape());
        assert_same(&decoded(&tensor, &format!("{head}\"data\":{nested}{rest}"), &[]), &tensor);
    }

    #[test]
    fn json_with_data_first_round_trips(tensor in tensors(true)) {
        let (json, _) = as_request(&tensor, &ResponsePlan::default());
        let (head, data) = json.split_once(",\"data\":").unwrap();
        let (inputs, members) = head.split_once("[{").unwrap();
        let data = data.strip_suffix("}]}").unwrap();
        assert_same(&decoded(&tensor, &format!("{inputs}[{{\"data\":{data},{members}}}]}}"), &[]), &tensor);
    }

    #[test]
    fn binary_round_trips_in_any_chunks(tensor in tensors(false), cuts in vec(any::<proptest::sample::Index>(), 0..5)) {
        let (json, tail) = as_request(&tensor, &ResponsePlan { binary: true, ..ResponsePlan::default() });
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(tail.len() + 1)).chain([0, tail.len()]).collect();
        cuts.sort_unstable();
        let chunks: Vec<&[u8]> = cuts.windows(2).map(|pair| &tail[pair[0]..pair[1]]).collect();
        assert_same(&decoded(&tensor, &json, &chunks), &tensor);
    }

    #[test]
    fn base64_round_trips(tensor in tensors_of(&[Datatype::Bytes], false)) {
        let (json, _) = as_request(&tensor, &ResponsePlan { base64: true, ..ResponsePlan::default() });
        let json = json.replacen("\"data\"", "\"parameters\":{\"content_type\":\"base64\"},\"data\"", 1);
        assert_same(&decoded(&tensor, &json, &[]), &tensor);
    }

    #[test]
    fn arbitrary_bytes_never_panic(
        json in vec(any::<u8>(), 0..99), tail in vec(any::<u8>(), 0..9), datatype in select(Datatype::ALL.to_vec()),
    ) {
        let spec = testing::identity(datatype, &[None]);
        if let Ok(mut decoder) = begin(&spec, &json, tail.len(), &Limits::default()) {
            let _ = decoder.write(&tail).and_then(|()| decoder.finish().map(drop));
        }
        if let Ok(mut decoder) = begin_raw(&spec, json.len()) {
            let _ = decoder.write(&json).and_then(|()| decoder.finish().map(drop));
        }
    }

    #[test]
    fn damaged_requests_never_panic(
        tensor in tensors(true), at in any::<proptest::sample::Index>(), with in vec(any::<u8>(), 0..3), drop_len in 0usize..4,
    ) {
        let (json, _) = as_request(&tensor, &ResponsePlan::default());
        let mut json = json.into_bytes();
        let at = at.index(json.len());
        json.splice(at..(at + drop_len).min(json.len()), with);
        if let Ok(decoder) = begin(&spec_of(&tensor), &json, 0, &Limits::default()) {
            let _ = decoder.finish();
        }
    }
}
