//! Streamed batches, with a closure as the handler.

use penstock_core::{
    Error, InferRequest, InterpreterTimes, Job, Kind, Model, ModelSpec, Parameter, Readiness, ResponseChunk, RowChunk,
    Streaming,
    metrics::Metrics,
    testing::{batching, fp32, fp32_spec, request, values},
};
use smallvec::smallvec;
use std::{sync::Arc, thread, time::Duration};

/// A model that streams, and the thread of its one instance.
fn serve(
    batched: Option<usize>,
    handler: impl Fn(&mut Streaming) -> penstock_core::Result<()> + Send + 'static,
) -> (Arc<Model>, thread::JoinHandle<()>) {
    let spec = ModelSpec { streams: true, ..fp32_spec("s", &[Some(1)], batched.map(batching)) };
    let model = Arc::new(Model::new(spec, &Metrics::default()));
    model.set_readiness(Readiness::Ready);
    let queue = Arc::clone(model.queue());
    let instance = thread::spawn(move || {
        while let Some(job) = queue.pull() {
            let mut streaming = Job::stream(job);
            let result = handler(&mut streaming);
            streaming.finish(result.map(|()| InterpreterTimes::default()));
        }
    });
    (model, instance)
}

fn row(value: f32) -> InferRequest {
    request(fp32(&[1, 1], &[value]))
}

fn shut_down((model, instance): (Arc<Model>, thread::JoinHandle<()>)) {
    model.queue().close();
    instance.join().unwrap();
}

fn chunk_values(chunk: &ResponseChunk) -> (Vec<f32>, bool) {
    (values(&chunk.response.outputs[0]), chunk.last)
}

#[tokio::test]
async fn chunk_for_the_batch_is_split_by_request_rows() {
    let served = serve(Some(8), |streaming| {
        let rows = streaming.job().rows();
        let all: Vec<f32> = (0..rows).map(|row| row as f32).collect();
        streaming.send(smallvec![fp32(&[rows, 1], &all)], &Vec::new(), false)?;
        streaming.send(smallvec![fp32(&[rows, 1], &all)], &Vec::new(), true)
    });
    // Both are queued, because the instance computes the first request.
    let mut chunks = served.0.stream(request(fp32(&[3, 1], &[7.0, 8.0, 9.0])), None).unwrap();
    let first = chunks.next().await.unwrap().unwrap();
    let second = chunks.next().await.unwrap().unwrap();
    assert_eq!(
        (chunk_values(&first), chunk_values(&second)),
        ((vec![0.0, 1.0, 2.0], false), (vec![0.0, 1.0, 2.0], true))
    );
    assert!(chunks.next().await.is_none());
    shut_down(served);
}

#[tokio::test]
async fn rows_of_a_request_stream_and_end_independently() {
    let served = serve(Some(8), |streaming| {
        let one = |value| smallvec![fp32(&[1, 1], &[value])];
        streaming.send_rows(vec![RowChunk::More(one(1.0)), RowChunk::Last(one(2.0))], &Vec::new())?;
        streaming.send_rows(vec![RowChunk::Nothing, RowChunk::More(one(3.0))], &Vec::new())?;
        streaming.send_rows(vec![RowChunk::End, RowChunk::Nothing], &Vec::new())?;
        assert!(!streaming.is_wanted());
        Ok(())
    });
    let mut chunks = served.0.stream(request(fp32(&[2, 1], &[0.0, 0.0])), None).unwrap();
    let mut seen = Vec::new();
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.unwrap();
        seen.push((chunk_values(&chunk), chunk.response.parameters));
    }
    let row = |row| vec![("row".to_owned(), Parameter::Int(row))];
    assert_eq!(seen, [((vec![1.0], false), row(0)), ((vec![2.0], false), row(1))]);
    shut_down(served);
}

#[tokio::test]
async fn error_ends_every_stream() {
    let served = serve(None, |streaming| {
        streaming.send(smallvec![fp32(&[1], &[1.0])], &Vec::new(), false)?;
        Err(Error::new(Kind::NotFound, "gone"))
    });
    let mut chunks = served.0.stream(request(fp32(&[1], &[0.0])), None).unwrap();
    assert!(chunks.next().await.unwrap().is_ok());
    assert_eq!(chunks.next().await.unwrap().unwrap_err().kind(), Kind::NotFound);
    assert!(chunks.next().await.is_none());
    shut_down(served);
}

#[tokio::test]
async fn handler_waits_until_its_client_reads() {
    const CHUNKS: usize = 1000;
    let served = serve(None, |streaming| {
        for value in 0..CHUNKS {
            if streaming.is_full() {
                streaming.wait_for_room();
            }
            streaming.send(smallvec![fp32(&[1], &[value as f32])], &Vec::new(), false)?;
        }
        Ok(())
    });
    let mut chunks = served.0.stream(request(fp32(&[1], &[0.0])), None).unwrap();
    let mut count = 0;
    while let Some(chunk) = chunks.next().await {
        assert_eq!(chunk_values(&chunk.unwrap()).0, [count as f32]);
        count += 1;
    }
    assert_eq!(count, CHUNKS);
    shut_down(served);
}

#[tokio::test]
async fn stream_dropped_by_its_instance_ends_with_an_error() {
    let spec = ModelSpec { streams: true, ..fp32_spec("s", &[Some(1)], None) };
    let model = Arc::new(Model::new(spec, &Metrics::default()));
    model.set_readiness(Readiness::Ready);
    let mut chunks = model.stream(request(fp32(&[1], &[0.0])), None).unwrap();
    drop(model.queue().pull().unwrap().stream());
    assert_eq!(chunks.next().await.unwrap().unwrap_err().message(), "model 's' lost this batch");
    assert!(chunks.next().await.is_none());
}

#[tokio::test]
async fn unary_call_of_a_stream_requires_exactly_one_response() {
    let served = serve(Some(2), |_| Ok(()));
    assert_eq!(served.0.check_single_response().unwrap_err().kind(), Kind::Unsupported);
    let none = served.0.infer(row(1.0), None).await.unwrap_err();
    assert_eq!(none.message(), "exactly 1 answer is expected here, model 's' gave none: call generate_stream");
    let many = served.0.stream(request(fp32(&[3, 1], &[0.0; 3])), None).unwrap_err();
    assert_eq!(many.message(), "the request has a batch of 3 rows, model 's' streams at most 2");
    let mut chunks = served.0.stream(row(1.0), None).unwrap();
    assert!(tokio::time::timeout(Duration::from_secs(20), chunks.next()).await.unwrap().is_none());
    shut_down(served);
}
