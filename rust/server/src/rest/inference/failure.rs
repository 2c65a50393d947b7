//! Why a request that may be answered in pieces has no answer.

use crate::{body::Body, infer::RequestTelemetry, rest::error, state::App};
use http::Response;
use penstock_core::{Error, Model};

/// An error, and whether the [`StreamTelemetry`](crate::telemetry::StreamTelemetry) of its stream has told of it already.
pub(crate) struct Failure {
    error: Error,
    recorded: bool,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self { error, recorded: false }
    }
}

impl Failure {
    /// One of which a record has told.
    pub(crate) fn recorded(error: Error) -> Self {
        Self { error, recorded: true }
    }

    /// The answer that says so. Metrics and log know of it afterwards.
    pub(crate) fn answer(
        self,
        app: &App,
        telemetry: &RequestTelemetry<'_>,
        (model, id): (Option<&Model>, &str),
    ) -> Response<Body> {
        let response = error::response(app, &self.error);
        if !self.recorded {
            telemetry.failed(model, id, response.status().as_u16().into(), &self.error);
        }
        response
    }
}
