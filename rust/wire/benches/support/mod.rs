//! Shared parts of the benchmarks.

use criterion::Criterion;
use penstock_core::{
    Buffer, Datatype, InferResponse, ModelSpec, Tensor, Timings,
    testing::{batching, fp32_spec},
};
use smallvec::smallvec;
use std::time::Duration;

/// A few features.
pub(crate) const SMALL: [usize; 2] = [1, 16];
/// A picture of 640 by 640: 4.9 MB.
#[allow(dead_code, reason = "not every benchmark has pictures of that size")]
pub(crate) const LARGE: [usize; 4] = [1, 3, 640, 640];

/// Short enough to run all benchmarks interactively.
pub(crate) fn quick() -> Criterion {
    Criterion::default()
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1))
        .sample_size(20)
}

/// A model whose input `x` and output `y` are FP32 rows of any size, of `rank` axes including the batch axis.
pub(crate) fn spec(rank: usize) -> ModelSpec {
    fp32_spec("model", &vec![None; rank - 1], Some(batching(32)))
}

/// Values between 0 and 1 of full precision, the same in every run.
pub(crate) fn floats(shape: &[usize]) -> Vec<f32> {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let next = |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / (1_u64 << 24) as f32
    };
    (0..shape.iter().product()).map(next).collect()
}

/// Bytes of the values.
#[allow(dead_code, reason = "not every benchmark has raw tensors")]
pub(crate) fn bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// A response with that output, in a shared buffer as after a batch.
pub(crate) fn response(shape: &[usize], values: &[f32]) -> InferResponse {
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    let tensor = Tensor::new(Datatype::Fp32, shape.into(), Buffer::Shared(bytes.into())).expect("the shape's values");
    InferResponse { outputs: smallvec![tensor], parameters: Vec::new(), timings: Timings::default(), head: None }
}
