//! Tensors: element types, shapes, memory.

mod buffer;
pub mod bytes_tensor;
pub mod copies;
mod datatype;
mod shape;
mod tensor;

pub use self::{
    buffer::{AlignedBuffer, Buffer, Memory, aligned_with_capacity, aligned_zeroed},
    datatype::{Datatype, ElementKind},
    shape::{MAX_RANK, Shape, byte_size, element_count},
    tensor::{Inputs, Outputs, RowLengths, Tensor},
};
