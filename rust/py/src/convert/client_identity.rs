//! `penstock.ClientIdentity`: the client of a request, for its handler.

use penstock_core::{ClientCertificate as Certificate, ClientIdentity as Identity};
use pyo3::{prelude::*, types::PyTuple};
use std::{borrow::Cow, sync::Arc};

/// Client of a request.
#[pyclass(frozen, module = "penstock._core")]
#[derive(Debug)]
pub(crate) struct ClientIdentity(Arc<Identity>);

/// Verified certificate of a client.
#[pyclass(frozen, module = "penstock._core")]
#[derive(Debug)]
pub(crate) struct ClientCertificate(Arc<Certificate>);

impl ClientIdentity {
    /// The identity of a request; that of a call in this process if there is none.
    pub(crate) fn of(identity: Option<&Arc<Identity>>) -> Self {
        Self(identity.map(Arc::clone).unwrap_or_default())
    }
}

#[pymethods]
impl ClientIdentity {
    #[getter]
    fn name(&self) -> Cow<'_, str> {
        self.0.name()
    }

    #[getter]
    fn kind(&self) -> &'static str {
        self.0.kind()
    }

    #[getter]
    fn key(&self) -> Option<&str> {
        self.0.key.as_deref()
    }

    #[getter]
    fn address(&self) -> Option<String> {
        self.0.address.map(|address| address.to_string())
    }

    #[getter]
    fn certificate(&self) -> Option<ClientCertificate> {
        self.0.certificate.clone().map(ClientCertificate)
    }

    fn may_use(&self, model: &str) -> bool {
        self.0.may_use(model)
    }

    fn __repr__(&self) -> String {
        format!("ClientIdentity(name={:?}, kind={:?})", self.0.name(), self.0.kind())
    }
}

#[pymethods]
impl ClientCertificate {
    #[getter]
    fn subject(&self) -> &str {
        &self.0.subject
    }

    #[getter]
    fn dns<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, &self.0.dns)
    }

    #[getter]
    fn uris<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, &self.0.uris)
    }

    #[getter]
    fn fingerprint(&self) -> &str {
        &self.0.fingerprint
    }

    fn __repr__(&self) -> String {
        format!("ClientCertificate(subject={:?})", self.0.subject)
    }
}
