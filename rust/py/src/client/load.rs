//! `_core.LoadRun`: the load generator of `penstock bench`.

use super::{
    arguments::{self, CallArguments, ClientOptions, RawArguments},
    response,
};
use crate::{attach::detached, errors::invalid};
use penstock_client::{
    Options, Target,
    load::{Arrivals, Load, LoadPlan, LoadRequest, LoadRun as Run, Measured, OpenLoad},
};
use pyo3::{
    prelude::*,
    types::{PyDict, PyList},
};

/// The attributes of `penstock._bench.plan.Plan`.
#[derive(Debug, FromPyObject)]
pub(super) struct Plan {
    concurrency: usize,
    rate: Option<f64>,
    poisson: bool,
    max_in_flight: usize,
    seed: u64,
    threads: usize,
    connections: usize,
    timeout: f64,
    validate: bool,
    warmup: f64,
    seconds: Option<f64>,
    requests: Option<u64>,
}

/// A load under way, on its own threads.
#[pyclass(frozen, module = "penstock._core")]
#[derive(Debug)]
pub(crate) struct LoadRun(Run);

#[pymethods]
impl LoadRun {
    #[new]
    fn new(
        py: Python<'_>,
        url: &str,
        options: ClientOptions,
        calls: Vec<CallArguments<'_>>,
        bodies: Vec<RawArguments>,
        plan: Plan,
    ) -> PyResult<Self> {
        let target = Target::parse(url).map_err(|error| invalid(py, error.message()))?;
        let calls = calls.into_iter().map(|call| arguments::call(call).map(LoadRequest::Infer));
        let bodies = bodies.into_iter().map(|body| Ok(LoadRequest::Json(arguments::raw(body))));
        let plan = LoadPlan {
            target,
            options: Options::try_from(options)?,
            requests: calls.chain(bodies).collect::<PyResult<_>>()?,
            load: match plan.rate {
                None => Load::Closed { concurrency: plan.concurrency },
                Some(rate) => {
                    let arrivals = if plan.poisson { Arrivals::Poisson } else { Arrivals::Constant };
                    Load::Open(OpenLoad { rate, arrivals, max_in_flight: plan.max_in_flight, seed: plan.seed })
                }
            },
            threads: plan.threads,
            connections: plan.connections,
            timeout: arguments::seconds(plan.timeout),
            validate: plan.validate,
            warmup: arguments::seconds(plan.warmup),
            duration: plan.seconds.map(arguments::seconds),
            limit: plan.requests,
        };
        // Encoding reads the arrays, which stay borrowed.
        detached(py, || Run::start(plan)).map(Self).map_err(|error| invalid(py, error.message()))
    }

    fn wait_warm(&self, py: Python<'_>, seconds: f64) -> bool {
        detached(py, || self.0.wait_warm(arguments::seconds(seconds)))
    }

    fn measure(&self) {
        self.0.measure();
    }

    fn wait(&self, py: Python<'_>, seconds: f64) -> bool {
        detached(py, || self.0.wait(arguments::seconds(seconds)))
    }

    fn stop(&self) {
        self.0.stop();
    }

    fn progress(&self) -> (u64, u64) {
        let progress = self.0.progress();
        (progress.succeeded, progress.failed)
    }

    fn measured<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let measured = detached(py, || self.0.measured());
        record(py, &measured.map_err(|error| response::exception(py, &error.into()))?)
    }
}

/// A `penstock._bench.measured.Measured`.
fn record<'py>(py: Python<'py>, measured: &Measured) -> PyResult<Bound<'py, PyDict>> {
    let latencies = &measured.latencies;
    let buckets = PyList::empty(py);
    for bucket in latencies.buckets() {
        buckets.append((bucket.low, bucket.high, bucket.count))?;
    }
    let errors = PyList::empty(py);
    for error in &measured.errors {
        errors.append((error.kind, error.status, error.count, &error.first))?;
    }
    let record = PyDict::new(py);
    record.set_item("seconds", measured.duration.as_secs_f64())?;
    record.set_item("succeeded", latencies.count())?;
    record.set_item("in_time", measured.in_time)?;
    record.set_item("bytes", measured.bytes)?;
    record.set_item("sizes", measured.sizes)?;
    record.set_item("late", measured.late)?;
    record.set_item("unsent", measured.unsent)?;
    record.set_item("latency_sum", latencies.sum() as f64 / 1e9)?;
    record.set_item("latency_range", latencies.range())?;
    record.set_item("buckets", buckets)?;
    record.set_item("errors", errors)?;
    Ok(record)
}
