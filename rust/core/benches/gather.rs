//! BatchRules 32 requests into one batch, and parting its outputs again: the one copy that batching adds.

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput};
use penstock_core::{
    Inputs, Outputs,
    batch::gather::{gather, scatter},
    testing::fp32,
};
use smallvec::smallvec;
use std::{hint::black_box, time::Duration};

const REQUESTS: usize = 32;

/// The shapes of a row: a few features, and a picture of 224 by 224.
const ROWS: [&[usize]; 2] = [&[16], &[3, 224, 224]];

fn shape(rows: usize, row: &[usize]) -> Vec<usize> {
    [&[rows], row].concat()
}

fn gather_rows(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("gather");
    for row in ROWS {
        let elements: usize = row.iter().product();
        let one: Inputs = smallvec![Some(fp32(&shape(1, row), &vec![1.0; elements]))];
        group.throughput(Throughput::Bytes((REQUESTS * elements * 4) as u64));
        group.bench_function(BenchmarkId::new("32 requests", format!("{row:?}")), |bencher| {
            bencher.iter_batched_ref(
                || vec![one.clone(); REQUESTS],
                |requests| gather(requests.iter_mut(), REQUESTS),
                BatchSize::LargeInput,
            );
        });
    }
    group.finish();
}

fn scatter_rows(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("scatter");
    for row in ROWS {
        let elements: usize = row.iter().product();
        let batch: Outputs = smallvec![fp32(&shape(REQUESTS, row), &vec![1.0; REQUESTS * elements])];
        group.throughput(Throughput::Elements(REQUESTS as u64));
        group.bench_function(BenchmarkId::new("32 requests", format!("{row:?}")), |bencher| {
            bencher.iter_batched(
                || batch.clone(),
                |outputs| scatter(outputs, black_box(&[1; REQUESTS])),
                BatchSize::LargeInput,
            );
        });
    }
    group.finish();
}

fn main() {
    let mut criterion = Criterion::default()
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1))
        .sample_size(20)
        .configure_from_args();
    gather_rows(&mut criterion);
    scatter_rows(&mut criterion);
    criterion.final_summary();
}
