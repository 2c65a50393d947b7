//! Metrics, log line and trace of a request with several responses, in all protocols.

use super::{RequestTelemetry, recorder::Recorder, response_head::to_error as refusal};
use crate::{
    observe::{RequestLog, spans::RequestTrace},
    state::App,
};
use penstock_core::{Error, Kind, Model, Protocol, ResponseHead, Timings};
use penstock_wire::DecodedRequest;
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

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
    /// Time of the last response since the cut of its batch; `None` before the first.
    responded_at: Option<Duration>,
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
            responded_at: None,
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
        self.time_response(timings.compute);
        self.timings = timings;
        self.complete |= last;
    }

    /// Observes the time since the request, or since the last response, which needs no clock. Not inlined: the loops over
    /// responses stay small.
    #[inline(never)]
    fn time_response(&mut self, at: Duration) {
        let Some(stream) = &self.model.metrics().stream else { return };
        match self.responded_at.replace(at) {
            None => stream.first_response.observe(self.started.elapsed().as_secs_f64()),
            Some(before) => stream.response_gap.observe(at.saturating_sub(before).as_secs_f64()),
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
