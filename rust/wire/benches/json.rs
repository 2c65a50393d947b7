//! JSON requests and responses, against serde_json with a `Vec<f32>`.

mod support;

use criterion::{BenchmarkId, Criterion, Throughput};
use penstock_core::ResponsePlan;
use penstock_wire::{
    Limits,
    rest::{self, EncodeOptions},
};
use serde::{Deserialize, Serialize};
use std::hint::black_box;
use support::{SMALL, floats, quick, response, spec};

/// A picture of 224 by 224: 150,528 values.
const PICTURE: [usize; 4] = [1, 3, 224, 224];
const SHAPES: [&[usize]; 2] = [&SMALL, &PICTURE];

#[derive(Deserialize, Serialize)]
struct Message {
    #[serde(alias = "outputs")]
    inputs: Vec<Tensor>,
}

#[derive(Deserialize, Serialize)]
struct Tensor {
    name: String,
    datatype: String,
    shape: Vec<usize>,
    data: Vec<f32>,
}

fn message(shape: &[usize]) -> Message {
    let tensor = Tensor { name: "x".into(), datatype: "FP32".into(), shape: shape.to_vec(), data: floats(shape) };
    Message { inputs: vec![tensor] }
}

fn decode(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("json decode");
    for shape in SHAPES {
        let json = serde_json::to_vec(&message(shape)).expect("plain data");
        let (spec, limits) = (spec(shape.len()), Limits::default());
        group.throughput(Throughput::Bytes(json.len() as u64));
        group.bench_function(BenchmarkId::new("penstock", format!("{shape:?}")), |bencher| {
            bencher.iter(|| {
                rest::begin(&spec, black_box(&json), 0, &limits).and_then(rest::Decoder::finish).expect("valid")
            });
        });
        group.bench_function(BenchmarkId::new("serde_json", format!("{shape:?}")), |bencher| {
            bencher.iter(|| serde_json::from_slice::<Message>(black_box(&json)).expect("valid"));
        });
    }
    group.finish();
}

fn encode(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("json encode");
    for shape in SHAPES {
        let (spec, message) = (spec(shape.len()), message(shape));
        let (plan, options) = (ResponsePlan::default(), EncodeOptions::default());
        let answer = response(shape, &message.inputs[0].data);
        let json = serde_json::to_vec(&message).expect("plain data");
        group.throughput(Throughput::Bytes(json.len() as u64));
        group.bench_function(BenchmarkId::new("penstock", format!("{shape:?}")), |bencher| {
            bencher.iter(|| rest::encode(&spec, &plan, black_box(&answer), &options).expect("valid"));
        });
        group.bench_function(BenchmarkId::new("serde_json", format!("{shape:?}")), |bencher| {
            bencher.iter(|| serde_json::to_vec(black_box(&message)).expect("plain data"));
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
