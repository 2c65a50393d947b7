//! The form of a tensor in Python: its dtype, and how its elements are read and written.

use numpy::PyArrayDescr;
use penstock_core::Datatype;
use pyo3::prelude::*;

/// How the arrays of one tensor look in Python.
#[derive(Debug)]
pub(crate) struct ArrayForm {
    /// `None`: an object array of `bytes` or `str`.
    pub(crate) dtype: Option<Py<PyArrayDescr>>,
    /// Whether BYTES elements are `str`.
    pub(crate) text: bool,
    /// A BF16 tensor that Python sees as float32: its values are widened and narrowed.
    pub(crate) widened: bool,
    /// An input whose rows are filled up to the longest.
    pub(crate) padded: bool,
    /// An output that is copied into shared memory as soon as it is taken.
    pub(crate) copied_at_once: bool,
    /// A tensor that Python only hands on, as it is: `_core.TensorHandle`.
    pub(crate) opaque: bool,
}

/// How the arrays of a datatype look: BYTES are objects, brain floats are float32.
pub(crate) fn form(py: Python<'_>, datatype: Datatype) -> ArrayForm {
    let dtype: Option<Bound<'_, PyArrayDescr>> = match datatype {
        Datatype::Bool => Some(numpy::dtype::<bool>(py)),
        Datatype::Uint8 => Some(numpy::dtype::<u8>(py)),
        Datatype::Uint16 => Some(numpy::dtype::<u16>(py)),
        Datatype::Uint32 => Some(numpy::dtype::<u32>(py)),
        Datatype::Uint64 => Some(numpy::dtype::<u64>(py)),
        Datatype::Int8 => Some(numpy::dtype::<i8>(py)),
        Datatype::Int16 => Some(numpy::dtype::<i16>(py)),
        Datatype::Int32 => Some(numpy::dtype::<i32>(py)),
        Datatype::Int64 => Some(numpy::dtype::<i64>(py)),
        Datatype::Fp16 => Some(numpy::dtype::<half::f16>(py)),
        Datatype::Bf16 | Datatype::Fp32 => Some(numpy::dtype::<f32>(py)),
        Datatype::Fp64 => Some(numpy::dtype::<f64>(py)),
        Datatype::Bytes => None,
    };
    ArrayForm {
        dtype: dtype.map(Bound::unbind),
        text: false,
        widened: datatype == Datatype::Bf16,
        padded: false,
        copied_at_once: false,
        opaque: false,
    }
}
