//! Warm-up calls: computed by one instance, and not counted.

use penstock_core::{
    Error, InferRequest, Model, Queueing, ResponseStream, Result, SequenceId, Sequences, Step, Work,
    metrics::Metrics,
    testing::{batching, fp32, fp32_spec, request, run_closure},
};
use std::{sync::Arc, thread, time::Duration};

fn rows(rows: usize) -> InferRequest {
    request(fp32(&[rows, 1], &vec![1.0; rows]))
}

fn model(instances: usize) -> (Arc<Model>, Metrics) {
    let metrics = Metrics::default();
    let mut spec = fp32_spec("m", &[Some(1)], Some(batching(4)));
    // A limit that the calls would exceed if they counted.
    (spec.instances, spec.queueing) = (instances, Queueing { timeout: Some(Duration::from_nanos(1)), ..spec.queueing });
    (Arc::new(Model::new(spec, &metrics)), metrics)
}

async fn count_chunks(mut chunks: ResponseStream) -> Result<usize> {
    let mut count = 0;
    while let Some(chunk) = chunks.next().await {
        chunk?;
        count += 1;
    }
    Ok(count)
}

#[tokio::test]
async fn warm_up_runs_on_each_instance_without_being_counted() {
    let (model, metrics) = model(3);
    let streams: Vec<ResponseStream> =
        (0..3).map(|instance| model.queue().warm_up(instance, rows(2)).unwrap()).collect();
    let threads = run_closure(&model, |mut inputs, _| Ok(inputs.drain(..).flatten().collect()));
    for chunks in streams {
        assert_eq!(count_chunks(chunks).await.unwrap(), 1);
    }
    let before = Metrics::default().model(model.spec());
    assert_eq!(format!("{:?}", model.metrics().statistics), format!("{:?}", before.statistics));
    assert_eq!(model.metrics().queue_depth.get(), 0);
    drop((model, metrics));
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

#[tokio::test]
async fn warm_up_reports_failures_and_invalid_requests() {
    let (model, _metrics) = model(1);
    let threads = run_closure(&model, |_, _| Err(Error::handler("broken")));
    let failed = count_chunks(model.queue().warm_up(0, rows(1)).unwrap()).await.unwrap_err();
    assert_eq!(failed.message(), "broken");
    let refused = model.queue().warm_up(0, rows(5)).unwrap_err();
    assert_eq!(refused.message(), "the request has a batch of 5 rows, model 'm' computes at most 4");
    model.queue().close();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(model.queue().warm_up(0, rows(1)).unwrap_err().message(), "model 'm' is shutting down");
}

#[tokio::test]
async fn closed_queue_fails_pending_warm_up_calls() {
    let (model, _metrics) = model(1);
    let chunks = model.queue().warm_up(0, rows(1)).unwrap();
    model.queue().close();
    assert_eq!(count_chunks(chunks).await.unwrap_err().message(), "the request was dropped by the server");
}

#[test]
fn warm_up_sequence_ends_with_its_call() {
    let mut spec = fp32_spec("m", &[Some(1)], Some(batching(4)));
    (spec.instances, spec.sequences) = (2, Some(Sequences { idle_timeout: Duration::from_secs(60), max_active: 1 }));
    let model = Arc::new(Model::new(spec, &Metrics::default()));
    let mut step = rows(1);
    let id = SequenceId::Text("warm".into());
    step.schedule.step = Some(Box::new(Step { id: id.clone(), start: true, end: true }));
    let chunks = model.queue().warm_up(1, step).unwrap();
    let queue = Arc::clone(model.queue());
    let instance = thread::spawn(move || {
        let Some(Work::Batch(job)) = queue.next(1) else { panic!("a batch") };
        drop(job);
        let Some(Work::Over(over)) = queue.next(1) else { panic!("its end") };
        over
    });
    assert_eq!(instance.join().unwrap(), [id]);
    assert_eq!(model.queue().active_sequences(), 0);
    drop(chunks);
}
