//! Shapes: element counts and byte sizes, with overflow checks.

use crate::{Datatype, Error, Result};
use smallvec::SmallVec;

/// Dimensions of a tensor. Up to four are stored inline.
pub type Shape = SmallVec<[usize; 4]>;

/// Maximum number of dimensions.
pub const MAX_RANK: usize = 32;

/// Number of elements of a shape; `[]` is a scalar, one element.
///
/// # Errors
/// `InvalidInput`: the product is too large. Later arithmetic on it cannot overflow.
pub fn element_count(shape: &[usize]) -> Result<usize> {
    if shape.len() > MAX_RANK {
        return Err(Error::invalid(format!("shape has {} dimensions, at most {MAX_RANK} are accepted", shape.len())));
    }
    // A zero makes the tensor empty, but must not hide an absurd dimension next to it.
    let mut product: usize = 1;
    for &dim in shape {
        product = product
            .checked_mul(dim.max(1))
            .filter(|&count| count <= isize::MAX as usize / 8)
            .ok_or_else(|| Error::invalid(format!("shape {shape:?} has more elements than can be addressed")))?;
    }
    Ok(if shape.contains(&0) { 0 } else { product })
}

/// Number of bytes of a tensor; `None` for BYTES, whose elements vary.
///
/// # Errors
/// As [`element_count`].
pub fn byte_size(datatype: Datatype, shape: &[usize]) -> Result<Option<usize>> {
    let count = element_count(shape)?;
    // Cannot overflow: `element_count` leaves room for eight bytes per element.
    Ok(datatype.size().map(|size| count * size))
}
