//! Log lines of the dispatcher: of connections that speak another protocol, and of requests by their path.

use super::Dispatcher;
use crate::{
    body::{Body, RequestBody},
    infer::{BATCH_SIZE_HEADER, RequestTelemetry},
    observe::ShortEntry,
    rest,
    settings::LogLevel,
};
use http::{Response, StatusCode, request::Parts, uri::PathAndQuery};
use penstock_core::{Error, Kind, Protocol};
use std::{sync::atomic::Ordering, time::Instant};

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

    /// Answers a request, and logs its path.
    pub(super) async fn dispatch_logged<B: RequestBody>(
        &self,
        head: &Parts,
        body: &mut B,
        protocol: Protocol,
    ) -> Response<Body> {
        let started = Instant::now();
        let response = self.dispatch(head, body, protocol).await;
        self.context.app.log.short(&ShortEntry {
            method: head.method.as_str(),
            path: head.uri.path_and_query().map_or_else(|| head.uri.path(), PathAndQuery::as_str),
            status: response.status().as_u16().into(),
            failed: response.status().as_u16() >= 400,
            duration: started.elapsed(),
            rows: response.headers().get(BATCH_SIZE_HEADER).and_then(|rows| rows.to_str().ok()),
        });
        response
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
        RequestTelemetry::start(app, protocol).unrouted(response.status().as_u16().into(), &error);
    }
}
