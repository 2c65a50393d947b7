//! The path from queue to reply, with a closure as the handler.

use penstock_core::{
    Batching, CompletionQueue, Error, Kind, Model, Oversize,
    metrics::Metrics,
    testing::{batching, fp32, fp32_spec, request, run_closure, values},
};
use proptest::prelude::*;
use smallvec::smallvec;
use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

fn model(batching: Option<Batching>, max_queue: usize) -> Arc<Model> {
    let mut spec = fp32_spec("double", &[Some(2)], batching);
    spec.max_queue = max_queue;
    Arc::new(Model::new(spec, &Metrics::default()))
}

fn double(inputs: penstock_core::Inputs, rows: usize) -> penstock_core::Result<penstock_core::Outputs> {
    let tensor = inputs[0].as_ref().expect("a required input");
    assert_eq!(tensor.shape()[0], rows);
    let doubled: Vec<f32> = values(tensor).iter().map(|value| value * 2.0).collect();
    Ok(smallvec![fp32(tensor.shape(), &doubled)])
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime")
}

#[test]
fn each_client_gets_its_own_rows() {
    let model = model(Some(batching(4)), 1024);
    let threads = run_closure(&model, double);
    runtime().block_on(async {
        let completions = CompletionQueue::new();
        let own = completions.clone();
        tokio::spawn(async move { own.run().await });
        let calls = (0..200u32).map(|index| {
            let (model, completions) = (Arc::clone(&model), completions.clone());
            tokio::spawn(async move {
                let rows = 1 + index as usize % 3;
                let sent: Vec<f32> = (0..rows * 2).map(|element| (index * 10 + element as u32) as f32).collect();
                let response =
                    model.infer(request(fp32(&[rows, 2], &sent)), Some(&completions)).await.expect("a response");
                assert_eq!(response.outputs[0].shape(), [rows, 2]);
                assert_eq!(values(&response.outputs[0]), sent.iter().map(|value| value * 2.0).collect::<Vec<_>>());
                assert!(response.timings.batch_rows <= 4);
            })
        });
        for call in calls.collect::<Vec<_>>() {
            call.await.expect("no panic");
        }
    });
    model.queue().close();
    threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
}

#[test]
fn failed_batch_fails_only_its_requests() {
    let model = model(Some(batching(8)), 1024);
    let _threads = run_closure(&model, |inputs, rows| {
        if values(inputs[0].as_ref().expect("an input"))[0] < 0.0 {
            return Err(Error::handler("negative"));
        }
        double(inputs, rows)
    });
    runtime().block_on(async {
        let bad = model.infer(request(fp32(&[1, 2], &[-1.0, 0.0])), None).await.unwrap_err();
        assert_eq!((bad.kind(), bad.message()), (Kind::Handler, "negative"));
        assert!(model.infer(request(fp32(&[1, 2], &[1.0, 0.0])), None).await.is_ok());
    });
    model.queue().close();
}

#[test]
fn panicking_executor_fails_its_requests() {
    let model = model(None, 1024);
    let _threads = run_closure(&model, |_, _| panic!("as the test wants"));
    let error = runtime().block_on(model.infer(request(fp32(&[2], &[0.0; 2])), None)).unwrap_err();
    assert_eq!(error.kind(), Kind::Internal);
    assert_eq!(error.message(), "model 'double' lost this batch");
}

#[test]
fn mismatched_output_rows_are_named_in_the_error() {
    let model = model(Some(batching(8)), 1024);
    let _threads = run_closure(&model, |_, rows| Ok(smallvec![fp32(&[rows + 1, 2], &vec![0.0; (rows + 1) * 2])]));
    let error = runtime().block_on(model.infer(request(fp32(&[1, 2], &[0.0; 2])), None)).unwrap_err();
    assert_eq!(error.kind(), Kind::Handler);
    assert_eq!(error.message(), "model 'double' returned output 'y' with 2 rows for a batch of 1");
    model.queue().close();
}

#[test]
fn full_queue_refuses_with_a_retry_hint() {
    let model = model(Some(batching(1)), 2);
    model.set_readiness(penstock_core::Readiness::Ready);
    let queue = model.queue();
    let tickets: Vec<_> =
        (0..2).map(|_| queue.submit(request(fp32(&[1, 2], &[0.0; 2])), None).expect("room")).collect();
    let error = queue.submit(request(fp32(&[1, 2], &[0.0; 2])), None).unwrap_err();
    assert_eq!(error.kind(), Kind::Overloaded);
    assert_eq!(error.message(), "model 'double' has its maximum of 2 requests waiting");
    assert!(error.retry_hint() >= Some(Duration::from_secs(1)));
    assert_eq!(model.admit().unwrap_err().kind(), Kind::Overloaded);
    // Requests of disconnected clients free their places.
    drop(tickets);
    assert!(model.admit().is_ok());
    assert_eq!(model.metrics().abandoned.get(), 2);
}

#[test]
fn disconnected_and_expired_requests_are_skipped_and_counted() {
    let model = model(Some(batching(8)), 1024);
    let connected = model.queue().submit(request(fp32(&[1, 2], &[1.0; 2])), None).expect("room");
    let disconnects = model.queue().submit(request(fp32(&[1, 2], &[2.0; 2])), None).expect("room");
    drop(disconnects);
    let mut late = request(fp32(&[1, 2], &[3.0; 2]));
    late.deadline = Some(Instant::now());
    let late = model.queue().submit(late, None).expect("room");
    let seen = Arc::new(Mutex::new(Vec::new()));
    let recorder = Arc::clone(&seen);
    let _threads = run_closure(&model, move |inputs, rows| {
        recorder.lock().expect("no panic").extend(values(inputs[0].as_ref().expect("an input")));
        double(inputs, rows)
    });
    runtime().block_on(async {
        assert!(connected.await.is_ok());
        assert_eq!(late.await.unwrap_err().kind(), Kind::Timeout);
    });
    assert_eq!(*seen.lock().expect("no panic"), [1.0, 1.0]);
    assert_eq!(model.metrics().abandoned.get(), 2);
    model.queue().close();
}

#[test]
fn oversize_request_is_split_and_merged_into_one_response() {
    let largest = Arc::new(AtomicUsize::new(0));
    let mut spec = fp32_spec("double", &[Some(1)], Some(Batching { oversize: Oversize::Split, ..batching(4) }));
    spec.max_queue = 16;
    let model = Arc::new(Model::new(spec, &Metrics::default()));
    let recorder = Arc::clone(&largest);
    let _threads = run_closure(&model, move |inputs, rows| {
        recorder.fetch_max(rows, Ordering::Relaxed);
        double(inputs, rows)
    });
    let sent: Vec<f32> = (0..11u8).map(f32::from).collect();
    let response = runtime().block_on(model.infer(request(fp32(&[11, 1], &sent)), None)).expect("a response");
    assert_eq!(response.outputs[0].shape(), [11, 1]);
    assert_eq!(values(&response.outputs[0]), sent.iter().map(|value| value * 2.0).collect::<Vec<_>>());
    assert_eq!(largest.load(Ordering::Relaxed), 4);
    model.queue().close();
}

#[test]
fn request_larger_than_the_queue_is_refused_before_the_split() {
    let batching = Batching { oversize: Oversize::Split, ..batching(8) };
    let model = Arc::new(Model::new(fp32_spec("double", &[None], Some(batching)), &Metrics::default()));
    let empty = fp32(&[1_408_465_797_316_029, 0], &[]);
    let error = runtime().block_on(model.infer(request(empty), None)).unwrap_err();
    assert_eq!(error.kind(), Kind::InvalidInput);
    assert_eq!(
        error.message(),
        "the request has a batch of 1408465797316029 rows, model 'double' accepts at most 8192"
    );
}

#[test]
fn rows_of_different_sizes_do_not_share_a_batch() {
    let spec = fp32_spec("double", &[None], Some(batching(8)));
    let model = Arc::new(Model::new(spec, &Metrics::default()));
    let tickets: Vec<_> = [2usize, 3, 2, 3]
        .into_iter()
        .map(|width| model.queue().submit(request(fp32(&[1, width], &vec![1.0; width])), None).expect("room"))
        .collect();
    let shapes = Arc::new(Mutex::new(Vec::new()));
    let recorder = Arc::clone(&shapes);
    let _threads = run_closure(&model, move |inputs, rows| {
        recorder.lock().expect("no panic").push(inputs[0].as_ref().expect("an input").shape().to_vec());
        double(inputs, rows)
    });
    runtime().block_on(async {
        for ticket in tickets {
            assert!(ticket.await.is_ok());
        }
    });
    assert_eq!(*shapes.lock().expect("no panic"), [[2, 2], [2, 3]]);
    model.queue().close();
}

#[test]
fn closed_queue_computes_waiting_requests_and_refuses_new_ones() {
    let model = model(Some(batching(2)), 1024);
    let tickets: Vec<_> =
        (0..5).map(|_| model.queue().submit(request(fp32(&[1, 2], &[1.0; 2])), None).expect("room")).collect();
    model.queue().close();
    assert_eq!(model.queue().submit(request(fp32(&[1, 2], &[1.0; 2])), None).unwrap_err().kind(), Kind::Unavailable);
    let threads = run_closure(&model, double);
    threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
    runtime().block_on(async {
        for ticket in tickets {
            assert!(ticket.await.is_ok());
        }
    });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Client i gets row i, for all row counts, batch limits and disconnections.
    #[test]
    fn responses_match_requests_for_any_batches(
        sizes in proptest::collection::vec((1usize..5, any::<bool>()), 1..40),
        max_size in 4usize..16,
    ) {
        let model = model(Some(batching(max_size)), 1024);
        let mut waiting = Vec::new();
        for (index, &(rows, disconnects)) in sizes.iter().enumerate() {
            let sent: Vec<f32> = (0..rows * 2).map(|element| (index * 100 + element) as f32).collect();
            let ticket = model.queue().submit(request(fp32(&[rows, 2], &sent)), None).expect("room");
            if disconnects { drop(ticket) } else { waiting.push((sent, ticket)) }
        }
        let threads = run_closure(&model, double);
        runtime().block_on(async {
            for (sent, ticket) in waiting {
                let response = ticket.await.expect("a response");
                let expected: Vec<f32> = sent.iter().map(|value| value * 2.0).collect();
                assert_eq!(values(&response.outputs[0]), expected);
            }
        });
        model.queue().close();
        threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
        prop_assert_eq!(model.metrics().queue_depth.get(), 0);
    }
}
