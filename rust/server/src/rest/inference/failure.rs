//! Failure of a request that may have several responses.

use crate::{body::Body, infer::RequestTelemetry, rest::error, state::App};
use http::Response;
use penstock_core::{Error, Model};

/// An error, and whether its [`StreamTelemetry`](crate::infer::StreamTelemetry) has recorded it.
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
    /// Wraps an error that is recorded already.
    pub(crate) fn recorded(error: Error) -> Self {
        Self { error, recorded: true }
    }

    /// Builds the response, and records the failure.
    pub(crate) fn respond(
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
