//! Buffers: aligned, shared or lent bytes of a tensor.

use aligned_vec::{AVec, ConstAlign};
use bytes::Bytes;
use std::{fmt, sync::Arc};

/// Memory for an input's elements: 64-byte aligned, owned by one request.
pub type AlignedBuffer = AVec<u8, ConstAlign<64>>;

/// Memory outside of this process's heap: 64-byte aligned, and owned by one batch.
pub trait Memory: Send + Sync {
    /// Bytes.
    fn as_slice(&self) -> &[u8];

    /// Start of the bytes. The owner of the only tensor over them may write to them.
    fn as_mut_ptr(&self) -> *mut u8;
}

/// Bytes of a tensor.
#[derive(Clone)]
pub enum Buffer {
    /// Unique and 64-byte aligned: Python gets it without a copy.
    Aligned(AlignedBuffer),
    /// Shared view without alignment: an output, or part of one.
    Shared(Bytes),
    /// Aligned and unique memory of another process.
    Lent(Arc<dyn Memory>),
    /// No bytes: see [`super::Tensor::absent`].
    Absent,
}

/// Lent memory as the owner of a view.
struct LentBytes(Arc<dyn Memory>);

impl AsRef<[u8]> for LentBytes {
    fn as_ref(&self) -> &[u8] {
        self.0.as_slice()
    }
}

impl Buffer {
    /// Bytes.
    pub fn as_slice(&self) -> &[u8] {
        match self {
            Self::Aligned(buffer) => buffer,
            Self::Shared(bytes) => bytes,
            Self::Lent(memory) => memory.as_slice(),
            Self::Absent => &[],
        }
    }

    /// Number of bytes.
    pub fn len(&self) -> usize {
        self.as_slice().len()
    }

    /// Returns true if there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Converts to a sliceable view without a copy.
    pub fn into_bytes(self) -> Bytes {
        match self {
            Self::Aligned(buffer) => Bytes::from_owner(buffer),
            Self::Shared(bytes) => bytes,
            Self::Lent(memory) => Bytes::from_owner(LentBytes(memory)),
            Self::Absent => Bytes::new(),
        }
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer({} bytes)", self.len())
    }
}

/// An empty buffer with `capacity` bytes reserved, to be filled by appending. Not zeroed.
pub fn aligned_with_capacity(capacity: usize) -> AlignedBuffer {
    // A block whose size is a multiple of the alignment is aligned in the allocator's pages; others are cut from
    // larger ones.
    AVec::with_capacity(64, capacity.checked_next_multiple_of(64).unwrap_or(capacity))
}

/// A zeroed buffer of `len` bytes, for decoders that write in place.
pub fn aligned_zeroed(len: usize) -> AlignedBuffer {
    let mut buffer = aligned_with_capacity(len);
    buffer.resize(len, 0);
    buffer
}
