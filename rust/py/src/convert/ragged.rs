//! Conversion of rows of different lengths: `penstock.Ragged` and `penstock.Padded`.

use super::array_form::ArrayForm;
use crate::errors::class_of;
use numpy::PyArray1;
use penstock_core::{Error, ModelSpec, Result, RowLengths};
use pyo3::{prelude::*, sync::PyOnceLock, types::PyList};

static RAGGED: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
static PADDED: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

fn class<'py>(py: Python<'py>, cell: &'static PyOnceLock<Py<PyAny>>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    let class = cell.get_or_try_init(py, || py.import("penstock._spec.ragged")?.getattr(name).map(Bound::unbind))?;
    Ok(class.bind(py).clone())
}

/// Creates the input of a handler whose rows may differ in length.
pub(crate) fn handed_in<'py>(
    values: Bound<'py, PyAny>,
    lengths: &RowLengths,
    form: &ArrayForm,
) -> PyResult<Bound<'py, PyAny>> {
    let py = values.py();
    let class = if form.padded { class(py, &PADDED, "Padded")? } else { class(py, &RAGGED, "Ragged")? };
    class.call1((values, PyArray1::from_iter(py, lengths.iter().map(|&length| length as i64))))
}

/// Splits an output that is declared ragged into its values and the lengths of its rows. A plain array, whose rows have
/// one length, has no lengths.
///
/// # Errors
/// `Handler` that names the output, for a list whose items are not rows.
pub(crate) fn returned<'py>(
    spec: &ModelSpec,
    index: usize,
    item: Bound<'py, PyAny>,
    form: &ArrayForm,
) -> Result<(Bound<'py, PyAny>, Option<RowLengths>)> {
    let py = item.py();
    let taken = || -> PyResult<(Bound<'py, PyAny>, Option<RowLengths>)> {
        let class = class(py, &RAGGED, "Ragged")?;
        let ragged = match item.is_instance_of::<PyList>() {
            // Without a dtype: an array of objects.
            true => match &form.dtype {
                Some(dtype) => class.call_method1("of", (&item, dtype))?,
                None => class.call_method1("of", (&item, "O"))?,
            },
            false => item.clone(),
        };
        if !ragged.is_instance(&class)? {
            return Ok((ragged, None));
        }
        let lengths: Vec<usize> = ragged.getattr("lengths")?.call_method0("tolist")?.extract()?;
        Ok((ragged.getattr("values")?, Some(lengths.into())))
    };
    taken().map_err(|error| {
        let (model, name) = (&spec.name, &spec.outputs[index].name);
        let (what, why) = (class_of(&item), error.value(py));
        Error::handler(format!("model '{model}' returned {what} for output '{name}', whose rows do not fit: {why}"))
    })
}
