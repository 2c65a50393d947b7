//! Metrics, log line and trace of an inference request, in all protocols.

use crate::{
    observe::{
        Entry, MAX_NAME_BYTES,
        live::{Failed, RequestRecord, is_failure},
        plain,
        spans::RequestTrace,
    },
    settings::{LiveAccess, LogLevel},
    state::{App, ResponseClock, ResponseMemory},
};
use http::{HeaderMap, HeaderValue};
use penstock_core::{Error, Kind, Model, Protocol, Result, Timings};
use penstock_wire::{
    DecodedRequest,
    grpc::{TIMEOUT_HEADER, timeout},
    rest::error as wire,
};
use std::{
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

/// Telemetry of a request with one response.
#[derive(Debug)]
pub(crate) struct RequestTelemetry<'a> {
    pub(super) app: &'a App,
    pub(super) protocol: Protocol,
    pub(super) started: Instant,
    pub(super) trace: Option<Arc<RequestTrace>>,
}

/// Model and id of a request, as far as they are known.
#[derive(Debug, Default)]
pub(crate) struct RequestLabels {
    pub(crate) model: Option<Arc<Model>>,
    pub(crate) id: String,
}

impl<'a> RequestTelemetry<'a> {
    pub(crate) fn start(app: &'a App, protocol: Protocol) -> Self {
        Self { app, protocol, started: Instant::now(), trace: None }
    }

    /// Starts a trace, if tracing is on and the request is sampled.
    pub(crate) fn traced(mut self, headers: &HeaderMap) -> Self {
        let tracer = self.app.tracer.as_ref();
        self.trace = tracer.and_then(|tracer| tracer.begin(self.protocol, headers, self.started));
        self
    }

    /// Records that the request is decoded.
    pub(crate) fn decoded(&self, decoded: &mut DecodedRequest) {
        if let Some(trace) = &self.trace {
            trace.decoded(decoded);
        }
    }

    /// Records that the outputs are computed.
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

    /// Returns the earliest deadline of the server, the parameters (`requested`) and the header `grpc-timeout`.
    ///
    /// # Errors
    /// `InvalidInput` for a malformed header.
    pub(crate) fn deadline(&self, headers: &HeaderMap, requested: Option<Duration>) -> Result<Option<Instant>> {
        self.deadline_within(headers.get(TIMEOUT_HEADER), requested)
    }

    /// As [`RequestTelemetry::deadline`], for the header's value.
    ///
    /// # Errors
    /// `InvalidInput` for a malformed header.
    pub(crate) fn deadline_within(
        &self,
        header: Option<&HeaderValue>,
        requested: Option<Duration>,
    ) -> Result<Option<Instant>> {
        let Some(value) = header else { return Ok(self.deadline_after(requested)) };
        let head_status = timeout(value.as_bytes()).ok_or_else(|| {
            let got = value.as_bytes().escape_ascii();
            Error::invalid(format!(
                "header 'grpc-timeout' must be one to eight digits and one of the units H M S m u n, got '{got}'"
            ))
        })?;
        Ok(self.deadline_after([Some(head_status), requested].into_iter().flatten().min()))
    }

    /// Returns the deadline of one of several requests that share their headers.
    pub(crate) fn deadline_after(&self, requested: Option<Duration>) -> Option<Instant> {
        let limit = [requested, self.app.config.request_timeout].into_iter().flatten().min();
        self.started.checked_add(limit?)
    }

    /// Records a success. The request's time ends once a large response, which has `memory`, is sent.
    pub(crate) fn succeeded(
        &self,
        model: &Model,
        (id, status): (&str, i32),
        timings: Timings,
        memory: Option<&mut ResponseMemory>,
    ) {
        model.metrics().served(self.protocol);
        let trace_id = self.trace.as_ref().map(|trace| trace.trace_id());
        match memory {
            None => model.metrics().request_time(self.protocol, self.started.elapsed(), trace_id),
            Some(memory) => memory.time(ResponseClock {
                metrics: Arc::clone(model.metrics()),
                protocol: self.protocol,
                started: self.started,
                trace_id: trace_id.copied(),
            }),
        }
        self.ended(Some(model), id, status, None);
        self.log(Some(model), id, ("ok", status), timings, None);
        if self.app.live.is_watched() {
            self.show(Some(model), id, ("ok", status), timings);
        }
    }

    /// Records a response with the model's status: a success, or the error of that status.
    pub(crate) fn completed(
        &self,
        model: &Model,
        (id, status): (&str, i32),
        timings: Timings,
        refused: Option<&Error>,
        memory: Option<&mut ResponseMemory>,
    ) {
        let Some(error) = refused else { return self.succeeded(model, (id, status), timings, memory) };
        self.report(Some(model), (id, status), error);
        model.metrics().failed(self.protocol, error.kind());
        self.ended(Some(model), id, status, Some(error));
        self.log(Some(model), id, (error.kind().name(), status), timings, Some(error.message()));
        self.keep(Some(model), (id, status), timings, error);
    }

    /// Records a refusal or failure.
    pub(crate) fn failed(&self, model: Option<&Model>, id: &str, status: i32, error: &Error) {
        self.report(model, (id, status), error);
        self.ended(model, id, status, Some(error));
        match model {
            Some(model) => {
                model.metrics().failed(self.protocol, error.kind());
                model.metrics().statistics.failed(self.started.elapsed());
            }
            None => self.app.metrics.refused.add(error.kind()),
        }
        self.log(model, id, (error.kind().name(), status), Timings::default(), Some(error.message()));
        self.keep(model, (id, status), Timings::default(), error);
    }

    /// Logs a request that no route answers.
    pub(crate) fn unrouted(&self, status: i32, error: &Error) {
        self.report(None, ("", status), error);
        self.log(None, "", (error.kind().name(), status), Timings::default(), Some(error.message()));
    }

    /// Logs the cause of a failed request as an event, where no line of the access log has it.
    fn report(&self, model: Option<&Model>, (id, status): (&str, i32), error: &Error) {
        let log = &self.app.log;
        let level = match error.kind() {
            Kind::Internal | Kind::Handler => LogLevel::Error,
            kind if wire::status(kind) >= 500 => LogLevel::Warning,
            _ => LogLevel::Debug,
        };
        if !log.is_enabled(level) || (log.logs_causes() && error.kind() != Kind::Internal) {
            return;
        }
        let (protocol, id) = (self.protocol.name(), plain(id, MAX_NAME_BYTES));
        let of_model = model.map(|model| format!(" {}/{}", model.spec().name, model.spec().version));
        let of_id = if id.is_empty() { String::new() } else { format!(" id={id}") };
        // What follows the first line is a traceback, which is in the log already.
        let cause = error.message().lines().next().unwrap_or_default();
        log.event(level, &format!("{protocol}{} {status}{of_id}: {cause}", of_model.unwrap_or_default()));
    }

    fn log(
        &self,
        model: Option<&Model>,
        id: &str,
        outcome: (&'static str, i32),
        timings: Timings,
        error: Option<&str>,
    ) {
        let log = &self.app.log;
        if !log.logs_requests() {
            return;
        }
        let own = if id.is_empty() { format!("#{}", self.app.next_request_id()) } else { String::new() };
        let spec = model.map(Model::spec);
        log.request(&Entry {
            id: if id.is_empty() { &own } else { id },
            protocol: self.protocol.name(),
            model: spec.map(|spec| &*spec.name),
            version: spec.map_or("-", |spec| &*spec.version),
            outcome: outcome.0,
            status: outcome.1,
            duration: self.started.elapsed(),
            timings,
            error,
        });
    }

    /// Keeps an error for the page at `/live`: of handlers and of the server always, others while someone watches.
    fn keep(&self, model: Option<&Model>, (id, status): (&str, i32), timings: Timings, error: &Error) {
        let (live, is_watched) = (&self.app.live, self.app.live.is_watched());
        if self.app.config.live != LiveAccess::Off && (is_watched || is_failure(error)) {
            let (model, protocol) = (model.map(Model::spec), self.protocol.name());
            live.errors.add(Failed { model, protocol, status, id, error });
        }
        if is_watched {
            self.show(model, id, (error.kind().name(), status), timings);
        }
    }

    /// Adds a request to the figures of the page at `/live`.
    #[cold]
    fn show(&self, model: Option<&Model>, id: &str, (outcome, status): (&'static str, i32), timings: Timings) {
        let duration = self.started.elapsed();
        if let Some(model) = model.filter(|_| outcome == "ok") {
            model.metrics().latency.observe(duration.as_secs_f64());
        }
        self.app.live.requests.add(duration, || RequestRecord {
            serial: 0,
            time: SystemTime::now(),
            model: model.map(|model| Arc::clone(model.spec())),
            protocol: self.protocol.name(),
            id: plain(id, MAX_NAME_BYTES).into_owned(),
            status,
            outcome,
            duration,
            timings,
        });
    }
}
