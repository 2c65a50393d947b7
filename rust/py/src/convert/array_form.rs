//! The form of a tensor in Python: its dtype, and how its elements are read and written.

use numpy::PyArrayDescr;
use penstock_core::Datatype;
use pyo3::prelude::*;

/// The form of one tensor's arrays in Python.
#[derive(Debug)]
pub(crate) struct ArrayForm {
    /// The dtype; `None` for an object array of `bytes` or `str`.
    pub(crate) dtype: Option<Py<PyArrayDescr>>,
    /// Set if BYTES elements are `str`.
    pub(crate) text: bool,
    /// Set for BF16 that is float32 in Python: its values are widened and narrowed.
    pub(crate) widened: bool,
    /// Set for an input whose rows are padded to the longest.
    pub(crate) padded: bool,
    /// Set for an output that is copied into shared memory at once.
    pub(crate) copied_at_once: bool,
    /// Set for a tensor that Python only passes on, as `_core.TensorHandle`.
    pub(crate) opaque: bool,
}

/// The default form of a datatype: BYTES are objects, BF16 is float32.
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
        widened: datatype.is_widened(),
        padded: false,
        copied_at_once: false,
        opaque: false,
    }
}
