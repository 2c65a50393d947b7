//! Options of a model, each read from its Python record into core's.

use crate::{
    convert::record::{attribute, read_record},
    errors::startup,
    seconds::duration,
};
use penstock_core::{
    Caching, FairBy, Fairness, Fallback, Iterative, Level, Overdue, Queueing, ResourceRequest, Route, Sequences,
    VersionPolicy,
};
use pyo3::{prelude::*, pybacked::PyBackedBytes};
use std::time::Duration;

/// Converts seconds; `None` for no limit.
fn seconds(seconds: Option<f64>) -> Option<Duration> {
    seconds.and_then(duration)
}

/// Reads a `penstock.Resources`.
pub(super) fn resources(object: &Bound<'_, PyAny>) -> PyResult<ResourceRequest> {
    let amounts =
        |amounts: Vec<(String, u64)>| amounts.into_iter().map(|(name, amount)| (name.into(), amount)).collect();
    Ok(read_record!(object, ResourceRequest { amounts => amounts, weight }))
}

/// Reads a `penstock.Queueing`.
pub(super) fn queueing(object: &Bound<'_, PyAny>) -> PyResult<Queueing> {
    let fair_by: Option<String> = attribute(object, "fair_by")?;
    let max_rows = attribute(object, "max_rows_per_client")?;
    let policies: Vec<Bound<'_, PyAny>> = attribute(object, "policies")?;
    let several = Queueing {
        fair: fair_by.map(|text| Fairness { by: fair_by_of(&text), max_rows }),
        levels: policies.iter().map(level).collect::<PyResult<_>>()?,
        ..Queueing::default()
    };
    Ok(read_record!(object, Queueing {
        priorities,
        default_priority,
        timeout => seconds,
        max_rows,
        max_bytes
        ; ..several
    }))
}

/// Reads `fair_by`: `header:NAME`, or `client` for the client's identity.
fn fair_by_of(text: &str) -> FairBy {
    text.strip_prefix("header:").map_or(FairBy::Client, |name| FairBy::Header(name.to_owned()))
}

fn level(object: &Bound<'_, PyAny>) -> PyResult<Level> {
    let overdue = |action: String| if action == "delay" { Overdue::Delay } else { Overdue::Reject };
    Ok(read_record!(object, Level { max_size, timeout => seconds, overdue: "on_timeout" => overdue }))
}

/// Reads a `penstock.Sequences`.
pub(super) fn sequences(object: &Bound<'_, PyAny>) -> PyResult<Sequences> {
    let or_unlimited = |seconds: f64| duration(seconds).unwrap_or(Duration::MAX);
    Ok(read_record!(object, Sequences { idle_timeout => or_unlimited, max_active }))
}

/// Reads a `penstock.Iterative`. Its `max_rows` are the definition's batching.
pub(super) fn iterative(object: &Bound<'_, PyAny>) -> PyResult<Iterative> {
    Ok(read_record!(object, Iterative { max_steps }))
}

/// Reads a `penstock.Cache`.
pub(super) fn caching(object: &Bound<'_, PyAny>) -> PyResult<Caching> {
    Ok(read_record!(object, Caching { max_bytes, ttl => seconds, vary, revision, per_client: "per_caller" }))
}

/// Reads a `penstock.VersionPolicy`.
pub(super) fn version_policy(object: &Bound<'_, PyAny>) -> PyResult<VersionPolicy> {
    let specific: Vec<String> = attribute(object, "specific")?;
    Ok(match attribute(object, "latest")? {
        _ if !specific.is_empty() => VersionPolicy::Specific(specific),
        0 => VersionPolicy::All,
        latest => VersionPolicy::Latest(latest),
    })
}

/// Reads a `penstock.Fallback`.
pub(super) fn fallback(object: &Bound<'_, PyAny>) -> PyResult<Fallback> {
    let match_body = |all: Vec<PyBackedBytes>| all.iter().map(|bytes| Box::from(&**bytes)).collect();
    let model = |name: String| name.into();
    Ok(read_record!(object, Fallback { model => model, timeout: "after" => seconds, match_body => match_body }))
}

/// Parses the routes of a model.
///
/// # Errors
/// `SignatureError` that names the model and the problem.
pub(super) fn routes(py: Python<'_>, model: &str, declared: &[String]) -> PyResult<Vec<Route>> {
    let read = |text: &String| {
        Route::parse(text)
            .map_err(|error| startup(py, "SignatureError", &format!("model '{model}': {}", error.message())))
    };
    declared.iter().map(read).collect()
}
