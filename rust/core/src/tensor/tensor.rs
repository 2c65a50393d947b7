//! Tensors: a datatype, a shape, and one buffer of row-major, little-endian elements.

use super::{Buffer, Datatype, Shape, aligned_with_capacity, byte_size, bytes_tensor, element_count};
use crate::{Error, Result};
use smallvec::SmallVec;
use std::sync::Arc;

/// Input tensors in the order of the model's declaration; `None` for an absent optional input.
pub type Inputs = SmallVec<[Option<Tensor>; 2]>;

/// Output tensors in the order of the model's declaration.
pub type Outputs = SmallVec<[Tensor; 2]>;

/// Length of each row of a batch.
pub type RowLengths = Arc<[usize]>;

/// Elements of one datatype in one shape.
///
/// Invariant: the buffer holds exactly the shape's elements ([`Tensor::new`] checks it, once).
#[derive(Clone, Debug)]
pub struct Tensor {
    datatype: Datatype,
    shape: Shape,
    buffer: Buffer,
    /// Row lengths of a ragged batch.
    lengths: Option<RowLengths>,
}

impl Tensor {
    /// Creates a tensor over `buffer`.
    ///
    /// # Errors
    /// `InvalidInput`: the bytes do not match the shape, or the framing of BYTES is broken.
    pub fn new(datatype: Datatype, shape: Shape, mut buffer: Buffer) -> Result<Self> {
        match byte_size(datatype, &shape)? {
            Some(expected) if expected != buffer.len() => {
                return Err(Error::invalid(format!(
                    "got {} bytes, expected {expected} for datatype {datatype} and shape {:?}",
                    buffer.len(),
                    shape.as_slice()
                )));
            }
            Some(_) => {}
            None => bytes_tensor::check(buffer.as_slice(), element_count(&shape)?)?,
        }
        if let (Datatype::Bool, Buffer::Aligned(bytes)) = (datatype, &mut buffer) {
            // On the wire any nonzero byte is true; numpy expects 0 or 1.
            bytes.iter_mut().for_each(|byte| *byte = u8::from(*byte != 0));
        }
        Ok(Self { datatype, shape, buffer, lengths: None })
    }

    /// Placeholder for an optional output that the handler omitted. It is not sent.
    pub fn absent(datatype: Datatype) -> Self {
        Self { datatype, shape: Shape::from_slice(&[0]), buffer: Buffer::Absent, lengths: None }
    }

    /// Returns true for the placeholder of an omitted output.
    pub fn is_absent(&self) -> bool {
        matches!(self.buffer, Buffer::Absent)
    }

    /// A tensor over bytes of tensors that were checked before: joined rows, or a slice of them.
    pub(crate) fn from_checked(datatype: Datatype, shape: Shape, buffer: Buffer) -> Self {
        debug_assert!(byte_size(datatype, &shape).is_ok_and(|size| size.is_none_or(|size| size == buffer.len())));
        Self { datatype, shape, buffer, lengths: None }
    }

    /// Sets the row lengths of a ragged batch.
    #[must_use]
    pub fn with_lengths(self, lengths: RowLengths) -> Self {
        Self { lengths: Some(lengths), ..self }
    }

    /// Row lengths, if the rows differ in length.
    pub fn lengths(&self) -> Option<&RowLengths> {
        self.lengths.as_ref()
    }

    pub(crate) fn take_lengths(&mut self) -> Option<RowLengths> {
        self.lengths.take()
    }

    /// A tensor of this kind with zero rows.
    pub(crate) fn without_rows(&self) -> Self {
        let mut shape = self.shape.clone();
        shape[0] = 0;
        Self::from_checked(self.datatype, shape, Buffer::Aligned(aligned_with_capacity(0)))
    }

    /// Datatype of the elements.
    pub fn datatype(&self) -> Datatype {
        self.datatype
    }

    /// Dimensions.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Buffer.
    pub fn buffer(&self) -> &Buffer {
        &self.buffer
    }

    /// Bytes.
    pub fn as_slice(&self) -> &[u8] {
        self.buffer.as_slice()
    }

    /// Converts to shared memory, which can be sent or read by several owners without a copy.
    #[must_use]
    pub fn into_shared(self) -> Self {
        if self.is_absent() {
            return self;
        }
        Self { buffer: Buffer::Shared(self.buffer.into_bytes()), ..self }
    }

    /// Converts lent memory that has other owners to shared memory, which is read-only.
    #[must_use]
    pub fn unique_or_shared(mut self) -> Self {
        let alone = match &mut self.buffer {
            Buffer::Lent(memory) => Arc::get_mut(memory).is_some(),
            Buffer::Aligned(_) | Buffer::Shared(_) | Buffer::Absent => true,
        };
        if alone { self } else { self.into_shared() }
    }

    /// Datatype, dimensions and buffer.
    pub fn into_parts(self) -> (Datatype, Shape, Buffer) {
        (self.datatype, self.shape, self.buffer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{MAX_RANK, Memory, aligned_zeroed};
    use proptest::prelude::*;
    use smallvec::smallvec;

    #[test]
    fn scalar_has_one_element_and_a_zero_axis_none() {
        assert_eq!(element_count(&[]).unwrap(), 1);
        assert_eq!(element_count(&[0, 4]).unwrap(), 0);
        assert_eq!(element_count(&[2, 3]).unwrap(), 6);
    }

    #[test]
    fn overflowing_element_count_is_refused_even_with_a_zero_axis() {
        assert!(element_count(&[16, (1 << 60) + 2]).is_err());
        assert!(element_count(&[0, usize::MAX, usize::MAX]).is_err());
        assert!(element_count(&[1; MAX_RANK + 1]).is_err());
    }

    #[test]
    fn tensor_requires_the_exact_byte_count() {
        let buffer = |len| Buffer::Aligned(aligned_zeroed(len));
        assert!(Tensor::new(Datatype::Fp32, smallvec![1, 4], buffer(16)).is_ok());
        let error = Tensor::new(Datatype::Fp32, smallvec![1, 4], buffer(15)).unwrap_err();
        assert_eq!(error.message(), "got 15 bytes, expected 16 for datatype FP32 and shape [1, 4]");
    }

    #[test]
    fn nonzero_bool_bytes_become_one() {
        let mut bytes = aligned_zeroed(3);
        bytes[1] = 255;
        bytes[2] = 1;
        let tensor = Tensor::new(Datatype::Bool, smallvec![3], Buffer::Aligned(bytes)).unwrap();
        assert_eq!(tensor.as_slice(), [0, 1, 1]);
    }

    #[test]
    fn lent_memory_with_other_holders_becomes_shared() {
        struct Bytes4([u8; 4]);
        impl Memory for Bytes4 {
            fn as_slice(&self) -> &[u8] {
                &self.0
            }
            fn as_mut_ptr(&self) -> *mut u8 {
                self.0.as_ptr().cast_mut()
            }
        }
        let tensor = Tensor::new(Datatype::Fp32, smallvec![1], Buffer::Lent(Arc::new(Bytes4([1, 2, 3, 4])))).unwrap();
        let other = tensor.clone();
        let shared = tensor.unique_or_shared();
        assert!(matches!(shared.buffer, Buffer::Shared(_)));
        assert_eq!(shared.as_slice(), [1, 2, 3, 4]);
        assert!(matches!(other.clone().unique_or_shared().buffer, Buffer::Shared(_)));
        drop(shared);
        assert!(matches!(other.unique_or_shared().buffer, Buffer::Lent(_)));
    }

    #[test]
    fn aligned_buffers_are_aligned() {
        for len in [1, 7, 64, 4096] {
            assert_eq!(aligned_zeroed(len).as_ptr() as usize % 64, 0);
        }
    }

    proptest! {
        #[test]
        fn shape_arithmetic_never_overflows(shape in proptest::collection::vec(any::<usize>(), 0..40)) {
            for datatype in Datatype::ALL {
                if let Ok(Some(size)) = byte_size(datatype, &shape) {
                    prop_assert!(size <= isize::MAX as usize);
                }
            }
        }
    }
}
