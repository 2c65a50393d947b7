//! What is recorded of every inference request, once for all protocols.

use super::response_head::to_error as refusal;
use crate::{
    observe::{Entry, spans::RequestTrace},
    settings::LogLevel,
    state::App,
};
use http::{HeaderMap, HeaderValue};
use penstock_core::{Error, Kind, Model, Protocol, ResponseHead, Result, Timings};
use penstock_wire::{DecodedRequest, grpc::timeout};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

/// A request on its way through this server.
#[derive(Debug)]
pub(crate) struct RequestTelemetry<'a> {
    app: &'a App,
    protocol: Protocol,
    started: Instant,
    trace: Option<Arc<RequestTrace>>,
}

/// The model and id of a request, as far as they were known before it failed.
#[derive(Debug, Default)]
pub(crate) struct RequestLabels {
    pub(crate) model: Option<Arc<Model>>,
    pub(crate) id: String,
}

impl<'a> RequestTelemetry<'a> {
    pub(crate) fn start(app: &'a App, protocol: Protocol) -> Self {
        Self { app, protocol, started: Instant::now(), trace: None }
    }

    /// The same, traced if tracing is on and its caller or chance says so.
    pub(crate) fn traced(mut self, headers: &HeaderMap) -> Self {
        let tracer = self.app.tracer.as_ref();
        self.trace = tracer.and_then(|tracer| tracer.begin(self.protocol, headers, self.started));
        self
    }

    /// It is decoded, and goes to its model now.
    pub(crate) fn decoded(&self, decoded: &mut DecodedRequest) {
        if let Some(trace) = &self.trace {
            trace.decoded(decoded);
        }
    }

    /// Its answer is there, to be encoded.
    pub(crate) fn computed(&self) {
        if let Some(trace) = &self.trace {
            trace.computed();
        }
    }

    fn ended(&self, model: Option<&Model>, id: &str, status: i32, error: Option<&Error>) {
        if let Some(trace) = &self.trace {
            trace.ended(model, id, status, error);
        }
    }

    /// When its deadline is, if the server, its parameters (`asked`) or its header `grpc-timeout` set one: the soonest.
    ///
    /// # Errors
    /// `InvalidInput`: the header is no duration.
    pub(crate) fn deadline(&self, headers: &HeaderMap, asked: Option<Duration>) -> Result<Option<Instant>> {
        let Some(value) = headers.get("grpc-timeout") else { return Ok(self.deadline_after(asked)) };
        let told = timeout(value.as_bytes()).ok_or_else(|| {
            let got = value.as_bytes().escape_ascii();
            Error::invalid(format!(
                "header 'grpc-timeout' must be one to eight digits and one of the units H M S m u n, got '{got}'"
            ))
        })?;
        Ok(self.deadline_after([Some(told), asked].into_iter().flatten().min()))
    }

    /// The same for one of several requests that share their headers.
    pub(crate) fn deadline_after(&self, asked: Option<Duration>) -> Option<Instant> {
        let limit = [asked, self.app.config.request_timeout].into_iter().flatten().min();
        self.started.checked_add(limit?)
    }

    /// It was answered well.
    pub(crate) fn succeeded(&self, model: &Model, id: &str, status: i32, timings: Timings) {
        model.metrics().served(self.protocol);
        self.ended(Some(model), id, status, None);
        self.log(model, id, ("ok", status), timings, None);
    }

    /// It was answered as its model told: well, or with the error that the status stands for.
    pub(crate) fn completed(
        &self,
        model: &Model,
        (id, status): (&str, i32),
        timings: Timings,
        refused: Option<&Error>,
    ) {
        let Some(error) = refused else { return self.succeeded(model, id, status, timings) };
        model.metrics().failed(self.protocol, error.kind());
        self.ended(Some(model), id, status, Some(error));
        self.log(model, id, (error.kind().name(), status), timings, Some(error.message()));
    }

    /// It was refused or failed.
    pub(crate) fn failed(&self, model: Option<&Model>, id: &str, status: i32, error: &Error) {
        if error.kind() == Kind::Internal {
            self.app.log.event(LogLevel::Error, error.message());
        }
        self.ended(model, id, status, Some(error));
        let Some(model) = model else {
            self.app.metrics.refused.inc();
            return;
        };
        model.metrics().failed(self.protocol, error.kind());
        model.metrics().statistics.failed(self.started.elapsed());
        self.log(model, id, (error.kind().name(), status), Timings::default(), Some(error.message()));
    }

    fn log(&self, model: &Model, id: &str, outcome: (&'static str, i32), timings: Timings, error: Option<&str>) {
        let log = &self.app.log;
        if !log.logs_requests() {
            return;
        }
        let own = if id.is_empty() { format!("#{}", self.app.next_request_id()) } else { String::new() };
        let spec = model.spec();
        log.request(&Entry {
            id: if id.is_empty() { &own } else { id },
            protocol: self.protocol.name(),
            model: &spec.name,
            version: &spec.version,
            outcome: outcome.0,
            status: outcome.1,
            duration: self.started.elapsed(),
            timings,
            error,
        });
    }
}

/// What is recorded of a request whose answers go out one by one. One that is dropped before its end
/// was left by its caller.
pub(crate) struct StreamTelemetry {
    app: Arc<App>,
    protocol: Protocol,
    started: Instant,
    trace: Option<Arc<RequestTrace>>,
    model: Arc<Model>,
    id: String,
    status: fn(&App, Option<&Error>) -> i32,
    /// The status that the model told.
    told: Option<u16>,
    timings: Timings,
    complete: bool,
    ended: bool,
}

impl StreamTelemetry {
    /// Begins where `telemetry` stands; `status` is the protocol's own of an outcome.
    pub(crate) fn new(
        app: &Arc<App>,
        telemetry: &RequestTelemetry<'_>,
        request: (&Arc<Model>, &str),
        status: fn(&App, Option<&Error>) -> i32,
    ) -> Self {
        let RequestTelemetry { protocol, started, ref trace, .. } = *telemetry;
        let trace = trace.clone();
        let (model, id) = (Arc::clone(request.0), request.1.to_owned());
        let (app, timings) = (Arc::clone(app), Timings::default());
        Self { app, protocol, started, trace, model, id, status, told: None, timings, complete: false, ended: false }
    }

    pub(crate) fn model(&self) -> &Arc<Model> {
        &self.model
    }

    pub(crate) fn app(&self) -> &Arc<App> {
        &self.app
    }

    /// It is decoded, and goes to its model now.
    pub(crate) fn decoded(&self, decoded: &mut DecodedRequest) {
        if let Some(trace) = &self.trace {
            trace.decoded(decoded);
        }
    }

    /// An answer is about to go out.
    pub(crate) fn answered(&mut self, timings: Timings, last: bool) {
        self.timings = timings;
        self.complete |= last;
    }

    /// The model has told the status of the whole answer.
    pub(crate) fn set_status(&mut self, status: u16) {
        self.told = Some(status);
    }

    /// There are no further answers.
    pub(crate) fn complete(&mut self) {
        self.complete = true;
    }

    /// It failed.
    pub(crate) fn fail(&mut self, error: &Error) {
        self.end(Some(error));
    }

    fn end(&mut self, error: Option<&Error>) {
        if std::mem::replace(&mut self.ended, true) {
            return;
        }
        let telemetry = RequestTelemetry {
            app: &self.app,
            protocol: self.protocol,
            started: self.started,
            trace: self.trace.take(),
        };
        let status = (self.status)(&self.app, error);
        match error {
            None if let Some(told) = self.told => {
                let refused = refusal(&ResponseHead { status: told, ..ResponseHead::default() });
                telemetry.completed(&self.model, (&self.id, told.into()), self.timings, refused.as_ref());
            }
            None => telemetry.succeeded(&self.model, &self.id, status, self.timings),
            Some(error) => telemetry.failed(Some(&self.model), &self.id, status, error),
        }
    }
}

impl Drop for StreamTelemetry {
    fn drop(&mut self) {
        let left = Error::new(Kind::Cancelled, "the client left before the end of the answers");
        self.end(Some(&left).filter(|_| !self.complete));
    }
}

/// Adds the headers that say where a request's time went.
pub(crate) fn timing_headers(headers: &mut HeaderMap, timings: Timings) {
    let seconds = |duration: Duration| format!("{:.6}", duration.as_secs_f64());
    let values = [
        ("x-penstock-queue-seconds", seconds(timings.queue)),
        ("x-penstock-compute-seconds", seconds(timings.compute)),
        ("x-penstock-batch-size", timings.batch_rows.to_string()),
    ];
    for (name, value) in values {
        if let Ok(value) = HeaderValue::try_from(value) {
            headers.insert(name, value);
        }
    }
}
