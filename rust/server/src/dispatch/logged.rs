//! Requests of the access log, and slow ones: facts of requests are collected only while one of both is on.

use super::Dispatcher;
use crate::{
    body::{Body, RequestBody},
    grpc,
    infer::BATCH_SIZE_HEADER,
    observe::{RequestFacts, RequestLog, ShortEntry, spans},
    rest::Endpoint,
    settings::AccessField,
    state::Context,
};
use http::{Method, Response, header::USER_AGENT, request::Parts, uri::PathAndQuery};
use penstock_core::Protocol;
use std::{borrow::Cow, sync::Arc, time::Instant};

impl Dispatcher {
    /// Answers a request whose facts are collected.
    pub(super) async fn dispatch_logged<B: RequestBody>(
        &self,
        head: &Parts,
        body: &mut B,
        protocol: Protocol,
    ) -> Response<Body> {
        let log = &self.context.app.log;
        if !log.logs_paths() {
            return self.dispatch_observed(head, body, protocol).await;
        }
        let started = Instant::now();
        let response = match log.slow() {
            None => self.dispatch(head, body, protocol).await,
            Some(_) => self.dispatch_observed(head, body, protocol).await,
        };
        log.short(&ShortEntry {
            method: head.method.as_str(),
            path: head.uri.path_and_query().map_or_else(|| head.uri.path(), PathAndQuery::as_str),
            status: response.status().as_u16().into(),
            failed: response.status().as_u16() >= 400,
            duration: started.elapsed(),
            rows: response.headers().get(BATCH_SIZE_HEADER).and_then(|rows| rows.to_str().ok()),
        });
        response
    }

    async fn dispatch_observed<B: RequestBody>(
        &self,
        head: &Parts,
        body: &mut B,
        protocol: Protocol,
    ) -> Response<Body> {
        let (context, log) = self.logged(head);
        body.log_to(&log);
        let response = self.in_context(context).dispatch(head, body, protocol).await;
        if !log.has_route()
            && let Some(pattern) = Endpoint::find(&self.context.app.config, head.uri.path()).pattern()
        {
            log.set_route(Cow::Borrowed(pattern));
        }
        match head.method == Method::HEAD {
            true => response,
            false => response.map(|body| body.logged(log)),
        }
    }

    /// Answers `ModelInfer`, with its facts.
    pub(super) async fn infer_logged<B: RequestBody>(&self, head: &Parts, body: &mut B) -> Response<Body> {
        let (context, log) = self.logged(head);
        body.log_to(&log);
        log.set_route(Cow::Borrowed(grpc::INFERENCE_CALL));
        grpc::infer(&context, &head.headers, body).await.map(|body| body.logged(log))
    }

    /// Returns the context of a call whose messages are logged one by one; `None` where they are not.
    pub(super) fn logged_stream(&self, head: &Parts) -> Option<Context> {
        let app = &self.context.app;
        if !grpc::is_inference_stream(head.uri.path()) || !app.log.observes_requests() {
            return None;
        }
        let (context, log) = self.logged(head);
        log.set_route(Cow::Borrowed(grpc::INFERENCE_STREAM));
        Some(context)
    }

    /// Returns the context of a request with its log.
    fn logged(&self, head: &Parts) -> (Context, Arc<RequestLog>) {
        let log = &self.context.app.log;
        let facts = RequestFacts {
            client: Arc::clone(&self.context.client),
            method: head.method.clone(),
            tls: self.scope.tls,
            user_agent: head.headers.get(USER_AGENT).filter(|_| log.has_field(AccessField::UserAgent)).cloned(),
            trace_id: if log.has_field(AccessField::TraceId) { spans::trace_id(&head.headers) } else { None },
        };
        let request_log = RequestLog::new(log, facts);
        (Context { request_log: Some(Arc::clone(&request_log)), ..self.context.clone() }, request_log)
    }
}
