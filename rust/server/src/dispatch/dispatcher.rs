//! The front door of one I/O thread. Inference goes straight to its handler; all other routes go
//! through axum, which also carries gRPC reflection.

use super::hosts::{self, Names};
use crate::{
    body::{Body, Incoming},
    grpc,
    rest::{self, GenerateVerb, Hosted, HostedRequest, InferPath, Inference, RoutedRequest, Verb},
    settings::Category,
    state::{App, Context, Phase, Remote},
};
use axum::Router;
use http::{HeaderValue, Method, Request, Response, Version, header::CONNECTION};
use penstock_core::{CompletionQueue, Protocol, Result};
use std::{convert::Infallible, sync::Arc};
use tower::ServiceExt as _;

/// What a listener serves, and to whom.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Served {
    pub(crate) rest: bool,
    pub(crate) grpc: bool,
    pub(crate) metrics: bool,
    pub(crate) local: bool,
    /// A port of TCP, which web pages reach too.
    pub(crate) tcp: bool,
}

/// The routes of one listener, on one I/O thread.
#[derive(Clone, Debug)]
pub(crate) struct Front {
    context: Context,
    /// Whether requests must carry something.
    guarded: bool,
    /// Set where the name by which requests call the server is checked.
    checks_hosts: bool,
    rest: Option<Router>,
    grpc: Option<Router>,
    /// What is served where REST is not.
    metrics: Option<Router>,
}

impl Front {
    pub(crate) fn new(app: Arc<App>, desk: Option<CompletionQueue>, served: Served) -> Self {
        let remote = desk.as_ref().and_then(|_| Remote::new(&app));
        let context = Context { app, desk, remote, local: served.local };
        Self {
            guarded: !context.app.config.access.is_open(),
            checks_hosts: served.tcp && hosts::are_checked(&context.app.config.allowed_hosts, served.local),
            rest: served.rest.then(|| rest::router(context.clone())),
            grpc: served.grpc.then(|| grpc::router(context.app.config.reflection)),
            metrics: served.metrics.then(|| rest::metrics_router(context.clone())),
            context,
        }
    }

    /// Answers one request, whatever it is.
    pub(crate) async fn handle<B: Incoming>(&self, request: Request<B>, protocol: Protocol) -> Response<Body> {
        // HTTP/2 has no such header: its connections are told to go away as a whole.
        let closable = request.version() < Version::HTTP_2;
        let mut response = self.route(request, protocol).await;
        if closable && self.context.app.phase() == Phase::Draining {
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }

    async fn route<B: Incoming>(&self, request: Request<B>, protocol: Protocol) -> Response<Body> {
        let app = &self.context.app;
        let calls = self.grpc.as_ref().filter(|_| grpc::is_grpc(&request));
        if let Err(error) = self.check_caller(&request, protocol, calls.is_some()) {
            return if calls.is_some() { grpc::refusal(app, &error) } else { rest::refusal(app, &error) };
        }
        if let Some(router) = calls {
            if self.guarded
                && let Err(error) = app.config.access.check_call(request.uri().path(), request.headers())
            {
                return grpc::refusal(app, &error);
            }
            return match grpc::answer(&self.context, request).await {
                Ok(response) => response,
                Err(request) => routed(router, request).await,
            };
        }
        let Some(router) = &self.rest else {
            return self.metrics_only(request).await;
        };
        if let Err(error) = rest::check_head(&app.config.limits, request.uri(), request.headers()) {
            return error;
        }
        let (head, body) = request.into_parts();
        let (path, query, headers) = (head.uri.path(), head.uri.query(), &head.headers);
        // A platform may give its own meaning to any path.
        if let Some(hosting) = &app.config.hosting
            && let Some(asked) = Hosted::parse(hosting, &head.method, path)
        {
            let request = HostedRequest { headers, body, protocol };
            return Box::pin(rest::hosted(&self.context, hosting, asked, request)).await;
        }
        let inference = if head.method == Method::POST { InferPath::parse(path) } else { None };
        let own = match inference {
            // Where no model takes the place of V2's inference, nothing is looked up for it.
            Some(_) if app.registry.has_infer_routes() => Ok(rest::find_infer_route(app, path, headers)),
            None if app.registry.has_routes() => rest::find_route(app, &head.method, path),
            _ => Ok(None),
        };
        // The routes of models' own go before the built-in ones.
        let methods = match own {
            Ok(Some(target)) => {
                if let Err(error) = app.config.access.check_category(Category::Inference, headers) {
                    return rest::refusal(app, &error);
                }
                let query = query.unwrap_or_default();
                let request = RoutedRequest { method: &head.method, path, query, headers, body, protocol };
                return Box::pin(rest::routed(&self.context, target, request)).await;
            }
            Ok(None) => None,
            Err(methods) => Some(methods),
        };
        if self.guarded
            && let Err(error) = app.config.access.check_rest(&head.method, path, headers)
        {
            return rest::refusal(app, &error);
        }
        let inference = inference.map(|path| (path, None)).or_else(|| verb(&head.method, path));
        if let Some((path, verb)) = inference {
            return rest::inference(&self.context, verb, Inference { path, query, headers, body, protocol }).await;
        }
        let response = Box::pin(self.built_in(router, Request::from_parts(head, body), protocol)).await;
        match methods {
            None => response,
            Some(methods) => rest::allowing(response, &methods),
        }
    }

    /// Checks by which name a request calls, and that a call of gRPC is no page's.
    fn check_caller<B>(&self, request: &Request<B>, protocol: Protocol, is_call: bool) -> Result<()> {
        // Browsers speak HTTP/2 over TLS only, which is not served: no page makes real calls, but one in HTTP/1.1 would do.
        if is_call && request.version() >= Version::HTTP_2 {
            return Ok(());
        }
        let (uri, headers) = (request.uri(), request.headers());
        let allowed = &*self.context.app.config.allowed_hosts;
        // A call in this process goes to no host.
        if protocol == Protocol::Http {
            let names = Names { allowed, addresses: !self.context.local };
            hosts::check_host(self.checks_hosts.then_some(names), request.version(), uri, headers)?;
        }
        if is_call { hosts::check_page(allowed, request.method(), uri, headers) } else { Ok(()) }
    }

    /// Answers a request that is for none of the models' own routes, and no inference of V1 or V2. What is no inference
    /// at all passes one check before the router, so that no route can forget it.
    async fn built_in<B: Incoming>(&self, router: &Router, request: Request<B>, protocol: Protocol) -> Response<Body> {
        let (head, body) = request.into_parts();
        let (path, query, headers) = (head.uri.path(), head.uri.query(), &head.headers);
        if head.method == Method::POST {
            if let Some((verb, path)) = GenerateVerb::parse(path) {
                let request = Inference { path, query, headers, body, protocol };
                return rest::generate(&self.context, verb, request).await;
            }
        } else if Verb::parse(path).is_some() {
            return rest::v1_takes_post();
        }
        let config = &self.context.app.config;
        let refused = hosts::check_page(&config.allowed_hosts, &head.method, &head.uri, headers);
        if let Err(error) = refused.and_then(|()| rest::check_path(path)) {
            return rest::refusal(&self.context.app, &error);
        }
        routed(router, Request::from_parts(head, body)).await
    }

    /// Where REST is not served: the metrics, if they are. No access rule is asked: who may collect them
    /// is who may connect.
    async fn metrics_only<B: Incoming>(&self, request: Request<B>) -> Response<Body> {
        let Some(router) = &self.metrics else {
            return grpc::not_grpc();
        };
        let (uri, headers) = (request.uri(), request.headers());
        if let Err(error) = rest::check_head(&self.context.app.config.limits, uri, headers) {
            return error;
        }
        routed(router, request).await
    }
}

/// A model and what V1 has it do, if that is what a request asks.
fn verb<'a>(method: &Method, path: &'a str) -> Option<(InferPath<'a>, Option<Verb>)> {
    let (path, verb) = if method == Method::POST { Verb::parse(path) } else { None }?;
    Some((path, Some(verb)))
}

async fn routed<B: Incoming>(router: &Router, request: Request<B>) -> Response<Body> {
    let response: std::result::Result<_, Infallible> = Box::pin(router.clone().oneshot(request)).await;
    match response {
        Ok(response) => response.map(|body| Body::Streamed(body)),
        Err(never) => match never {},
    }
}
