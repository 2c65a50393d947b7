//! `penstock.Response`: the response to one raw request.

use super::request::by_name;
use crate::convert::parameters::parameter;
use http::HeaderName;
use penstock_core::{Headers, Parameter, Parameters};
use pyo3::{
    exceptions::{PyTypeError, PyValueError},
    prelude::*,
    types::{PyByteArray, PyBytes, PyDict, PyMapping, PyMemoryView, PyString, PyTuple},
};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The response to one raw request.
#[pyclass(frozen, module = "penstock._core")]
pub(crate) struct Response {
    pub(crate) body: Option<Py<PyBytes>>,
    /// The outputs, until they are taken for the response.
    outputs: Mutex<Option<Py<PyDict>>>,
    pub(crate) status: u16,
    pub(crate) headers: Headers,
    pub(crate) parameters: Parameters,
    pub(crate) id: Option<Box<str>>,
    pub(crate) event: Option<Py<PyBytes>>,
}

impl Response {
    /// The outputs. With `takes`, they are moved out.
    pub(crate) fn outputs<'py>(&self, py: Python<'py>, takes: bool) -> Option<Bound<'py, PyDict>> {
        let mut outputs = self.lock_outputs();
        let outputs = if takes { outputs.take() } else { outputs.as_ref().map(|outputs| outputs.clone_ref(py)) };
        outputs.map(|outputs| outputs.into_bound(py))
    }

    fn lock_outputs(&self) -> MutexGuard<'_, Option<Py<PyDict>>> {
        self.outputs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl Response {
    #[new]
    #[pyo3(signature = (body=None, *, outputs=None, status=200, headers=None, parameters=None, content_type=None,
        id=None, event=None))]
    #[expect(clippy::too_many_arguments, reason = "each is a keyword in Python")]
    fn new(
        body: Option<Bound<'_, PyAny>>,
        outputs: Option<Bound<'_, PyMapping>>,
        status: u16,
        headers: Option<Bound<'_, PyAny>>,
        parameters: Option<Bound<'_, PyMapping>>,
        content_type: Option<&str>,
        id: Option<&str>,
        event: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        if !(200..600).contains(&status) {
            return Err(PyValueError::new_err(format!("status must be from 200 to 599, not {status}")));
        }
        if body.is_some() && outputs.is_some() {
            return Err(PyValueError::new_err("an answer has a body or outputs, not both"));
        }
        let given = headers.as_ref().map(|given| read_headers(given, content_type.is_some())).transpose()?;
        let mut headers = given.unwrap_or_default();
        let kind = match &body {
            _ if content_type.is_some() => content_type,
            Some(_) if headers.get(KIND).is_some() => None,
            Some(body) if body.is_instance_of::<PyString>() => Some("text/plain; charset=utf-8"),
            Some(_) => Some("application/octet-stream"),
            None => None,
        };
        if let Some(kind) = kind {
            check_value(KIND, kind)?;
            headers.push(KIND, kind);
        }
        Ok(Self {
            body: body.as_ref().map(body_of).transpose()?,
            outputs: Mutex::new(outputs.as_ref().map(copied).transpose()?.map(Bound::unbind)),
            status,
            headers,
            parameters: match &parameters {
                Some(given) => copied(given)?.iter().map(read_parameter).collect::<PyResult<_>>()?,
                None => Parameters::new(),
            },
            id: id.map(Into::into),
            event: event.as_ref().map(body_of).transpose()?,
        })
    }

    #[getter]
    fn body<'py>(&self, py: Python<'py>) -> Option<&Bound<'py, PyBytes>> {
        self.body.as_ref().map(|body| body.bind(py))
    }

    #[getter]
    fn event<'py>(&self, py: Python<'py>) -> Option<&Bound<'py, PyBytes>> {
        self.event.as_ref().map(|event| event.bind(py))
    }

    #[getter(outputs)]
    fn get_outputs<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyDict>> {
        self.outputs(py, false)
    }

    #[getter]
    fn id(&self) -> Option<&str> {
        self.id.as_deref()
    }

    #[getter]
    fn status(&self) -> u16 {
        self.status
    }

    #[getter]
    fn headers<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.headers.iter())
    }

    #[getter]
    fn parameters<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        by_name(py, &self.parameters)
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        match (&self.body, &*self.lock_outputs()) {
            (Some(body), _) => format!("Response({}, {} bytes)", self.status, body.as_bytes(py).len()),
            (None, Some(outputs)) => format!("Response({}, outputs={})", self.status, outputs.bind(py).keys()),
            (None, None) => format!("Response({})", self.status),
        }
    }
}

/// Announces that the response will be an event stream.
#[pyclass(frozen, module = "penstock._core")]
pub(crate) struct EventStream;

#[pymethods]
impl EventStream {
    #[new]
    fn new() -> Self {
        Self
    }

    #[expect(clippy::unused_self, reason = "Python passes it")]
    fn __repr__(&self) -> &'static str {
        "EventStream()"
    }
}

fn copied<'py>(given: &Bound<'py, PyMapping>) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(given.py());
    dict.update(given)?;
    Ok(dict)
}

fn read_parameter((name, value): (Bound<'_, PyAny>, Bound<'_, PyAny>)) -> PyResult<(String, Parameter)> {
    Ok((name.extract()?, parameter(&value)?))
}

/// The bytes of a body or text.
pub(crate) fn body_of(body: &Bound<'_, PyAny>) -> PyResult<Py<PyBytes>> {
    if let Ok(bytes) = body.cast::<PyBytes>() {
        return Ok(bytes.clone().unbind());
    }
    if let Ok(text) = body.cast::<PyString>() {
        return Ok(PyBytes::new(body.py(), text.to_cow()?.as_bytes()).unbind());
    }
    if body.is_instance_of::<PyByteArray>() || body.is_instance_of::<PyMemoryView>() {
        return Ok(body.py().get_type::<PyBytes>().call1((body,))?.cast_into::<PyBytes>()?.unbind());
    }
    let class = body.get_type().name()?;
    Err(PyTypeError::new_err(format!("a body is bytes or str, not {class}; outputs= takes arrays by name")))
}

const KIND: &str = "content-type";

/// Reads headers by name, or as pairs, where a name may occur several times. Their names become lower-case.
fn read_headers(given: &Bound<'_, PyAny>, has_kind: bool) -> PyResult<Headers> {
    let pairs = match given.cast::<PyMapping>() {
        Ok(named) => named.items()?.into_any(),
        Err(_) => given.clone(),
    };
    let wrong = |_| PyTypeError::new_err("headers are a dict of texts, or pairs of a name and a value");
    let mut headers = Headers::default();
    for pair in pairs.try_iter().map_err(wrong)? {
        let (name, value): (String, String) = pair.and_then(|pair| pair.extract()).map_err(wrong)?;
        let name = HeaderName::from_bytes(name.as_bytes())
            .map_err(|_| PyValueError::new_err(format!("{name:?} is not the name of a header")))?;
        check_value(name.as_str(), &value)?;
        // `content_type=` takes precedence.
        if !(has_kind && name == KIND) {
            headers.push(name.as_str(), &value);
        }
    }
    Ok(headers)
}

/// Refuses values that HTTP does not allow (RFC 9110, section 5.5).
fn check_value(name: &str, value: &str) -> PyResult<()> {
    if value.bytes().all(|byte| byte == b'\t' || (byte >= b' ' && byte != 0x7F)) {
        return Ok(());
    }
    Err(PyValueError::new_err(format!("header '{name}' has a value with control characters: {value:?}")))
}
