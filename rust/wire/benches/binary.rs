//! Requests and responses with binary tensors after the JSON, in one chunk and in socket-sized chunks.

mod support;

use criterion::{BenchmarkId, Criterion, Throughput};
use penstock_core::{ModelSpec, ResponsePlan};
use penstock_wire::{
    DecodedRequest, Limits,
    rest::{self, EncodeOptions},
};
use std::hint::black_box;
use support::{LARGE, SMALL, bytes, floats, quick, response, spec};

/// Size of one read of a busy socket.
const PIECE: usize = 64 << 10;

fn received(spec: &ModelSpec, json: &[u8], tail: &[u8], piece: usize) -> DecodedRequest {
    let mut decoder = rest::begin(spec, json, tail.len(), &Limits::default()).expect("a valid head");
    for piece in tail.chunks(piece) {
        decoder.write(piece).expect("as announced");
    }
    decoder.finish().expect("whole")
}

fn decode(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("binary decode");
    for (shape, pieces) in [(SMALL.as_slice(), &[PIECE][..]), (&LARGE, &[PIECE, usize::MAX])] {
        let tail = bytes(&floats(shape));
        let json = format!(
            r#"{{"inputs":[{{"name":"x","datatype":"FP32","shape":{shape:?},"parameters":{{"binary_data_size":{}}}}}]}}"#,
            tail.len()
        );
        let spec = spec(shape.len());
        group.throughput(Throughput::Bytes(tail.len() as u64));
        for &piece in pieces {
            let name = if piece == PIECE { "in pieces" } else { "whole" };
            group.bench_function(BenchmarkId::new(name, format!("{shape:?}")), |bencher| {
                bencher.iter(|| received(&spec, json.as_bytes(), black_box(&tail), piece));
            });
        }
    }
    group.finish();
}

fn encode(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("binary encode");
    for shape in [SMALL.as_slice(), &LARGE] {
        let (spec, answer) = (spec(shape.len()), response(shape, &floats(shape)));
        let plan = ResponsePlan { binary: true, ..ResponsePlan::default() };
        group.bench_function(BenchmarkId::from_parameter(format!("{shape:?}")), |bencher| {
            bencher.iter(|| rest::encode(&spec, &plan, black_box(&answer), &EncodeOptions::default()).expect("valid"));
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
