//! Records of a request's end, in all protocols: metrics, log line, trace, and the figures of the live page.

use crate::{
    observe::{
        Entry, MAX_NAME_BYTES, RequestLog,
        live::{Failed, RequestRecord, is_failure},
        plain,
        spans::RequestTrace,
    },
    settings::{LiveAccess, LogLevel},
    state::{App, ResponseClock, ResponseMemory},
};
use penstock_core::{Error, Kind, Model, Protocol, Timings};
use penstock_wire::rest::error as wire;
use std::{
    sync::Arc,
    time::{Instant, SystemTime},
};

/// Recorder of the end of one request.
#[derive(Clone, Copy)]
pub(super) struct Recorder<'a> {
    pub(super) app: &'a App,
    pub(super) protocol: Protocol,
    pub(super) started: Instant,
    pub(super) trace: Option<&'a Arc<RequestTrace>>,
    /// `None` where the request is not logged.
    pub(super) log: Option<&'a Arc<RequestLog>>,
}

impl Recorder<'_> {
    /// Records a success. The request's time ends once a large response, which has `memory`, is sent.
    pub(super) fn succeeded(
        &self,
        model: &Model,
        (id, status): (&str, i32),
        timings: Timings,
        memory: Option<&mut ResponseMemory>,
    ) {
        model.metrics().served(self.protocol);
        let trace_id = self.trace.map(|trace| trace.trace_id());
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
    pub(super) fn completed(
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
    pub(super) fn failed(&self, model: Option<&Model>, id: &str, status: i32, error: &Error) {
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
    pub(super) fn unrouted(&self, status: i32, error: &Error) {
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
        if !log.observes_requests() {
            return;
        }
        let entry = Entry {
            id: if id.is_empty() { format!("#{}", self.app.next_request_id()) } else { id.to_owned() },
            protocol: self.protocol.name(),
            model: model.map(|model| Arc::clone(model.spec())),
            outcome: outcome.0,
            status: outcome.1,
            duration: self.started.elapsed(),
            timings,
            error: error.map(str::to_owned),
            trace_id: self.trace.map(|trace| *trace.trace_id()),
        };
        match self.log {
            Some(request_log) => request_log.end(entry),
            // It began before the log was turned on.
            None if log.logs_requests() => log.request(&entry, None),
            None => {}
        }
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

    fn ended(&self, model: Option<&Model>, id: &str, status: i32, error: Option<&Error>) {
        if let Some(trace) = self.trace {
            trace.ended(model, id, status, error);
        }
    }
}
