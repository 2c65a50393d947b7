//! Progress of instances, and queues that nothing serves.

use penstock_core::{
    InterpreterTimes, Job, Model, ModelSpec, Readiness,
    metrics::Metrics,
    queue::{Activity, InstanceKind, InstancePhase},
    testing::{batching, fp32, fp32_spec, request},
};
use smallvec::smallvec;
use std::{
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

fn model(streams: bool) -> Arc<Model> {
    let spec = ModelSpec { streams, ..fp32_spec("m", &[Some(1)], Some(batching(8))) };
    let model = Arc::new(Model::new(spec, &Metrics::default()));
    model.set_readiness(Readiness::Ready);
    model
}

fn progress(model: &Model) -> (Option<u64>, Activity) {
    model.queue().progress()[0]
}

fn row() -> penstock_core::InferRequest {
    request(fp32(&[1, 1], &[1.0]))
}

fn until(holds: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(20);
    while !holds() {
        assert!(Instant::now() < end, "waited in vain");
        thread::sleep(Duration::from_millis(1));
    }
}

#[tokio::test]
async fn busy_instance_has_a_number_that_changes_with_each_batch() {
    let model = model(false);
    let take = || {
        let waiting = tokio::spawn({
            let model = Arc::clone(&model);
            async move { model.infer(row(), None).await }
        });
        (waiting, Arc::clone(model.queue()))
    };
    assert_eq!(progress(&model), (None, Activity::Batch));
    let mut seen = Vec::new();
    for _ in 0..2 {
        let (response, queue) = take();
        let job = tokio::task::spawn_blocking(move || queue.pull()).await.unwrap().unwrap();
        seen.push(progress(&model).0.expect("a batch runs"));
        assert_eq!(progress(&model).0, seen.last().copied());
        drop(job);
        assert!(response.await.unwrap().is_err());
        assert_eq!(progress(&model).0, None);
    }
    assert_ne!(seen[0], seen[1]);
}

#[tokio::test]
async fn process_never_stands_still() {
    let model = model(false);
    model.queue().instance(0).set_kind(InstanceKind::Process);
    let response = tokio::spawn({
        let model = Arc::clone(&model);
        async move { model.infer(row(), None).await }
    });
    let queue = Arc::clone(model.queue());
    let job = tokio::task::spawn_blocking(move || queue.pull()).await.unwrap().unwrap();
    assert_eq!(progress(&model).0, None);
    drop(job);
    assert!(response.await.unwrap().is_err());
    model.queue().instance(0).set_kind(InstanceKind::Loop);
    assert_eq!(progress(&model).1, Activity::Loop);
}

#[tokio::test]
async fn piece_of_a_stream_is_progress_and_a_slow_client_stops_the_count() {
    let model = model(true);
    let mut chunks = model.stream(row(), None).unwrap();
    let job = model.queue().pull().unwrap();
    let mut streaming = Job::stream(job);
    let before = progress(&model);
    assert_eq!(before.1, Activity::Stream);
    while !streaming.is_full() {
        streaming.send(smallvec![fp32(&[1, 1], &[1.0])], &Vec::new(), false).unwrap();
    }
    let full = progress(&model).0;
    assert!(full > before.0);
    let handler = thread::spawn(move || {
        streaming.wait_for_room();
        streaming
    });
    until(|| progress(&model).0.is_none());
    chunks.next().await.unwrap().unwrap();
    let streaming = handler.join().unwrap();
    assert!(progress(&model).0 > full);
    streaming.finish(Ok(InterpreterTimes::default()));
    assert_eq!(progress(&model).0, None);
}

#[tokio::test]
async fn queue_without_an_idle_instance_is_not_unserved() {
    let model = model(false);
    let waiting = tokio::spawn({
        let model = Arc::clone(&model);
        async move { model.infer(row(), None).await }
    });
    let queue = Arc::clone(model.queue());
    until_waiting(&model).await;
    assert_eq!(queue.unserved(), None, "no instance waits");
    let job = tokio::task::spawn_blocking(move || queue.pull()).await.unwrap().unwrap();
    drop(job);
    assert!(waiting.await.unwrap().is_err());
    let queue = Arc::clone(model.queue());
    let instance = thread::spawn(move || queue.pull().map(drop));
    until(|| model.queue().instance_reports()[0].phase == InstancePhase::Serving);
    assert_eq!(model.queue().unserved(), None, "nothing waits");
    model.queue().close();
    instance.join().unwrap();
}

async fn until_waiting(model: &Model) {
    let end = Instant::now() + Duration::from_secs(20);
    while !model.queue().has_waiting() {
        assert!(Instant::now() < end, "waited in vain");
        tokio::task::yield_now().await;
    }
}
