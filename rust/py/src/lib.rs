//! `penstock._core`: the way between Penstock's Rust and Python.
//!
//! Python objects are read into Rust when a server is made ([`definition`], [`config`]); from then on
//! only [`instance`]'s threads hold the interpreter, and only while a handler runs.

mod answers;
mod attach;
mod batching;
mod call;
mod client;
mod config;
mod context;
mod current;
mod definition;
mod errors;
mod event_loop;
mod exit;
mod forks;
mod hand_in;
mod hand_out;
mod handler_metrics;
mod in_process;
mod in_trace;
mod instance;
mod loaded;
mod models;
mod objects;
mod open;
mod parameters;
mod peers;
mod processes;
mod ragged;
mod rows;
mod scalar;
mod sequences;
mod server;
mod signals;
mod stream;
mod warm;

use pyo3::{prelude::*, types::PyDict};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The bytes of tensors that were copied in this process, by step of a request's way.
#[pyfunction]
fn copies(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let steps = PyDict::new(py);
    for (step, bytes) in penstock_core::copies::total() {
        steps.set_item(step.name(), bytes)?;
    }
    Ok(steps)
}

/// The processors that this process may use: affinity, and the control group's quota rounded down; at least 1.
#[pyfunction]
fn processors() -> usize {
    penstock_server::processors()
}

/// The compiled part of Penstock.
#[pymodule(gil_used = false)]
fn _core(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("version", env!("CARGO_PKG_VERSION"))?;
    module.add("debug_build", cfg!(debug_assertions))?;
    module.add_function(wrap_pyfunction!(copies, module)?)?;
    module.add_function(wrap_pyfunction!(processors, module)?)?;
    module.add_function(wrap_pyfunction!(current::current, module)?)?;
    module.add_function(wrap_pyfunction!(current::want_origins, module)?)?;
    module.add_function(wrap_pyfunction!(current::plain_text, module)?)?;
    module.add_function(wrap_pyfunction!(forks::forked, module)?)?;
    client::register(module)?;
    module.add_class::<server::Server>()?;
    module.add_class::<signals::Signals>()?;
    module.add_class::<in_process::InProcess>()?;
    module.add_class::<models::Models>()?;
    module.add_class::<models::Prepared>()?;
    module.add_class::<models::Command>()?;
    module.add_class::<processes::Worker>()?;
    module.add_class::<processes::Door>()?;
    module.add_class::<processes::Line>()?;
    module.add_class::<processes::Channel>()?;
    module.add_class::<context::Context>()?;
    module.add_class::<context::RequestInfo>()?;
    module.add_class::<handler_metrics::HandlerMetrics>()?;
    module.add_class::<sequences::SequenceInfo>()?;
    open::register(module)?;
    peers::register(module)?;
    module.add_class::<event_loop::Port>()?;
    module.add_class::<event_loop::News>()?;
    module.add_class::<event_loop::Call>()?;
    Ok(())
}
