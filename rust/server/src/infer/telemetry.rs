//! Metrics, log line and trace of an inference request, in all protocols.

use super::recorder::Recorder;
use crate::{
    observe::spans::RequestTrace,
    state::{Context, ResponseMemory},
};
use http::{HeaderMap, HeaderValue};
use penstock_core::{Error, Model, Protocol, Result, Timings};
use penstock_wire::{
    DecodedRequest,
    grpc::{TIMEOUT_HEADER, timeout},
};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

/// Telemetry of a request with one response.
#[derive(Debug)]
pub(crate) struct RequestTelemetry<'a> {
    pub(super) context: &'a Context,
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
    pub(crate) fn start(context: &'a Context, protocol: Protocol) -> Self {
        Self { context, protocol, started: Instant::now(), trace: None }
    }

    /// Starts a trace, if tracing is on and the request is sampled.
    pub(crate) fn traced(mut self, headers: &HeaderMap) -> Self {
        let tracer = self.context.app.tracer.as_ref();
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
        if let Some(log) = &self.context.request_log {
            log.computed();
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
        let limit = [requested, self.context.app.config.request_timeout.get()].into_iter().flatten().min();
        self.started.checked_add(limit?)
    }

    /// Records a success. The request's time ends once a large response, which has `memory`, is sent.
    pub(crate) fn succeeded(
        &self,
        model: &Model,
        status: (&str, i32),
        timings: Timings,
        memory: Option<&mut ResponseMemory>,
    ) {
        self.recorder().succeeded(model, status, timings, memory);
    }

    /// Records a response with the model's status: a success, or the error of that status.
    pub(crate) fn completed(
        &self,
        model: &Model,
        status: (&str, i32),
        timings: Timings,
        refused: Option<&Error>,
        memory: Option<&mut ResponseMemory>,
    ) {
        self.recorder().completed(model, status, timings, refused, memory);
    }

    /// Records a refusal or failure.
    pub(crate) fn failed(&self, model: Option<&Model>, id: &str, status: i32, error: &Error) {
        self.recorder().failed(model, id, status, error);
    }

    /// Logs a request that no route answers.
    pub(crate) fn unrouted(&self, status: i32, error: &Error) {
        self.recorder().unrouted(status, error);
    }

    fn recorder(&self) -> Recorder<'_> {
        let Self { context, protocol, started, ref trace } = *self;
        Recorder { app: &context.app, protocol, started, trace: trace.as_ref(), log: context.request_log.as_ref() }
    }
}
