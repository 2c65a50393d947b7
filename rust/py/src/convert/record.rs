//! Records of Python objects, read attribute by attribute into a struct of Rust.

use pyo3::{exceptions::PyTypeError, prelude::*};

/// Reads an attribute.
///
/// # Errors
/// `TypeError` that names the class and the attribute.
pub(crate) fn attribute<'py, T: for<'a> FromPyObject<'a, 'py>>(object: &Bound<'py, PyAny>, name: &str) -> PyResult<T> {
    let value = object.getattr(name)?;
    value.extract::<T>().map_err(|error| {
        let (error, class): (PyErr, _) = (error.into(), object.get_type().name());
        PyTypeError::new_err(class.map_or_else(|_| error.to_string(), |class| format!("{class}.{name}: {error}")))
    })
}

/// Reads a struct from a Python object. A field is one line: its name alone for an attribute of that name, `"name"` of
/// another attribute, `=> convert` for a function of the attribute's value. Fields after `..` come from that struct.
macro_rules! read_record {
    ($object:expr, $record:ident { $($field:ident $(: $name:literal)? $(=> $convert:expr)?),* $(; ..$rest:expr)? }) => {
        $record { $($field: $crate::convert::record::read_record!(@ $object, $field $(: $name)? $(=> $convert)?),)*
            $(..$rest)? }
    };
    (@ $object:expr, $field:ident) => {
        $crate::convert::record::attribute($object, stringify!($field))?
    };
    (@ $object:expr, $field:ident : $name:literal) => {
        $crate::convert::record::attribute($object, $name)?
    };
    (@ $object:expr, $field:ident => $convert:expr) => {
        ($convert)($crate::convert::record::attribute($object, stringify!($field))?)
    };
    (@ $object:expr, $field:ident : $name:literal => $convert:expr) => {
        ($convert)($crate::convert::record::attribute($object, $name)?)
    };
}

pub(crate) use read_record;

/// Reads an attribute that is None or a record.
///
/// # Errors
/// Those of `read`.
pub(crate) fn optional<'py, T>(
    object: &Bound<'py, PyAny>,
    name: &str,
    read: impl FnOnce(&Bound<'py, PyAny>) -> PyResult<T>,
) -> PyResult<Option<T>> {
    let value = object.getattr(name)?;
    if value.is_none() { Ok(None) } else { read(&value).map(Some) }
}
