//! gRPC messages, against the generated code alone.

mod support;

use bytes::Bytes;
use criterion::{BenchmarkId, Criterion, Throughput};
use penstock_core::ResponsePlan;
use penstock_wire::{
    Limits,
    generated::inference::{ModelInferRequest, model_infer_request::InferInputTensor},
    grpc::{self, Envelope, MessageDecoder},
};
use prost::Message;
use std::hint::black_box;
use support::{LARGE, SMALL, bytes, floats, quick, response, spec};

/// Size of an HTTP/2 data frame of common clients.
const FRAME: usize = 16 << 10;
const SHAPES: [&[usize]; 2] = [&SMALL, &LARGE];

fn message(shape: &[usize]) -> Bytes {
    let input = InferInputTensor {
        name: "x".to_owned(),
        datatype: "FP32".to_owned(),
        shape: shape.iter().map(|&size| size as i64).collect(),
        ..InferInputTensor::default()
    };
    let request = ModelInferRequest {
        model_name: "model".to_owned(),
        inputs: vec![input],
        raw_input_contents: vec![bytes(&floats(shape)).into()],
        ..ModelInferRequest::default()
    };
    request.encode_to_vec().into()
}

fn received(message: &[u8], limits: &Limits) -> Envelope {
    let mut decoder = MessageDecoder::new(message.len(), limits);
    for frame in message.chunks(FRAME) {
        decoder.push(frame).expect("a valid message");
    }
    decoder.finish().expect("whole")
}

fn decode(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("grpc decode");
    for shape in SHAPES {
        let (spec, message, limits) = (spec(shape.len()), message(shape), Limits::default());
        group.throughput(Throughput::Bytes(message.len() as u64));
        group.bench_function(BenchmarkId::new("penstock", format!("{shape:?}")), |bencher| {
            bencher.iter(|| grpc::decode(&spec, received(black_box(&message), &limits), &limits).expect("valid"));
        });
        group.bench_function(BenchmarkId::new("prost", format!("{shape:?}")), |bencher| {
            bencher.iter(|| {
                // The generated code wants the frames joined first, and hands on a view of them.
                let joined = black_box(&message).chunks(FRAME).collect::<Vec<_>>().concat();
                ModelInferRequest::decode(Bytes::from(joined)).expect("valid")
            });
        });
    }
    group.finish();
}

fn encode(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("grpc encode");
    for shape in SHAPES {
        let (spec, answer) = (spec(shape.len()), response(shape, &floats(shape)));
        let plan = ResponsePlan::default();
        group.bench_function(BenchmarkId::new("penstock", format!("{shape:?}")), |bencher| {
            bencher.iter(|| grpc::encode_framed(&spec, &plan, black_box(&answer)).expect("valid"));
        });
        group.bench_function(BenchmarkId::new("prost", format!("{shape:?}")), |bencher| {
            bencher.iter(|| grpc::response(&spec, &plan, black_box(&answer)).expect("valid").encode_to_vec());
        });
    }
    group.finish();
}

fn main() {
    let mut criterion = quick().configure_from_args();
    decode(&mut criterion);
    encode(&mut criterion);
    criterion.final_summary();
}
