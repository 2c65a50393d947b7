//! Test and benchmark helpers: an executor that is a closure, and request builders.

use crate::{
    BatchOutput, Batching, Buffer, Datatype, InferRequest, Inputs, InterpreterTimes, Model, ModelSpec, Outputs,
    Protocol, Readiness, Result, Schedule, Tensor, TensorSpec, Work, aligned_with_capacity,
};
use smallvec::smallvec;
use std::{sync::Arc, thread, time::Instant};

/// Runs `instances` threads that compute batches with `handler(inputs, rows)`, where `rows` includes padding.
pub fn run_closure<F>(model: &Arc<Model>, handler: F) -> Vec<thread::JoinHandle<()>>
where
    F: Fn(Inputs, usize) -> Result<Outputs> + Clone + Send + 'static,
{
    model.set_readiness(Readiness::Ready);
    (0..model.spec().instances)
        .map(|instance| {
            let (queue, handler) = (Arc::clone(model.queue()), handler.clone());
            thread::spawn(move || {
                while let Some(work) = queue.next(instance) {
                    let Work::Batch(mut job) = work else { continue };
                    let inputs = job.gather();
                    let start = Instant::now();
                    let result = handler(inputs, job.padded()).map(|outputs| BatchOutput {
                        outputs,
                        times: InterpreterTimes { handler: start.elapsed(), ..InterpreterTimes::default() },
                        ..BatchOutput::default()
                    });
                    job.finish(result);
                }
            })
        })
        .collect()
}

/// A model with one FP32 input `x` and one FP32 output `y`, both with rows of `dims`.
pub fn fp32_spec(name: &str, dims: &[Option<usize>], batching: Option<Batching>) -> ModelSpec {
    let tensor = |name| TensorSpec::new(name, Datatype::Fp32, dims.to_vec());
    ModelSpec {
        name: name.into(),
        inputs: vec![tensor("x")],
        outputs: vec![tensor("y")],
        batching,
        ..ModelSpec::default()
    }
}

/// Batching of at most `max_size` rows, with the defaults.
pub fn batching(max_size: usize) -> Batching {
    Batching::new(max_size)
}

/// An FP32 tensor of `shape`.
///
/// # Panics
/// If the values do not fill the shape.
pub fn fp32(shape: &[usize], values: &[f32]) -> Tensor {
    let mut buffer = aligned_with_capacity(values.len() * 4);
    for some in values.chunks(64) {
        let mut bytes = [[0; 4]; 64];
        bytes.iter_mut().zip(some).for_each(|(slot, value)| *slot = value.to_le_bytes());
        buffer.extend_from_slice(bytes[..some.len()].as_flattened());
    }
    Tensor::new(Datatype::Fp32, shape.into(), Buffer::Aligned(buffer)).expect("values that fill the shape")
}

/// Values of an FP32 tensor.
pub fn values(tensor: &Tensor) -> Vec<f32> {
    tensor.as_slice().as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
}

/// A request with one FP32 tensor.
pub fn request(tensor: Tensor) -> InferRequest {
    let rows = tensor.shape().first().copied().unwrap_or(1);
    InferRequest {
        inputs: smallvec![Some(tensor)],
        rows,
        metadata: None,
        deadline: None,
        protocol: Protocol::InProcess,
        schedule: Schedule::default(),
        takes_ownership: false,
        context: None,
        raw: None,
    }
}
