//! Batches that are padded, retried in halves, or fail in part: each client gets its own rows or error.

use penstock_core::{
    BatchOutput, Batching, Error, Kind, Model, Padding, Queueing, Readiness, RowFailures,
    metrics::Metrics,
    testing::{batching, fp32, fp32_spec, request, values},
};
use proptest::prelude::*;
use smallvec::smallvec;
use std::{sync::Arc, thread};

/// Doubles rows. Batches of more than `most` rows are too large, and rows with a negative number fail.
fn serve(batching: Batching, most: usize) -> (Arc<Model>, thread::JoinHandle<Vec<usize>>) {
    let model = Arc::new(Model::new(fp32_spec("m", &[Some(1)], Some(batching)), &Metrics::default()));
    model.set_readiness(Readiness::Ready);
    let queue = Arc::clone(model.queue());
    let instance = thread::spawn(move || {
        let mut sizes = Vec::new();
        while let Some(mut job) = queue.pull() {
            let inputs = job.gather();
            let numbers = values(inputs[0].as_ref().expect("a required input"));
            assert_eq!(numbers.len(), job.padded());
            sizes.push(job.padded());
            if job.rows() > most {
                job.finish(Err(Error::new(Kind::TooLarge, "no room").batch_too_large()));
                continue;
            }
            let failed = numbers.iter().enumerate().filter(|(_, number)| **number < 0.0);
            let failed = failed.map(|(row, number)| (row, Error::invalid(format!("no {number}")))).collect();
            let doubled: Vec<f32> = numbers.iter().map(|number| number * 2.0).collect();
            job.finish(Ok(BatchOutput {
                outputs: smallvec![fp32(&[doubled.len(), 1], &doubled)],
                failed: RowFailures::new(failed),
                ..BatchOutput::default()
            }));
        }
        sizes
    });
    (model, instance)
}

/// Sends all requests at once, and checks each response.
fn infer_all(batching: Batching, most: usize, requests: &[Vec<f32>]) -> Vec<usize> {
    let (model, instance) = serve(batching, most);
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    runtime.block_on(async {
        let task: Vec<_> = requests
            .iter()
            .map(|rows| {
                let (model, request) = (Arc::clone(&model), request(fp32(&[rows.len(), 1], rows)));
                tokio::spawn(async move { model.infer(request, None).await })
            })
            .collect();
        for (task, rows) in task.into_iter().zip(requests) {
            let response = task.await.expect("no panic");
            let bad = rows.iter().position(|number| *number < 0.0);
            match (response, bad) {
                (Err(error), _) if rows.len() > most => assert_eq!(error.message(), "no room"),
                (Err(error), Some(0)) if rows.len() == 1 => assert_eq!(error.message(), format!("no {}", rows[0])),
                (Err(error), Some(bad)) => assert_eq!(error.message(), format!("row {bad}: no {}", rows[bad])),
                (Ok(response), None) => {
                    let doubled: Vec<f32> = rows.iter().map(|number| number * 2.0).collect();
                    assert_eq!(values(&response.outputs[0]), doubled);
                    assert_eq!(response.outputs[0].shape(), [rows.len(), 1]);
                }
                (response, _) => panic!("{rows:?} got {response:?}"),
            }
        }
    });
    model.queue().close();
    instance.join().expect("no panic")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn each_client_gets_its_own_rows_or_error(
        requests in proptest::collection::vec(proptest::collection::vec(-2i8..40, 1..5), 1..40),
        most in 1usize..9,
        sizes in proptest::sample::select(vec![vec![], vec![8], vec![1, 2, 4, 8], vec![3, 8]]),
        zeros: bool,
        split: bool,
    ) {
        let requests: Vec<Vec<f32>> =
            requests.into_iter().map(|rows| rows.into_iter().map(f32::from).collect()).collect();
        // Without a retry, clients may get `Overloaded`.
        let most = if split { most } else { 8 };
        let padding = if zeros { Padding::Zeros } else { Padding::Repeat };
        let batching = Batching { sizes: sizes.clone(), padding, retry_on_oom: split, ..batching(8) };
        let seen = infer_all(batching, most, &requests);
        prop_assert!(sizes.is_empty() || seen.iter().all(|size| sizes.contains(size)), "{seen:?}");
    }
}

#[test]
fn out_of_memory_without_retry_shrinks_the_next_batches() {
    let spec = fp32_spec("m", &[Some(1)], Some(batching(8)));
    let model = Model::new(spec, &Metrics::default());
    let submit = || model.queue().submit(request(fp32(&[2, 1], &[1.0, 2.0])), None).expect("room");
    let tickets: Vec<_> = (0..4).map(|_| submit()).collect();
    let job = model.queue().pull().expect("a batch");
    assert_eq!(job.rows(), 8);
    job.finish(Err(Error::new(Kind::TooLarge, "no room").batch_too_large()));
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    for ticket in tickets {
        let error = runtime.block_on(ticket).expect_err("no room");
        assert_eq!(error.kind(), Kind::Overloaded);
        assert_eq!(error.message(), "model 'm' had no memory for a batch of 8 rows, the next ones have 4 at most");
        assert!(error.retry_hint().is_some());
    }
    let _tickets: Vec<_> = (0..4).map(|_| submit()).collect();
    assert_eq!(model.queue().pull().expect("a batch").rows(), 4);
}

#[test]
fn late_joiners_do_not_exceed_the_batch_size() {
    let model = Model::new(fp32_spec("m", &[Some(1)], Some(batching(4))), &Metrics::default());
    let submit = |rows: usize| model.queue().submit(request(fp32(&[rows, 1], &vec![1.0; rows])), None).expect("room");
    let _first = submit(3);
    let mut job = model.queue().pull().expect("a batch");
    let inputs = job.gather();
    let _second = submit(2);
    let inputs = job.admit_late_joiners(inputs);
    assert_eq!((job.rows(), values(inputs[0].as_ref().expect("an input")).len()), (3, 3));
    let _third = submit(1);
    // It may not overtake the second.
    let _ = job.admit_late_joiners(inputs);
    assert_eq!(job.rows(), 3);
}

#[test]
fn queued_rows_are_released_by_completion_and_by_drop() {
    let mut spec = fp32_spec("m", &[Some(1)], Some(batching(4)));
    spec.queueing = Queueing { max_rows: Some(4), ..Queueing::default() };
    let model = Model::new(spec, &Metrics::default());
    let submit = |rows: usize| model.queue().submit(request(fp32(&[rows, 1], &vec![1.0; rows])), None);
    let text = |rows| submit(rows).expect_err("no room").message().to_owned();
    for _ in 0..3 {
        let first = submit(3).expect("room");
        assert_eq!(text(2), "model 'm' has 3 of its maximum of 4 rows waiting, and the request has 2");
        let second = submit(1).expect("room");
        assert_eq!(text(1), "model 'm' has its maximum of 4 rows waiting");
        // Computed and dropped requests free their places.
        let job = model.queue().pull().expect("a batch");
        assert_eq!(job.rows(), 4);
        drop((job, first, second));
        drop(submit(4).expect("room"));
        model.queue().reject_overdue();
    }
}
