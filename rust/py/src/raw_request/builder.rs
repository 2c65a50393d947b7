//! Construction of a raw request in Python, to call a handler in a test.

use super::request::Request;
use crate::convert::{borrow::own_datatype, parameters::parameter};
use bytes::Bytes;
use numpy::PyUntypedArray;
use penstock_core::{HttpRequest, Parameters, RawRequest, RequestMetadata};
use pyo3::{
    exceptions::PyTypeError,
    prelude::*,
    types::{PyDict, PyMapping},
};

/// The arguments of `Request`.
pub(super) struct Given<'a, 'py> {
    pub(super) tensors: Option<Bound<'py, PyMapping>>,
    pub(super) id: String,
    pub(super) headers: Option<Bound<'py, PyMapping>>,
    pub(super) parameters: Option<Bound<'py, PyMapping>>,
    pub(super) outputs: Option<Vec<String>>,
    pub(super) tensor_parameters: Option<Bound<'py, PyMapping>>,
    pub(super) nested: Vec<String>,
    pub(super) http: Option<GivenHttp<'a, 'py>>,
}

/// The route; method, path and query; the values of the route's parts; the body.
pub(super) type GivenHttp<'a, 'py> = (String, [&'a str; 3], Option<Bound<'py, PyMapping>>, &'a [u8]);

impl Given<'_, '_> {
    /// Builds the request.
    ///
    /// # Errors
    /// `TypeError` for values that no request can have.
    pub(super) fn request(self, py: Python<'_>) -> PyResult<Request> {
        let tensors = PyDict::new(py);
        let (mut names, mut datatypes, mut own) = (Vec::new(), Vec::new(), Vec::new());
        for (name, value) in pairs::<Bound<'_, PyAny>>(self.tensors.as_ref())? {
            let array = value.cast::<PyUntypedArray>().map_err(|_| no_tensor(&name))?;
            datatypes.push(own_datatype(array).ok_or_else(|| no_tensor(&name))?.name());
            tensors.set_item(&name, &value)?;
            let given =
                self.tensor_parameters.as_ref().map(|all| all.as_any().call_method1("get", (&name,))).transpose()?;
            own.push(match given.filter(|given| !given.is_none()) {
                Some(given) => parameters(Some(&given.cast_into::<PyMapping>()?))?,
                None => Parameters::new(),
            });
            names.push(name.into_boxed_str());
        }
        let http = match self.http {
            None => None,
            Some((route, [method, path, query], parts, body)) => {
                let parts = pairs(parts.as_ref())?.into_iter().map(|(name, value)| (name.into(), value)).collect();
                let (method, path, query) = (method.to_owned().into(), path.to_owned(), query.to_owned());
                let body = Bytes::copy_from_slice(body);
                Some(Box::new(HttpRequest {
                    route: route.into(),
                    method,
                    path,
                    query,
                    path_params: parts,
                    body,
                    primary_error: None,
                }))
            }
        };
        let headers = pairs::<String>(self.headers.as_ref())?;
        let headers = headers.iter().map(|(name, value)| (name.to_ascii_lowercase(), value)).collect();
        let caller = RequestMetadata {
            id: self.id,
            parameters: parameters(self.parameters.as_ref())?,
            headers,
            outputs: None,
            client: None,
        };
        let outputs = self.outputs.map(|names| names.into_iter().map(String::into_boxed_str).collect());
        let nested = (0..names.len()).filter(|&place| self.nested.iter().any(|name| **name == *names[place])).collect();
        let asked =
            RawRequest { names: names.into(), outputs, parameters: own.into(), nested, http, ..RawRequest::default() };
        Ok(Request::built(py, caller, asked, (datatypes, tensors)))
    }
}

fn pairs<'py, T: for<'a> FromPyObject<'a, 'py>>(given: Option<&Bound<'py, PyMapping>>) -> PyResult<Vec<(String, T)>> {
    let Some(given) = given else { return Ok(Vec::new()) };
    let pair = |item: Bound<'py, PyAny>| item.extract::<(String, T)>();
    given.items()?.iter().map(pair).collect()
}

fn parameters(given: Option<&Bound<'_, PyMapping>>) -> PyResult<Parameters> {
    let given = pairs::<Bound<'_, PyAny>>(given)?;
    given.into_iter().map(|(name, value)| Ok((name, parameter(&value)?))).collect()
}

fn no_tensor(name: &str) -> PyErr {
    PyTypeError::new_err(format!("tensor '{name}' is no array of a type that the protocol has"))
}
