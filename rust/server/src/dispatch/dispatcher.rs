//! Dispatcher of one listener on one I/O thread. Inference goes straight to its handler, all other REST requests
//! through the table of routes, gRPC reflection through tonic.

use super::{
    hosts::{self, Names},
    keyed::{Keyed, wants_key},
    pages::PageRules,
};
use crate::{
    body::{Body, RequestBody},
    grpc,
    rest::{self, DeclaredRouteRequest, Endpoint, Inference, Operation, PlatformCall, PlatformRequest},
    settings::{Categories, Category, Requirement, Serves},
    state::{App, Context, Phase, RemoteCache},
    streams::EventId,
};
use axum::Router;
use http::{HeaderValue, Method, Response, Version, header::CONNECTION, request::Parts};
use penstock_core::{ClientIdentity, CompletionQueue, Error, Protocol, Result};
use penstock_wire::rest::error as wire;
use std::{borrow::Cow, sync::Arc};

/// Protocols of a listener, and its clients.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ListenerScope {
    pub(crate) serves: Serves,
    /// Set where only programs of this machine connect.
    pub(crate) local: bool,
    /// A port of TCP, which web pages reach too.
    pub(crate) tcp: bool,
    /// Set where TLS is spoken, over which browsers use HTTP/2.
    pub(crate) tls: bool,
    /// Set where connections begin with a header of the PROXY protocol.
    pub(crate) proxied: bool,
    /// TCP port; 0 for Unix sockets.
    pub(crate) port: u16,
}

/// Routes of one listener, on one I/O thread.
#[derive(Debug)]
pub(crate) struct Dispatcher {
    pub(super) context: Context,
    pub(super) scope: ListenerScope,
    /// Set where the host that a request names is checked.
    checks_hosts: bool,
    /// gRPC reflection, and unknown services.
    pub(super) grpc: Option<Router>,
    /// Rules for web pages.
    pages: Arc<PageRules>,
    /// The routes behind those rules; `None` where there are no rules, or behind them.
    behind_pages: Option<Arc<Self>>,
    /// Set where the client of each request is to be found, by its key or by what a proxy says.
    pub(super) finds_client: bool,
    /// Set where the peer of the connection is a trusted proxy.
    pub(super) is_forwarded: bool,
    /// Routes for the last key of the connection.
    pub(super) keyed: Keyed,
}

impl Dispatcher {
    pub(crate) fn new(app: Arc<App>, completions: Option<CompletionQueue>, scope: ListenerScope) -> Self {
        let remote = completions.as_ref().and_then(|_| RemoteCache::new(&app));
        let hidden = if scope.serves.admin { Categories::default() } else { app.config.admin_only };
        let context = Context {
            app,
            completions,
            remote,
            local: scope.local,
            local_peer: scope.local,
            hidden,
            client: Arc::default(),
            key: None,
            request_log: None,
        };
        let config = &context.app.config;
        let pages = Arc::new(PageRules::new(config, scope.tls));
        Self {
            pages,
            behind_pages: None,
            finds_client: wants_key(&context, scope.serves),
            is_forwarded: false,
            checks_hosts: scope.tcp && hosts::are_checked(&config.allowed_hosts, scope.local),
            grpc: scope.serves.grpc.then(|| grpc::router(config.grpc_reflection)),
            scope,
            keyed: Keyed::default(),
            context,
        }
    }

    /// Returns the same routes for the requests of one connection. `local` is set where its client is a program of this
    /// machine.
    pub(crate) fn for_connection(&self, client: ClientIdentity, local: bool) -> Self {
        let local_peer = local || self.context.local_peer;
        let is_forwarded = self.context.app.config.trusted_proxies.contain(client.address);
        let context = Context { local_peer, client: Arc::new(client), ..self.context.clone() };
        let routes = |context| {
            let routes = self.in_context(context);
            Self { is_forwarded, finds_client: routes.finds_client || is_forwarded, ..routes }
        };
        let has_rules = self.scope.serves.rest && !self.pages.is_empty();
        Self { behind_pages: has_rules.then(|| Arc::new(routes(context.clone()))), ..routes(context) }
    }

    pub(super) fn in_context(&self, context: Context) -> Self {
        let Self { scope, checks_hosts, ref grpc, .. } = *self;
        Self {
            finds_client: wants_key(&context, scope.serves),
            context,
            scope,
            checks_hosts,
            grpc: grpc.clone(),
            pages: Arc::clone(&self.pages),
            behind_pages: None,
            is_forwarded: false,
            keyed: Keyed::default(),
        }
    }

    /// Returns the protocols of the listener, and its clients.
    pub(crate) const fn scope(&self) -> &ListenerScope {
        &self.scope
    }

    /// Answers one REST request.
    pub(crate) async fn respond<B: RequestBody>(
        &self,
        head: &Parts,
        body: &mut B,
        protocol: Protocol,
    ) -> Response<Body> {
        if let Some(behind) = &self.behind_pages {
            return Box::pin(behind.respond_to_page(&self.pages, (head, body), protocol)).await;
        }
        if self.finds_client {
            return Box::pin(self.respond_to_client(head, body, protocol)).await;
        }
        let response = match self.context.app.log.observes_requests() {
            false => self.dispatch(head, body, protocol).await,
            // Boxed: the futures of requests that are not logged stay small.
            true => Box::pin(self.dispatch_logged(head, body, protocol)).await,
        };
        self.close_if_draining(head.version < Version::HTTP_2, response)
    }

    /// Closes a connection of HTTP/1 with its response. HTTP/2 has no such header: its connections get GOAWAY.
    pub(super) fn close_if_draining(&self, closable: bool, mut response: Response<Body>) -> Response<Body> {
        if closable && self.context.app.phase() == Phase::Draining {
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }

    pub(super) async fn dispatch<B: RequestBody>(
        &self,
        head: &Parts,
        body: &mut B,
        protocol: Protocol,
    ) -> Response<Body> {
        let app = &self.context.app;
        if let Err(error) = self.check_host(head, protocol) {
            return rest::refusal(self.count_refused(head, &error), &error);
        }
        if !self.scope.serves.rest {
            return Box::pin(self.metrics_only(head, body)).await;
        }
        if let Err(error) = rest::check_head(&app.config.limits, &head.uri, &head.headers) {
            return error;
        }
        // A platform may give its own meaning to any path.
        if let Some(platforms) = &app.config.platforms
            && let Some(call) = PlatformCall::parse(platforms, &head.method, head.uri.path())
        {
            if let Err(error) = self.context.check_rest(call.requirement(), &head.headers) {
                return rest::refusal(self.count_refused(head, &error), &error);
            }
            if let Some(log) = &self.context.request_log {
                // It is that of the platform's route.
                log.set_route(Cow::Owned(head.uri.path().to_owned()));
            }
            let request = PlatformRequest { headers: &head.headers, body, protocol };
            return Box::pin(rest::platform(&self.context, platforms, call, request)).await;
        }
        self.route(head, body, protocol).await
    }

    /// Answers a REST request by its path: the routes that models declare, inference, the table.
    async fn route<B: RequestBody>(&self, head: &Parts, body: &mut B, protocol: Protocol) -> Response<Body> {
        let (app, Parts { method, uri, headers, .. }) = (&self.context.app, head);
        let (path, query) = (uri.path(), uri.query());
        let endpoint = Endpoint::find(&app.config, path).visible(method, self.context.hidden, path);
        let is_post = *method == Method::POST;
        if let Some(id) = rest::find_resumed(&self.context, &endpoint, (method, path, headers)) {
            return Box::pin(self.resume(id, endpoint, head, body)).await;
        }
        let declared = match endpoint {
            // V2 inference needs no look-up where no model's route replaces it.
            Endpoint::Inference(Operation::Infer, _) if is_post => match app.registry.has_infer_routes() {
                true => Ok(rest::find_infer_route(app, path, headers)),
                false => Ok(None),
            },
            _ if app.registry.has_routes() => rest::find_route(app, method, path),
            _ => Ok(None),
        };
        let methods = match declared {
            Ok(Some(target)) if self.context.models().sees(target.model_name()) => {
                let requires = Requirement::Category(Category::Inference);
                if let Err(error) = self.context.check_rest(requires, headers) {
                    return rest::refusal(self.count_refused(head, &error), &error);
                }
                if let Some(log) = &self.context.request_log {
                    log.set_route(Cow::Owned(target.pattern().to_owned()));
                }
                let query = query.unwrap_or_default();
                let request = DeclaredRouteRequest { method, path, query, headers, body, protocol };
                return Box::pin(rest::declared_route(&self.context, target, request)).await;
            }
            Ok(_) => None,
            Err(methods) => Some(methods),
        };
        if let Err(error) = self.context.check_rest(endpoint.requirement(method), headers) {
            return rest::refusal(self.count_refused(head, &error), &error);
        }
        match endpoint {
            Endpoint::Inference(operation, path) if is_post => {
                let request = Inference { path, query, headers, body, protocol };
                rest::inference(&self.context, operation, request).await
            }
            endpoint => {
                let response = Box::pin(self.table(endpoint, head, body)).await;
                self.log_unknown(head, protocol, &response);
                match methods {
                    None => response,
                    Some(methods) => rest::with_allowed_methods(response, &methods),
                }
            }
        }
    }

    /// Answers a request that resumes an event stream.
    async fn resume<B: RequestBody>(
        &self,
        id: EventId,
        endpoint: Endpoint<'_>,
        head: &Parts,
        body: &mut B,
    ) -> Response<Body> {
        if let Err(error) = self.context.check_rest(Requirement::Category(Category::Inference), &head.headers) {
            return rest::refusal(self.count_refused(head, &error), &error);
        }
        rest::resume(&self.context, id, endpoint, (head.uri.path(), body)).await
    }

    /// Answers a request of the table. Web pages of other origins are refused here, for all of its routes.
    async fn table<B: RequestBody>(&self, endpoint: Endpoint<'_>, head: &Parts, body: &mut B) -> Response<Body> {
        let (app, Parts { method, uri, headers, .. }) = (&self.context.app, head);
        let refused = hosts::check_page(&app.config.allowed_hosts, method, uri, headers);
        if let Err(error) = refused.and_then(|()| rest::check_path(uri.path())) {
            return rest::refusal(self.count_refused(head, &error), &error);
        }
        endpoint.respond(&self.context, method, (headers, body)).await
    }

    /// Counts a request that is refused by its host, origin, secret or key, and records denied access.
    #[cold]
    pub(super) fn count_refused(&self, head: &Parts, error: &Error) -> &Arc<App> {
        self.for_audit(&head.headers).audit_denied(error, head.method.as_str(), head.uri.path());
        self.context.app.metrics.refused.add(error.kind());
        &self.context.app
    }

    /// Checks the host that a request names.
    pub(super) fn check_host(&self, head: &Parts, protocol: Protocol) -> Result<()> {
        // A call in this process has no host.
        if protocol != Protocol::Http {
            return Ok(());
        }
        let names = Names { allowed: &self.context.app.config.allowed_hosts, addresses: !self.context.local };
        let names = self.checks_hosts.then_some(names);
        hosts::check_host(names, head.version, &head.uri, &head.headers)
    }

    /// Answers a request of a listener without REST: the metrics, if it serves them. Access rules do not apply to it.
    async fn metrics_only<B: RequestBody>(&self, head: &Parts, body: &mut B) -> Response<Body> {
        if !self.scope.serves.metrics {
            let error = Error::invalid("this port serves gRPC only, expected the content type application/grpc");
            return rest::json(415, wire::body(&error));
        }
        if let Err(error) = rest::check_head(&self.context.app.config.limits, &head.uri, &head.headers) {
            return error;
        }
        rest::metrics_only(&self.context, (&head.method, head.uri.path()), (&head.headers, body)).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Config;
    use bytes::Bytes;
    use http::Request;
    use http_body_util::Full;
    use penstock_core::{Registry, metrics::Metrics};

    /// Largest size of the future of a REST request, in bytes. It is moved with each request.
    const MOST: usize = 1_304;

    #[test]
    fn future_of_a_request_stays_small() {
        let app = App::new(Config::default(), Arc::new(Registry::default()), Arc::new(Metrics::default())).unwrap();
        let scope = ListenerScope {
            serves: Serves { rest: true, grpc: true, ..Serves::default() },
            local: true,
            tcp: true,
            tls: false,
            proxied: false,
            port: 0,
        };
        let dispatcher = Dispatcher::new(Arc::new(app), None, scope);
        let (head, mut body) = Request::new(Full::<Bytes>::default()).into_parts();
        let size = size_of_val(&dispatcher.respond(&head, &mut body, Protocol::InProcess));
        assert!(size <= MOST, "a request's future has {size} bytes, at most {MOST} are moved with each request");
    }
}
