//! Outputs that a handler returned, by position or by name, as tensors.

use crate::{
    convert::{array_form::ArrayForm, from_numpy, ragged},
    errors::{self, class_of},
};
use penstock_core::{Error, ModelSpec, Result, Tensor};
use pyo3::{
    intern,
    prelude::*,
    sync::PyOnceLock,
    types::{PyDict, PyList, PyTuple},
};
use smallvec::SmallVec;

/// The outputs of a batch or of one row, in declared order.
pub(crate) type Outputs = SmallVec<[Tensor; 2]>;

/// Converts the return value of a handler.
///
/// # Errors
/// `Handler` with the returned and the declared outputs.
pub(crate) fn tensors(
    spec: &ModelSpec,
    forms: &[ArrayForm],
    returned: Bound<'_, PyAny>,
) -> Result<SmallVec<[Tensor; 2]>> {
    let items = by_output(spec, returned)?;
    let made = |(index, (item, form)): (usize, (Bound<'_, PyAny>, &ArrayForm))| match &spec.outputs[index] {
        declared if declared.optional && item.is_none() => Ok(Tensor::absent(declared.datatype)),
        _ => output(spec, index, item, form),
    };
    items.into_iter().zip(forms).enumerate().map(made).collect()
}

type Items<'py> = SmallVec<[Bound<'py, PyAny>; 2]>;

/// The returned objects in declared order. The container is dropped, so that arrays that only it held are unshared.
fn by_output<'py>(spec: &ModelSpec, returned: Bound<'py, PyAny>) -> Result<Items<'py>> {
    let declared = spec.outputs.len();
    if let Ok(named) = returned.cast::<PyDict>() {
        return by_name(spec, named);
    }
    if declared == 0 && returned.is_none() {
        return Ok(Items::new());
    }
    if let Ok(tuple) = returned.cast::<PyTuple>() {
        check_count(spec, tuple.len())?;
        return Ok(tuple.iter().collect());
    }
    if declared == 1 {
        return Ok(smallvec::smallvec![returned]);
    }
    match returned.cast::<PyList>() {
        Ok(list) => {
            check_count(spec, list.len())?;
            Ok(list.iter().collect())
        }
        Err(_) => Err(Error::handler(format!(
            "model '{}' returned {}, declared {declared} outputs: {}",
            spec.name,
            class_of(&returned),
            penstock_core::names(&spec.outputs)
        ))),
    }
}

fn by_name<'py>(spec: &ModelSpec, named: &Bound<'py, PyDict>) -> Result<Items<'py>> {
    let unknown =
        named.keys().iter().find(|key| !spec.outputs.iter().any(|output| key.eq(&*output.name).unwrap_or(false)));
    if let Some(key) = unknown {
        return Err(Error::handler(format!(
            "model '{}' returned an output named {key}, declared {}",
            spec.name,
            penstock_core::names(&spec.outputs)
        )));
    }
    let find = |output: &penstock_core::TensorSpec| {
        let absent = || output.optional.then(|| named.py().None().into_bound(named.py()));
        named.get_item(&*output.name).ok().flatten().or_else(absent).ok_or_else(|| {
            let (model, name, all) = (&spec.name, &output.name, penstock_core::names(&spec.outputs));
            Error::handler(format!("model '{model}' returned no output '{name}', declared {all}"))
        })
    };
    spec.outputs.iter().map(find).collect()
}

fn check_count(spec: &ModelSpec, count: usize) -> Result<()> {
    if count == spec.outputs.len() {
        return Ok(());
    }
    Err(Error::handler(format!(
        "model '{}' returned a tuple of {count}, declared {} outputs: {}",
        spec.name,
        spec.outputs.len(),
        penstock_core::names(&spec.outputs)
    )))
}

/// Converts one output, whose rows may differ in length if it is declared so.
///
/// # Errors
/// `Handler` that names the output.
fn output(spec: &ModelSpec, index: usize, item: Bound<'_, PyAny>, form: &ArrayForm) -> Result<Tensor> {
    if spec.outputs[index].ragged.is_none() {
        return from_numpy::tensor(spec, index, item, form);
    }
    let (item, lengths) = ragged::returned(spec, index, item, form)?;
    let tensor = from_numpy::tensor(spec, index, item, form)?;
    Ok(match lengths {
        Some(lengths) => tensor.with_lengths(lengths),
        None => tensor,
    })
}

/// Unwraps a `penstock.Final`: returns its outputs, `None` without any, and whether the chunk was one.
pub(crate) fn unwrapped<'py>(piece: Bound<'py, PyAny>, spec: &ModelSpec) -> Result<(Option<Bound<'py, PyAny>>, bool)> {
    static FINAL: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let py = piece.py();
    let taken = || -> PyResult<(Option<Bound<'py, PyAny>>, bool)> {
        let class =
            FINAL.get_or_try_init(py, || py.import("penstock._spec.results")?.getattr("Final").map(Bound::unbind))?;
        if !piece.get_type().is(class.bind(py)) {
            return Ok((Some(piece.clone()), false));
        }
        let outputs = piece.getattr(intern!(py, "outputs"))?;
        Ok(((!outputs.is_none()).then_some(outputs), true))
    };
    taken().map_err(|error| errors::from_handler(py, spec, &error))
}
