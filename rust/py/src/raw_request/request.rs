//! `penstock.Request`: one raw request.

use super::builder::Given;
use crate::{
    convert::{array_form::form, client_identity::ClientIdentity, parameters::to_python, to_numpy},
    errors::raised,
};
use penstock_core::{CancelProbe, HttpRequest, Inputs, Part, Protocol, RawRequest, RequestMetadata};
use pyo3::{
    exceptions::PyRuntimeError,
    prelude::*,
    sync::PyOnceLock,
    types::{PyBytes, PyDict, PyMapping, PyTuple},
};
use std::{
    sync::{Mutex, PoisonError},
    time::Instant,
};

/// One raw request.
#[pyclass(frozen, module = "penstock._core")]
pub(crate) struct Request {
    caller: RequestMetadata,
    asked: RawRequest,
    protocol: Protocol,
    priority: u64,
    until: Option<Instant>,
    probe: Option<CancelProbe>,
    /// The protocol's datatype of each tensor.
    datatypes: Vec<&'static str>,
    /// The tensors, until the arrays are created.
    inputs: Mutex<Option<Inputs>>,
    tensors: PyOnceLock<Py<PyDict>>,
    headers: PyOnceLock<Py<PyDict>>,
    parameters: PyOnceLock<Py<PyDict>>,
    body: PyOnceLock<Py<PyBytes>>,
}

impl Request {
    /// The request of a part of a batch. Its inputs are moved out.
    pub(crate) fn of(part: &mut Part) -> Self {
        let probe = part.cancel_probe();
        let request = &mut part.request;
        let inputs = std::mem::take(&mut request.inputs);
        let datatypes = inputs.iter().flatten().map(|tensor| tensor.datatype().name()).collect();
        let asked = request.raw.as_deref_mut().map(|asked| {
            let own = std::mem::take(asked);
            // The outputs of the response are compared with it.
            asked.outputs.clone_from(&own.outputs);
            asked.takes_events = own.takes_events;
            own
        });
        Self {
            caller: request.metadata.take().map(|caller| *caller).unwrap_or_default(),
            asked: asked.unwrap_or_default(),
            protocol: request.protocol,
            priority: request.schedule.priority,
            until: request.deadline,
            probe,
            datatypes,
            inputs: Mutex::new(Some(inputs)),
            ..Self::empty()
        }
    }

    /// A request that was created in Python.
    pub(super) fn built(
        py: Python<'_>,
        caller: RequestMetadata,
        asked: RawRequest,
        (datatypes, tensors): (Vec<&'static str>, Bound<'_, PyDict>),
    ) -> Self {
        let request = Self { caller, asked, datatypes, ..Self::empty() };
        let _ = request.tensors.set(py, tensors.unbind());
        request
    }

    /// An empty request.
    fn empty() -> Self {
        Self {
            caller: RequestMetadata::default(),
            asked: RawRequest::default(),
            protocol: Protocol::InProcess,
            priority: 0,
            until: None,
            probe: None,
            datatypes: Vec::new(),
            inputs: Mutex::default(),
            tensors: PyOnceLock::new(),
            headers: PyOnceLock::new(),
            parameters: PyOnceLock::new(),
            body: PyOnceLock::new(),
        }
    }

    fn made(&self, py: Python<'_>) -> PyResult<Py<PyDict>> {
        let inputs = self.inputs.lock().unwrap_or_else(PoisonError::into_inner).take();
        let inputs = inputs.ok_or_else(|| PyRuntimeError::new_err("the arrays could not be made before"))?;
        let tensors = PyDict::new(py);
        for (name, tensor) in self.asked.names.iter().zip(inputs.into_iter().flatten()) {
            let form = form(py, tensor.datatype());
            tensors.set_item(&**name, to_numpy::array(py, tensor, &form)?)?;
        }
        Ok(tensors.unbind())
    }

    fn http(&self) -> Option<&HttpRequest> {
        self.asked.http.as_deref()
    }
}

#[pymethods]
impl Request {
    #[new]
    #[pyo3(signature = (*, tensors=None, id="", headers=None, parameters=None, outputs=None,
        tensor_parameters=None, nested=None, route=None, method="", path="", query="", path_params=None, body=None))]
    #[expect(clippy::too_many_arguments, reason = "each is a keyword in Python")]
    fn new<'py>(
        py: Python<'py>,
        tensors: Option<Bound<'py, PyMapping>>,
        id: &str,
        headers: Option<Bound<'py, PyMapping>>,
        parameters: Option<Bound<'py, PyMapping>>,
        outputs: Option<Vec<String>>,
        tensor_parameters: Option<Bound<'py, PyMapping>>,
        nested: Option<Vec<String>>,
        route: Option<String>,
        method: &str,
        path: &str,
        query: &str,
        path_params: Option<Bound<'py, PyMapping>>,
        body: Option<&[u8]>,
    ) -> PyResult<Self> {
        let http = route.map(|route| (route, [method, path, query], path_params, body.unwrap_or_default()));
        let (id, nested) = (id.to_owned(), nested.unwrap_or_default());
        Given { tensors, id, headers, parameters, outputs, tensor_parameters, nested, http }.request(py)
    }

    #[getter]
    fn id(&self) -> &str {
        &self.caller.id
    }

    #[getter]
    fn headers<'py>(&self, py: Python<'py>) -> PyResult<&Bound<'py, PyDict>> {
        let made = || -> PyResult<Py<PyDict>> {
            let headers = PyDict::new(py);
            self.caller.headers.iter().try_for_each(|(name, value)| headers.set_item(name, value))?;
            Ok(headers.unbind())
        };
        self.headers.get_or_try_init(py, made).map(|headers| headers.bind(py))
    }

    #[getter]
    fn client(&self) -> ClientIdentity {
        ClientIdentity::of(self.caller.client.as_ref())
    }

    #[getter]
    fn parameters<'py>(&self, py: Python<'py>) -> PyResult<&Bound<'py, PyDict>> {
        let made = || Ok::<_, PyErr>(by_name(py, &self.caller.parameters)?.unbind());
        self.parameters.get_or_try_init(py, made).map(|parameters| parameters.bind(py))
    }

    #[getter]
    fn outputs<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyTuple>>> {
        let names = self.asked.outputs.as_deref();
        names.map(|names| PyTuple::new(py, names.iter().map(|name| &**name))).transpose()
    }

    #[getter]
    fn deadline(&self) -> Option<f64> {
        self.until.map(|until| until.saturating_duration_since(Instant::now()).as_secs_f64())
    }

    #[getter]
    fn cancelled(&self) -> bool {
        self.probe.as_ref().is_some_and(CancelProbe::is_cancelled)
    }

    #[getter]
    fn priority(&self) -> u64 {
        self.priority
    }

    #[getter]
    fn protocol(&self) -> &'static str {
        self.protocol.name()
    }

    #[getter]
    fn tensors<'py>(&self, py: Python<'py>) -> PyResult<&Bound<'py, PyDict>> {
        self.tensors.get_or_try_init(py, || self.made(py)).map(|tensors| tensors.bind(py))
    }

    #[getter]
    fn datatypes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let datatypes = PyDict::new(py);
        let mut each = self.asked.names.iter().zip(&self.datatypes);
        each.try_for_each(|(name, datatype)| datatypes.set_item(&**name, datatype))?;
        Ok(datatypes)
    }

    #[getter]
    fn tensor_parameters<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let all = PyDict::new(py);
        for (place, name) in self.asked.names.iter().enumerate() {
            let own = self.asked.parameters.get(place).map_or(&[][..], Vec::as_slice);
            all.set_item(&**name, by_name(py, own)?)?;
        }
        Ok(all)
    }

    #[getter]
    fn nested<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let names = self.asked.nested.iter().filter_map(|&place| self.asked.names.get(place));
        PyTuple::new(py, names.map(|name| &**name).collect::<Vec<_>>())
    }

    #[getter]
    fn binary(&self) -> bool {
        self.asked.binary
    }

    #[getter]
    fn route(&self) -> Option<&str> {
        self.http().map(|http| &*http.route)
    }

    #[getter]
    fn method(&self) -> &str {
        self.http().map_or("", |http| &http.method)
    }

    #[getter]
    fn path(&self) -> &str {
        self.http().map_or("", |http| &http.path)
    }

    #[getter]
    fn query(&self) -> &str {
        self.http().map_or("", |http| &http.query)
    }

    #[getter]
    fn path_params<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let parts = PyDict::new(py);
        let given = self.http().map_or(&[][..], |http| http.path_params.as_slice());
        given.iter().try_for_each(|(name, value)| parts.set_item(&**name, value))?;
        Ok(parts)
    }

    #[getter]
    fn body<'py>(&self, py: Python<'py>) -> &Bound<'py, PyBytes> {
        let made = || PyBytes::new(py, self.http().map_or(&[], |http| &http.body)).unbind();
        self.body.get_or_init(py, made).bind(py)
    }

    fn form<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let content_type = self.caller.headers.get("content-type").unwrap_or_default();
        py.import("penstock._handler.forms")?.call_method1("read_form", (content_type, self.body(py)))
    }

    #[getter]
    fn refused(&self, py: Python<'_>) -> Option<PyErr> {
        self.http().and_then(|http| http.primary_error.as_ref()).map(|error| raised(py, error))
    }

    fn __repr__(&self) -> String {
        match self.http() {
            Some(http) => format!("Request({} {}, {} bytes)", http.method, http.path, http.body.len()),
            None => format!("Request(id={:?}, tensors={:?})", self.caller.id, self.asked.names),
        }
    }
}

pub(super) fn by_name<'py>(
    py: Python<'py>,
    given: &[(String, penstock_core::Parameter)],
) -> PyResult<Bound<'py, PyDict>> {
    let named = PyDict::new(py);
    for (name, value) in given {
        named.set_item(name, to_python(py, value)?)?;
    }
    Ok(named)
}
