//! Buffers: aligned, shared or lent bytes of a tensor.

use aligned_vec::{AVec, ConstAlign};
use bytes::Bytes;
use std::{fmt, sync::Arc};

/// Where an input's elements are written: 64-byte aligned, owned by one request.
pub type AlignedBuffer = AVec<u8, ConstAlign<64>>;

/// Memory that is not from this process's heap: 64-byte aligned, and one batch's alone.
pub trait Memory: Send + Sync {
    /// The bytes.
    fn as_slice(&self) -> &[u8];

    /// Where they begin. Whoever holds the only tensor over them may write to them there.
    fn as_mut_ptr(&self) -> *mut u8;
}

/// A tensor's bytes.
#[derive(Clone)]
pub enum Buffer {
    /// Ours alone and 64-byte aligned: what Python is handed without another copy.
    Aligned(AlignedBuffer),
    /// A view of shared memory, of no particular alignment: an output, or a part of one.
    Shared(Bytes),
    /// As aligned and as much ours alone, but lent: memory that came from another process.
    Lent(Arc<dyn Memory>),
    /// None: see [`Tensor::absent`].
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
    /// The bytes.
    pub fn as_slice(&self) -> &[u8] {
        match self {
            Self::Aligned(buffer) => buffer,
            Self::Shared(bytes) => bytes,
            Self::Lent(memory) => memory.as_slice(),
            Self::Absent => &[],
        }
    }

    /// The number of bytes.
    pub fn len(&self) -> usize {
        self.as_slice().len()
    }

    /// Whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes as a cheap, sliceable view. Copies nothing.
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

/// An empty buffer with room for `capacity` bytes: filled by appending, never zeroed first.
pub fn aligned_with_capacity(capacity: usize) -> AlignedBuffer {
    AVec::with_capacity(64, capacity)
}

/// A zeroed buffer of `len` bytes, for decoders that write elements in place.
pub fn aligned_zeroed(len: usize) -> AlignedBuffer {
    let mut buffer = aligned_with_capacity(len);
    buffer.resize(len, 0);
    buffer
}
