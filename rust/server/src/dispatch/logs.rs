//! Log lines of the dispatcher: of connections that speak another protocol, and of requests that no route answers.

use super::Dispatcher;
use crate::{body::Body, infer::RequestTelemetry, rest, settings::LogLevel};
use http::{Response, StatusCode, request::Parts};
use penstock_core::{Error, Kind, Protocol};
use std::sync::atomic::Ordering;

impl Dispatcher {
    /// Logs a connection that does not begin with a header of the PROXY protocol, once for the server.
    pub(crate) fn log_missing_proxy_header(&self, why: &str) {
        let (app, port) = (&self.context.app, self.scope.port);
        if !app.proxy_header_logged.swap(true, Ordering::Relaxed) {
            let text = format!("a connection to port {port} was closed, which expects the PROXY protocol: {why}");
            app.log.event(LogLevel::Warning, &text);
        }
    }

    /// Logs a client that speaks TLS to an address without it, once for the server.
    pub(crate) fn log_tls_client(&self) {
        let (app, port) = (&self.context.app, self.scope.port);
        if !app.tls_client_logged.swap(true, Ordering::Relaxed) {
            let text = format!("a client spoke TLS to port {port}, which has no certificate (tls_certificate)");
            app.log.event(LogLevel::Warning, &text);
        }
    }

    /// Logs a request that no route answers: there is no telemetry of it.
    pub(super) fn log_unknown(&self, head: &Parts, protocol: Protocol, response: &Response<Body>) {
        let app = &self.context.app;
        if !rest::is_of_no_route(response) || !(app.log.logs_requests() || app.log.is_enabled(LogLevel::Debug)) {
            return;
        }
        let (kind, why) = match response.status() {
            StatusCode::NOT_FOUND => (Kind::NotFound, "no such path"),
            _ => (Kind::MethodNotAllowed, "the path has no such method"),
        };
        let error = Error::new(kind, format!("{} {}: {why}", head.method, head.uri.path()));
        RequestTelemetry::start(&self.context, protocol).unrouted(response.status().as_u16().into(), &error);
    }
}
