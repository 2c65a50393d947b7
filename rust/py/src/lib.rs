//! `penstock._core`: the boundary between Penstock's Rust and Python.
//!
//! `definition` and `server` read Python's records when a server is created. From then on only the threads of
//! `handler` and `event_loop` hold the interpreter, and only while a handler runs.

mod attach;
mod client;
mod control_channel;
mod convert;
mod definition;
mod descriptors;
mod errors;
mod event_loop;
mod exit;
mod forks;
mod handler;
mod peers;
mod process;
mod raw_request;
mod seconds;
mod server;
mod stacks;
mod wakeup;

use pyo3::{exceptions::PyValueError, prelude::*, types::PyDict};
use std::path::PathBuf;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Returns the bytes of tensors copied in this process, by step of a request's path.
#[pyfunction]
fn copied_bytes(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let steps = PyDict::new(py);
    for (step, bytes) in penstock_core::copies::total() {
        steps.set_item(step.name(), bytes)?;
    }
    Ok(steps)
}

/// Returns the processors of this process: CPU affinity, and the cgroup quota rounded down; at least 1.
#[pyfunction]
fn available_processors() -> usize {
    penstock_server::processors()
}

/// Checks a file of keys; raises `ValueError` with the first problem.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "Python's paths are extracted into owned ones")]
fn check_keys_file(path: PathBuf) -> PyResult<()> {
    penstock_server::check_keys_file(&path).map_err(PyValueError::new_err)
}

/// Checks the chain of files of an audit log; raises `ValueError` with the first broken line.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "Python's lists are extracted into owned ones")]
fn verify_audit_log(py: Python<'_>, paths: Vec<PathBuf>) -> PyResult<(u64, u64, String)> {
    let files = attach::detached(py, || penstock_server::verify_audit_log(&paths)).map_err(PyValueError::new_err)?;
    Ok((files.lines, files.seq, files.hash))
}

/// Compiled part of Penstock.
#[pymodule(gil_used = false)]
fn _core(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("version", env!("CARGO_PKG_VERSION"))?;
    module.add("debug_build", cfg!(debug_assertions))?;
    module.add_function(wrap_pyfunction!(copied_bytes, module)?)?;
    module.add_function(wrap_pyfunction!(available_processors, module)?)?;
    module.add_function(wrap_pyfunction!(check_keys_file, module)?)?;
    module.add_function(wrap_pyfunction!(verify_audit_log, module)?)?;
    module.add_function(wrap_pyfunction!(stacks::stacks, module)?)?;
    module.add_function(wrap_pyfunction!(convert::frozen::frozen, module)?)?;
    module.add_function(wrap_pyfunction!(handler::thread_context::log_context, module)?)?;
    module.add_function(wrap_pyfunction!(handler::thread_context::enable_request_contexts, module)?)?;
    module.add_function(wrap_pyfunction!(handler::thread_context::escape_text, module)?)?;
    module.add_function(wrap_pyfunction!(forks::mark_forked, module)?)?;
    client::register(module)?;
    server::register(module)?;
    module.add_class::<process::Worker>()?;
    module.add_class::<control_channel::Listener>()?;
    module.add_class::<control_channel::ControlChannel>()?;
    module.add_class::<control_channel::InstanceChannel>()?;
    module.add_class::<handler::context::Context>()?;
    module.add_class::<convert::client_identity::ClientCertificate>()?;
    module.add_class::<convert::client_identity::ClientIdentity>()?;
    module.add_class::<handler::request_info::RequestInfo>()?;
    module.add_class::<handler::row::Row>()?;
    module.add_class::<handler::metrics::HandlerMetrics>()?;
    module.add_class::<handler::sequences::SequenceInfo>()?;
    raw_request::register(module)?;
    peers::register(module)?;
    module.add_class::<event_loop::CallQueue>()?;
    module.add_class::<event_loop::CallEvents>()?;
    module.add_class::<event_loop::BatchCall>()?;
    Ok(())
}
