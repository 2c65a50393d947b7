//! `_core.InProcessServer`: a server without sockets, for tests.

use super::{
    config::ServerConfig,
    description::{Description, description},
    model_host::{ModelHost, read_definitions},
    models::ModelRegistry,
};
use crate::{attach::detached, errors::startup};
use bytes::Bytes;
use penstock_server::Config;
use pyo3::{
    exceptions::{PyRuntimeError, PyValueError},
    prelude::*,
    types::{PyBytes, PyList},
};
use std::sync::Arc;

/// Server without sockets: decode, queue, batch, handler, encode.
#[pyclass(frozen, weakref, module = "penstock._core")]
#[derive(Debug)]
pub(crate) struct InProcessServer {
    host: Arc<ModelHost>,
    server: penstock_server::InProcess,
}

type Answer<'py> = (u16, Vec<(String, String)>, Bound<'py, PyBytes>);

#[pymethods]
impl InProcessServer {
    #[new]
    #[pyo3(signature = (definitions, config, described = None))]
    fn new(
        definitions: &Bound<'_, PyList>,
        config: &Bound<'_, PyAny>,
        described: Option<Description>,
    ) -> PyResult<Self> {
        let config = ServerConfig(config);
        let host = Arc::new(ModelHost::new(definitions.py(), read_definitions(definitions)?, config.shared()?)?);
        let control = config.takes_commands()?.then(|| host.control.clone());
        let (registry, metrics) = (Arc::clone(&host.registry), Arc::clone(&host.metrics));
        let description = described.map(description).unwrap_or_default();
        let config = Config { control, description, ..config.silent()? };
        let server = penstock_server::InProcess::new(config, registry, metrics);
        let server = server.map_err(|error| startup(definitions.py(), "ConfigError", &error.to_string()))?;
        Ok(Self { host, server })
    }

    fn start(&self, py: Python<'_>) -> PyResult<()> {
        self.host.load(py)?;
        self.server.set_ready();
        Ok(())
    }

    #[expect(clippy::needless_pass_by_value, reason = "Python's lists are extracted into owned vectors")]
    fn request<'py>(
        &self,
        py: Python<'py>,
        method: &str,
        path: &str,
        headers: Vec<(String, String)>,
        body: &[u8],
    ) -> PyResult<Answer<'py>> {
        let mut request = http::Request::builder().method(method).uri(path);
        for (name, value) in &headers {
            request = request.header(name, value);
        }
        let request = request
            .body(Bytes::copy_from_slice(body))
            .map_err(|error| PyValueError::new_err(format!("not a request: {error}")))?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .map_err(|error| PyRuntimeError::new_err(error.to_string()))?;
        let response = detached(py, || runtime.block_on(self.server.handle(request)));
        let headers = response
            .headers()
            .iter()
            .map(|(name, value)| (name.as_str().to_owned(), String::from_utf8_lossy(value.as_bytes()).into_owned()));
        Ok((response.status().as_u16(), headers.collect(), PyBytes::new(py, response.body())))
    }

    #[pyo3(signature = (timeout = None))]
    fn stop(&self, py: Python<'_>, timeout: Option<f64>) {
        // Only the caller can have an active request, so the timeout has nothing to cut off.
        let _ = timeout;
        self.server.stop();
        self.host.close(py);
    }

    #[getter]
    fn models(&self) -> ModelRegistry {
        ModelRegistry(Arc::clone(&self.host))
    }

    fn stuck(&self) -> Vec<String> {
        self.host.stuck()
    }
}
