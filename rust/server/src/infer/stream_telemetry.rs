//! Metrics, log line and trace of a request with several responses, in all protocols.

use super::{RequestTelemetry, recorder::Recorder, response_head::to_error as refusal};
use crate::{
    observe::{RequestLog, spans::RequestTrace},
    state::App,
};
use penstock_core::{Error, Kind, Model, Protocol, ResponseHead, Timings, metrics::StreamProgress};
use penstock_wire::DecodedRequest;
use std::{sync::Arc, time::Instant};

/// Telemetry of a request with several responses. One that is dropped before its end
/// was left by its client.
pub(crate) struct StreamTelemetry {
    app: Arc<App>,
    protocol: Protocol,
    started: Instant,
    trace: Option<Arc<RequestTrace>>,
    /// `None` where the request is not logged.
    log: Option<Arc<RequestLog>>,
    model: Arc<Model>,
    id: String,
    status: fn(&App, Option<&Error>) -> i32,
    /// Status that the model set.
    head_status: Option<u16>,
    timings: Timings,
    progress: StreamProgress,
    complete: bool,
    ended: bool,
}

impl StreamTelemetry {
    /// Continues `telemetry`; `status` maps an outcome to the protocol's status.
    pub(crate) fn new(
        app: &Arc<App>,
        telemetry: &RequestTelemetry<'_>,
        request: (&Arc<Model>, &str),
        status: fn(&App, Option<&Error>) -> i32,
    ) -> Self {
        let RequestTelemetry { context, protocol, started, ref trace } = *telemetry;
        let (trace, log) = (trace.clone(), context.request_log.clone());
        let (model, id) = (Arc::clone(request.0), request.1.to_owned());
        let app = Arc::clone(app);
        Self {
            app,
            protocol,
            started,
            trace,
            log,
            model,
            id,
            status,
            head_status: None,
            timings: Timings::default(),
            progress: StreamProgress::default(),
            complete: false,
            ended: false,
        }
    }

    pub(crate) fn model(&self) -> &Arc<Model> {
        &self.model
    }

    pub(crate) fn app(&self) -> &Arc<App> {
        &self.app
    }

    /// Records that the request is decoded.
    pub(crate) fn decoded(&self, decoded: &mut DecodedRequest) {
        if let Some(trace) = &self.trace {
            trace.decoded(decoded);
        }
        if let Some(log) = &self.log {
            log.submitted(&self.model);
        }
    }

    /// Counts bytes of a message that answers one of several requests of a call.
    pub(crate) fn sent(&self, bytes: usize) {
        if let Some(log) = &self.log {
            log.sent(bytes);
        }
    }

    /// Records a response.
    pub(crate) fn responded(&mut self, timings: Timings, last: bool) {
        self.count_response(timings);
        self.timings = timings;
        self.complete |= last;
    }

    /// Observes a response of a model that streams. Not inlined: the loops over responses stay small.
    #[inline(never)]
    fn count_response(&mut self, timings: Timings) {
        let Some(stream) = &self.model.metrics().stream else { return };
        if self.progress.responded(stream, self.started, timings.compute)
            && let Some(trace) = &self.trace
        {
            trace.responded();
        }
    }

    /// Sets the status of the whole response.
    pub(crate) fn set_status(&mut self, status: u16) {
        self.head_status = Some(status);
    }

    /// Marks the end of the responses.
    pub(crate) fn complete(&mut self) {
        self.complete = true;
    }

    /// Records a failure.
    pub(crate) fn fail(&mut self, error: &Error) {
        self.end(Some(error));
    }

    fn end(&mut self, error: Option<&Error>) {
        if std::mem::replace(&mut self.ended, true) {
            return;
        }
        if let Some(stream) = &self.model.metrics().stream {
            self.progress.end(stream, error.is_some());
        }
        let trace = self.trace.take();
        let recorder = Recorder {
            app: &self.app,
            protocol: self.protocol,
            started: self.started,
            trace: trace.as_ref(),
            log: self.log.as_ref(),
        };
        let (status, timings) = ((self.status)(&self.app, error), self.timings);
        match error {
            None if let Some(head_status) = self.head_status => {
                let refused = refusal(&ResponseHead { status: head_status, ..ResponseHead::default() });
                recorder.completed(&self.model, (&self.id, head_status.into()), timings, refused.as_ref(), None);
            }
            None => recorder.succeeded(&self.model, (&self.id, status), timings, None),
            Some(error) => recorder.failed(Some(&self.model), &self.id, status, error),
        }
    }
}

impl Drop for StreamTelemetry {
    fn drop(&mut self) {
        let left = Error::new(Kind::Cancelled, "the client left before the end of the responses");
        self.end(Some(&left).filter(|_| !self.complete));
    }
}
