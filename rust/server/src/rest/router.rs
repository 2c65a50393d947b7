//! Matching of paths with the table of routes.

use super::{
    error,
    handler::{Handler, PathParams},
    handlers::live,
    nearest::nearest,
    operation::{ModelPath, Operation},
    route::Route,
    routes::ROUTES,
};
use crate::{
    body::{Body, RequestBody},
    settings::{Categories, Category, Config, LiveAccess, Requirement},
    state::Context,
};
use http::{
    HeaderMap, HeaderName, HeaderValue, Method, Response,
    header::{ALLOW, CONTENT_LENGTH, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS},
};
use http_body::Body as _;
use matchit::Router;
use percent_encoding::percent_decode_str;
use std::sync::LazyLock;

/// Endpoint of a path.
pub(crate) enum Endpoint<'p> {
    /// An inference operation.
    Inference(Operation, ModelPath<'p>),
    /// A path of the table.
    Path(&'static [Route], Vec<(&'static str, &'p str)>),
    /// No route.
    Unknown(&'p str),
}

/// Headers for browsers: a response is what its type says, and links do not reveal this server.
const FOR_BROWSERS: [(HeaderName, &str); 2] = [(X_CONTENT_TYPE_OPTIONS, "nosniff"), (REFERRER_POLICY, "no-referrer")];

/// The routes of each path.
static PATHS: LazyLock<Router<&'static [Route]>> = LazyLock::new(|| {
    let mut router = Router::new();
    // The methods of one path stand next to each other.
    for routes in ROUTES.chunk_by(|one, next| one.doc.path == next.doc.path) {
        if let Some(route) = routes.first().filter(|route| !matches!(route.handler, Handler::Inference(_))) {
            // A test finds each path of the table.
            let _ = router.insert(route.doc.path, routes);
        }
    }
    router
});

/// The patterns of inference, by operation and whether they have a version.
static INFERENCE: LazyLock<Vec<((Operation, bool), &'static str)>> = LazyLock::new(|| {
    let of = |route: &Route| match route.handler {
        Handler::Inference(operation) => Some(((operation, route.doc.path.contains("{version}")), route.doc.path)),
        _ => None,
    };
    ROUTES.iter().filter_map(of).collect()
});

impl<'p> Endpoint<'p> {
    /// Finds the endpoint of a path, for any method.
    pub(crate) fn find(config: &Config, path: &'p str) -> Self {
        if let Some((operation, path)) = Operation::parse(path) {
            return Self::Inference(operation, path);
        }
        let Ok(found) = PATHS.at(path) else { return Self::Unknown(path) };
        let routes: &'static [Route] = found.value;
        if !config.docs && routes.iter().all(Route::is_documentation) {
            return Self::Unknown(path);
        }
        if config.live == LiveAccess::Off && routes.iter().all(|route| route.live) {
            return Self::Unknown(path);
        }
        let names = routes.first().into_iter().flat_map(Route::params);
        let params = names.filter_map(|name| Some((name, found.params.get(name)?))).collect();
        Self::Path(routes, params)
    }

    /// Returns the endpoint, or that of an unknown path where its category is hidden.
    pub(crate) fn visible(self, method: &Method, hidden: Categories, path: &'p str) -> Self {
        let is_hidden = !hidden.is_empty()
            && match &self {
                Self::Path(routes, _) if routes.iter().all(|route| route.is_hidden(hidden)) => true,
                endpoint => matches!(endpoint.requirement(method), Requirement::Category(one) if hidden.contain(one)),
            };
        if is_hidden { Self::Unknown(path) } else { self }
    }

    /// Reports whether it is the live page.
    pub(crate) fn is_live_page(&self) -> bool {
        matches!(self, Self::Path(routes, _) if routes.iter().any(|route| route.live))
    }

    /// Returns the secret that requests of a method must carry. Without a route they count as metadata, or as inference
    /// for
    /// `POST`; so do other methods of a path that is open.
    pub(crate) fn requirement(&self, method: &Method) -> Requirement {
        let of_method = if method == Method::POST { Category::Inference } else { Category::Metadata };
        match self {
            Self::Inference(..) => Requirement::Category(Category::Inference),
            Self::Unknown(_) => Requirement::Category(of_method),
            Self::Path(routes, _) => {
                let other = routes.first().filter(|route| route.requires != Requirement::Nothing);
                let route = find(routes, method).or(other);
                route.map_or(Requirement::Category(of_method), |route| route.requires)
            }
        }
    }

    /// Returns the pattern of the route, such as `/v2/models/{model}/infer`.
    pub(crate) fn pattern(&self) -> Option<&'static str> {
        match self {
            Self::Inference(operation, path) => {
                let known = (*operation, path.version.is_some());
                INFERENCE.iter().find_map(|(one, pattern)| (*one == known).then_some(*pattern))
            }
            Self::Path(routes, _) => routes.first().map(|route| route.doc.path),
            Self::Unknown(_) => None,
        }
    }

    /// Answers a request that is not an inference call.
    pub(crate) async fn respond<B: RequestBody>(
        self,
        context: &Context,
        method: &Method,
        request: (&HeaderMap, B),
    ) -> Response<Body> {
        let (routes, params) = match self {
            Self::Inference(..) => return not_allowed("POST"),
            Self::Unknown(path) => {
                let docs = context.app.config.docs;
                let shown = ROUTES.iter().filter(|route| !route.hidden && (docs || !route.is_documentation()));
                let shown = shown.filter(|route| !route.is_hidden(context.hidden));
                return error::not_found(nearest(shown, path));
            }
            Self::Path(routes, params) => (routes, params),
        };
        let Some(route) = find(routes, method) else { return not_allowed(&allowed(routes)) };
        let decoded = |(name, value)| (name, percent_decode_str(value).decode_utf8_lossy().into_owned());
        let params = PathParams::new(params.into_iter().map(decoded).collect());
        let allowed = if route.live { live::check_access(context, request.0) } else { Ok(()) };
        let response = match (allowed, route.audited) {
            (Ok(()), None) => route.handler.run(context, &params, request).await,
            (Ok(()), Some(action)) => {
                let work = route.handler.run(context, &params, request);
                Box::pin(context.audited((action, params.target().as_deref()), work)).await
            }
            (Err(error), _) => Err(error),
        };
        let mut response = response.unwrap_or_else(|error| {
            context.audit_denied(&error, method.as_str(), route.doc.path);
            error::response(&context.app, &error)
        });
        for (name, value) in FOR_BROWSERS {
            response.headers_mut().insert(name, HeaderValue::from_static(value));
        }
        if method == Method::HEAD { without_body(response) } else { response }
    }
}

/// Returns the route of a method; `HEAD` has that of `GET`.
fn find<'r>(routes: &'r [Route], method: &Method) -> Option<&'r Route> {
    let name = if method == Method::HEAD { "GET" } else { method.as_str() };
    routes.iter().find(|route| route.handler.method().eq_ignore_ascii_case(name))
}

/// Answers a request to a listener that serves metrics and health only, without access rules. Probes of Kubernetes cannot
/// present a client certificate.
pub(crate) async fn metrics_only<B: RequestBody>(
    context: &Context,
    (method, path): (&Method, &str),
    request: (&HeaderMap, B),
) -> Response<Body> {
    let endpoint = Endpoint::find(&context.app.config, path);
    let is_served = ["/metrics", "/v2/health/live", "/v2/health/ready"].contains(&path);
    let endpoint = if is_served { endpoint } else { Endpoint::Unknown("") };
    endpoint.respond(context, method, request).await
}

/// Returns the methods of a path, in the form of the header `Allow`.
fn allowed(routes: &[Route]) -> String {
    let methods = routes.iter().map(|route| match route.handler.method() {
        "get" => "GET,HEAD",
        "delete" => "DELETE",
        _ => "POST",
    });
    methods.collect::<Vec<_>>().join(",")
}

fn not_allowed(methods: &str) -> Response<Body> {
    let mut response = error::method_not_allowed();
    response.headers_mut().extend(HeaderValue::try_from(methods).ok().map(|methods| (ALLOW, methods)));
    response
}

/// Turns the response to `GET` into that to `HEAD`.
fn without_body(mut response: Response<Body>) -> Response<Body> {
    if let Some(length) = response.body().size_hint().exact() {
        response.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from(length));
    }
    *response.body_mut() = Body::empty();
    response
}

#[cfg(test)]
mod tests;
