//! Counts the user-space copies of tensor bytes, so that the documented table is tested and not
//! believed. One relaxed addition a tensor; nothing a byte.

use std::sync::atomic::{AtomicU64, Ordering};

/// Where tensor bytes are copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// From the socket's buffer to the tensor's own.
    Receive,
    /// Rows of several requests into one batch.
    Gather,
    /// A buffer that Python may not own, into one that it may.
    HandIn,
    /// The handler's array into the answer.
    HandOut,
    /// The answer's tensor into the message.
    Encode,
}

impl Step {
    /// Every step in the order of a request.
    pub const ALL: [Self; 5] = [Self::Receive, Self::Gather, Self::HandIn, Self::HandOut, Self::Encode];

    /// The name in the documented table.
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

/// Notes that `bytes` tensor bytes were copied at `step`.
pub fn count(step: Step, bytes: usize) {
    BYTES[step as usize].fetch_add(bytes as u64, Ordering::Relaxed);
}

/// The tensor bytes copied at each step since the process started.
pub fn total() -> [(Step, u64); 5] {
    Step::ALL.map(|step| (step, BYTES[step as usize].load(Ordering::Relaxed)))
}
