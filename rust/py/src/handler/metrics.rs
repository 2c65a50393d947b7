//! `Context.metrics`: the metrics of a handler.

use penstock_core::{
    ModelSpec,
    metrics::{Labels, MetricRejected, MetricUpdate, ModelMetrics},
};
use pyo3::{
    exceptions::{PyTypeError, PyValueError},
    prelude::*,
    types::{PyBool, PyDict, PyFloat, PyInt, PyString},
};
use std::sync::Arc;

/// Counters, gauges and histograms of a model.
#[pyclass(frozen, module = "penstock._core")]
#[derive(Debug)]
pub(crate) struct HandlerMetrics {
    spec: Arc<ModelSpec>,
    metrics: Arc<ModelMetrics>,
}

impl HandlerMetrics {
    pub(crate) fn new(spec: Arc<ModelSpec>, metrics: Arc<ModelMetrics>) -> Self {
        Self { spec, metrics }
    }

    pub(crate) fn keep(&self, py: Python<'_>, kept: MetricUpdate) -> PyResult<()> {
        match self.metrics.record(kept) {
            Ok(()) => Ok(()),
            Err(MetricRejected::Wrong(text)) => Err(PyValueError::new_err(text)),
            // A request does not fail because a metric is dropped.
            Err(unkept) => self.metrics.log_line(&unkept).map_or(Ok(()), |line| self.warn(py, &line)),
        }
    }

    fn warn(&self, py: Python<'_>, line: &str) -> PyResult<()> {
        let logger = py.import("logging")?.call_method1("getLogger", (format!("penstock.{}", self.spec.name),))?;
        logger.call_method1("warning", ("model %r version %r: %s", &*self.spec.name, &*self.spec.version, line))?;
        Ok(())
    }
}

#[pymethods]
impl HandlerMetrics {
    #[pyo3(signature = (name, /, value = 1.0, **labels))]
    fn counter(&self, py: Python<'_>, name: &str, value: f64, labels: Option<&Bound<'_, PyDict>>) -> PyResult<()> {
        self.keep(py, MetricUpdate::counter(name, value, read(name, labels)?).map_err(PyValueError::new_err)?)
    }

    #[pyo3(signature = (name, /, value, **labels))]
    fn gauge(&self, py: Python<'_>, name: &str, value: f64, labels: Option<&Bound<'_, PyDict>>) -> PyResult<()> {
        self.keep(py, MetricUpdate::gauge(name, value, read(name, labels)?).map_err(PyValueError::new_err)?)
    }

    #[pyo3(signature = (name, /, value, **labels))]
    fn observe(
        &self,
        py: Python<'_>,
        name: &str,
        value: &Bound<'_, PyAny>,
        labels: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<()> {
        let one = value.extract::<f64>().map(|one| vec![one]);
        let values = one.or_else(|_| value.extract::<Vec<f64>>()).map_err(|_| no_numbers(name, value))?;
        let kept = MetricUpdate::histogram(name, &values, read(name, labels)?, self.metrics.buckets(name));
        self.keep(py, kept.map_err(PyValueError::new_err)?)
    }
}

fn no_numbers(name: &str, value: &Bound<'_, PyAny>) -> PyErr {
    let got = value.get_type().name().map_or_else(|_| "something else".to_owned(), |name| name.to_string());
    PyTypeError::new_err(format!("histogram '{name}' takes a number or several of them, got {got}"))
}

fn read(name: &str, labels: Option<&Bound<'_, PyDict>>) -> PyResult<Labels> {
    let Some(labels) = labels else { return Ok(Labels::new()) };
    let text = |(label, value): (Bound<'_, PyAny>, Bound<'_, PyAny>)| {
        let label: String = label.extract()?;
        let plain = value.is_instance_of::<PyString>()
            || value.is_instance_of::<PyBool>()
            || value.is_instance_of::<PyInt>()
            || value.is_instance_of::<PyFloat>();
        if !plain {
            let got = value.get_type().name()?;
            let text = format!("label '{label}' of metric '{name}' is a str, int, float or bool, got {got}");
            return Err(PyTypeError::new_err(text));
        }
        Ok((label, value.str()?.to_string_lossy().into_owned()))
    };
    labels.iter().map(text).collect()
}
