//! Dispatch of gRPC calls: their checks, inference, the other services, reflection.

use super::{Dispatcher, hosts};
use crate::{
    body::{Body, RequestBody},
    grpc,
};
use axum::Router;
use http::{Request, Response, Version, request::Parts};
use penstock_core::{Error, Kind, Protocol, Result};
use std::convert::Infallible;
use tower::ServiceExt as _;

impl Dispatcher {
    /// Reports whether a request is a gRPC call that this listener serves.
    pub(crate) fn is_call(&self, head: &Parts) -> bool {
        self.grpc.is_some() && grpc::is_grpc(&head.headers)
    }

    /// Reports whether a request is `ModelInfer`, and this listener serves it.
    pub(crate) fn is_inference_call(&self, head: &Parts) -> bool {
        grpc::is_inference(head.uri.path()) && self.is_call(head)
    }

    /// Answers `ModelInfer`.
    pub(crate) async fn respond_to_inference_call<B: RequestBody>(
        &self,
        head: &Parts,
        body: &mut B,
        protocol: Protocol,
    ) -> Response<Body> {
        if self.finds_client {
            return match self.for_client(&head.headers) {
                Ok(found) => Box::pin(found.respond_to_inference_call(head, body, protocol)).await,
                Err(error) => grpc::refusal(self.count_refused(head, &error), &error),
            };
        }
        let response = match self.check_call(head, protocol) {
            Ok(()) if self.context.app.log.observes_requests() => Box::pin(self.infer_logged(head, body)).await,
            Ok(()) => grpc::infer(&self.context, &head.headers, body).await,
            Err(error) => grpc::refusal(self.count_refused(head, &error), &error),
        };
        self.close_if_draining(head.version < Version::HTTP_2, response)
    }

    /// Answers another gRPC call.
    pub(crate) async fn respond_to_call<B: RequestBody + 'static>(
        &self,
        request: Request<B>,
        protocol: Protocol,
    ) -> Response<Body> {
        if self.finds_client {
            let (head, body) = request.into_parts();
            return match self.for_client(&head.headers) {
                Ok(found) => Box::pin(found.respond_to_call(Request::from_parts(head, body), protocol)).await,
                Err(error) => grpc::refusal(self.count_refused(&head, &error), &error),
            };
        }
        let closable = request.version() < Version::HTTP_2;
        let response = self.call(request, protocol).await;
        self.close_if_draining(closable, response)
    }

    async fn call<B: RequestBody + 'static>(&self, request: Request<B>, protocol: Protocol) -> Response<Body> {
        let app = &self.context.app;
        let (head, body) = request.into_parts();
        if let Err(error) = self.check_call(&head, protocol) {
            return grpc::refusal(self.count_refused(&head, &error), &error);
        }
        let logged = self.logged_stream(&head);
        let context = logged.as_ref().unwrap_or(&self.context);
        match (grpc::call(context, head, body).await, &self.grpc) {
            (Ok(response), _) => response,
            (Err(request), Some(router)) => pass_to_tonic(router, request).await,
            (Err(_), None) => grpc::refusal(app, &Error::new(Kind::MethodNotAllowed, "the service is not served")),
        }
    }

    /// Checks the host of a call, that no web page of another origin sent it, and its access.
    fn check_call(&self, head: &Parts, protocol: Protocol) -> Result<()> {
        // Pages cannot send gRPC, but they can imitate it in what browsers speak: HTTP/1.1, and HTTP/2 over TLS only.
        let is_http1 = head.version < Version::HTTP_2;
        if is_http1 {
            // Over TLS a page by another name fails at the certificate, and proxies use their own authorities.
            self.check_host(head, protocol)?;
        }
        if is_http1 || self.scope.tls {
            hosts::check_page(&self.context.app.config.allowed_hosts, &head.method, &head.uri, &head.headers)?;
        }
        grpc::check_access(&self.context, head)
    }
}

/// Passes a call to tonic.
async fn pass_to_tonic<B: RequestBody + 'static>(router: &Router, request: Request<B>) -> Response<Body> {
    let response: std::result::Result<_, Infallible> = Box::pin(router.clone().oneshot(request)).await;
    match response {
        Ok(response) => response.map(Body::Streamed),
        Err(never) => match never {},
    }
}
