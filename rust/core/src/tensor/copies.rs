//! Counts user-space copies of tensor bytes, so that a test can check the documented table. Cost: one relaxed atomic
//! addition a tensor.

use std::sync::atomic::{AtomicU64, Ordering};

/// Steps that copy tensor bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// From the socket's buffer to the tensor.
    Receive,
    /// From several requests into one batch.
    Gather,
    /// From a shared buffer into one that Python may own.
    HandIn,
    /// From the handler's array into the response.
    HandOut,
    /// From the response's tensor into the message.
    Encode,
}

impl Step {
    /// All steps, in the order of a request.
    pub const ALL: [Self; 5] = [Self::Receive, Self::Gather, Self::HandIn, Self::HandOut, Self::Encode];

    /// Name in the documented table.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Receive => "receive",
            Self::Gather => "gather",
            Self::HandIn => "hand-in",
            Self::HandOut => "hand-out",
            Self::Encode => "encode",
        }
    }
}

static BYTES: [AtomicU64; 5] = [const { AtomicU64::new(0) }; 5];

/// Counts `bytes` copied at `step`.
pub fn count(step: Step, bytes: usize) {
    BYTES[step as usize].fetch_add(bytes as u64, Ordering::Relaxed);
}

/// Bytes copied at each step since the process started.
pub fn total() -> [(Step, u64); 5] {
    Step::ALL.map(|step| (step, BYTES[step as usize].load(Ordering::Relaxed)))
}
