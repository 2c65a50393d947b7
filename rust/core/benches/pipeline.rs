//! A request's whole way through the core: queue, batch, gather, a closure in place of a handler, scatter, and home
//! over the completions of the caller's thread. What is left of a server without a protocol and without Python.

use criterion::{BenchmarkId, Criterion, Throughput};
use penstock_core::{
    CompletionQueue, Inputs, Model, Outputs, Result,
    metrics::Metrics,
    testing::{batching, fp32, fp32_spec, request, run_closure, values},
};
use smallvec::smallvec;
use std::{
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::runtime::{Builder, Runtime};

const WIDTH: usize = 16;

fn double(inputs: Inputs, _rows: usize) -> Result<Outputs> {
    let tensor = inputs[0].as_ref().expect("a required input");
    let doubled: Vec<f32> = values(tensor).iter().map(|value| value * 2.0).collect();
    Ok(smallvec![fp32(tensor.shape(), &doubled)])
}

/// The time in which `callers` closed loops get `requests` answers.
fn answered(
    runtime: &Runtime,
    model: &Arc<Model>,
    completions: &CompletionQueue,
    callers: usize,
    requests: u64,
) -> Duration {
    runtime.block_on(async {
        let start = Instant::now();
        let calls: Vec<_> = (0..callers as u64)
            .map(|caller| {
                let (model, completions) = (Arc::clone(model), completions.clone());
                let share = requests / callers as u64 + u64::from(caller < requests % callers as u64);
                tokio::spawn(async move {
                    for _ in 0..share {
                        let row = request(fp32(&[1, WIDTH], &[1.0; WIDTH]));
                        model.infer(row, Some(&completions)).await.expect("an answer");
                    }
                })
            })
            .collect();
        for call in calls {
            call.await.expect("no panic");
        }
        start.elapsed()
    })
}

fn round_trips(criterion: &mut Criterion) {
    let runtime = Builder::new_current_thread().build().expect("a runtime");
    let model = Arc::new(Model::new(fp32_spec("double", &[Some(WIDTH)], Some(batching(32))), &Metrics::default()));
    let threads = run_closure(&model, double);
    let completions = CompletionQueue::new();
    let own = completions.clone();
    runtime.spawn(async move { own.run().await });

    let mut group = criterion.benchmark_group("pipeline");
    group.throughput(Throughput::Elements(1));
    for callers in [1, 8, 64] {
        group.bench_function(BenchmarkId::new("one row, callers", callers), |bencher| {
            bencher.iter_custom(|requests| answered(&runtime, &model, &completions, callers, requests));
        });
    }
    group.finish();
    model.queue().close();
    threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
}

fn main() {
    let mut criterion = Criterion::default()
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2))
        .sample_size(20)
        .configure_from_args();
    round_trips(&mut criterion);
    criterion.final_summary();
}
