//! Arguments of clients and calls, as Python passes them.

use crate::{convert::borrow, errors::invalid};
use bytes::Bytes;
use penstock_client::{
    AdminOperation, AdminRequest, CallOptions, ClientRequest, Coding, LoadOverride, NamedTensor, Options, RawRequest,
    Retries, TlsOptions,
};
use penstock_core::Parameter;
use pyo3::{exceptions::PyValueError, prelude::*, pybacked::PyBackedBytes};
use smallvec::SmallVec;
use std::{path::PathBuf, time::Duration};

/// The attributes of `penstock.client._options.ClientOptions`.
#[derive(Debug, FromPyObject)]
pub(super) struct ClientOptions {
    headers: Vec<(String, String)>,
    connect_timeout: f64,
    retries: u32,
    backoff: f64,
    max_backoff: f64,
    hedge: Option<f64>,
    compression: Option<String>,
    accept_compression: bool,
    binary: bool,
    max_answer_bytes: usize,
    max_idle: usize,
    ca_file: Option<PathBuf>,
    certificate: Option<PathBuf>,
    key: Option<PathBuf>,
    server_name: Option<String>,
}

impl TryFrom<ClientOptions> for Options {
    type Error = PyErr;

    fn try_from(given: ClientOptions) -> PyResult<Self> {
        let unknown = |name: &str| {
            PyValueError::new_err(format!("compression {name:?} is not known, expected gzip, deflate or zstd"))
        };
        let compression = given
            .compression
            .map(|name| {
                // Brotli is for responses only.
                Coding::from_name(&name).filter(|coding| *coding != Coding::Brotli).ok_or_else(|| unknown(&name))
            })
            .transpose()?;
        let retries = Retries {
            attempts: given.retries,
            backoff: seconds(given.backoff),
            max_backoff: seconds(given.max_backoff),
        };
        let tls = TlsOptions {
            ca_file: given.ca_file,
            certificate: given.certificate,
            key: given.key,
            server_name: given.server_name,
        };
        Ok(Self {
            headers: given.headers,
            connect_timeout: seconds(given.connect_timeout),
            retries,
            hedge: given.hedge.map(seconds),
            compression,
            accept_compression: given.accept_compression,
            binary: given.binary,
            max_response_bytes: given.max_answer_bytes,
            max_idle: given.max_idle,
            tls,
        })
    }
}

/// Converts seconds; zero for a negative number or NaN.
pub(super) fn seconds(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or(if seconds > 0.0 { Duration::MAX } else { Duration::ZERO })
}

/// Name, value, and the datatype for the protocol.
type Input<'py> = (String, Bound<'py, PyAny>, Option<String>);

/// Model, version, id, inputs, outputs, parameters.
pub(super) type CallArguments<'py> =
    (String, String, String, Vec<Input<'py>>, Vec<String>, Vec<(String, Bound<'py, PyAny>)>);

/// Converts a call. Its tensors may be in Python's memory.
///
/// # Errors
/// `InvalidInput` that names the input or parameter.
pub(super) fn call(arguments: CallArguments<'_>) -> PyResult<ClientRequest> {
    let (model, version, id, given, outputs, named) = arguments;
    let mut inputs = SmallVec::with_capacity(given.len());
    for (name, value, datatype) in given {
        let tensor = borrow::tensor(&name, value, datatype.as_deref())?;
        inputs.push(NamedTensor { name, tensor });
    }
    let parameters = named.into_iter().map(|(name, value)| Ok((parameter(&name, &value)?, name)));
    let parameters = parameters.map(|pair: PyResult<_>| pair.map(|(value, name)| (name, value)));
    Ok(ClientRequest { model, version, id, inputs, outputs, parameters: parameters.collect::<PyResult<_>>()? })
}

fn parameter(name: &str, value: &Bound<'_, PyAny>) -> PyResult<Parameter> {
    if let Ok(value) = value.extract::<bool>() {
        return Ok(Parameter::Bool(value));
    }
    if let Ok(value) = value.extract::<i64>() {
        return Ok(Parameter::Int(value));
    }
    if let Ok(value) = value.extract::<u64>() {
        return Ok(Parameter::Uint(value));
    }
    if let Ok(value) = value.extract::<String>() {
        return Ok(Parameter::String(value));
    }
    value.extract::<f64>().map(Parameter::Float).map_err(|_| {
        let class = value.get_type().name().map_or_else(|_| "an object".to_owned(), |name| name.to_string());
        invalid(
            value.py(),
            &format!("parameter '{name}' is a {class}, expected a bool, an int of 64 bits, a float or a str"),
        )
    })
}

/// Headers and timeout.
pub(super) type HowArguments = (Vec<(String, String)>, Option<f64>);

/// Converts the options of a call.
pub(super) fn how((headers, timeout): HowArguments) -> CallOptions {
    CallOptions::new(headers, timeout.map(seconds))
}

/// Kind, model, version, further argument, and files by name.
pub(super) type AskArguments = (String, String, String, Option<String>, Vec<(String, PyBackedBytes)>);

/// Converts a query.
pub(super) fn ask((operation, model, version, more, files): AskArguments) -> PyResult<AdminRequest> {
    let operation = match operation.as_str() {
        "live" => AdminOperation::Live,
        "ready" => AdminOperation::Ready,
        "model_ready" => AdminOperation::ModelReady,
        "server_metadata" => AdminOperation::ServerMetadata,
        "metadata" => AdminOperation::Metadata,
        "config" => AdminOperation::Config,
        "statistics" => AdminOperation::Statistics,
        "index" => AdminOperation::Index,
        "load" => {
            let files = files.into_iter().map(|(name, file)| (name, Bytes::from_owner(file))).collect();
            AdminOperation::Load(LoadOverride { config: more, files })
        }
        "unload" => AdminOperation::Unload { dependents: more.is_some() },
        _ => return Err(PyValueError::new_err(format!("no such operation: {operation}"))),
    };
    Ok(AdminRequest { operation, model, version })
}

/// Method, path, body, and whether it may be sent twice.
pub(super) type RawArguments = (String, String, PyBackedBytes, bool);

/// Converts an unchanged request.
pub(super) fn raw((method, path, body, repeatable): RawArguments) -> RawRequest {
    RawRequest { method, path, body: Bytes::from_owner(body), repeatable }
}
