use crate::{
    net::InProcess,
    settings::{Access, Category, Config},
};
use bytes::Bytes;
use http::{Request, Response};
use penstock_core::{
    BatchOutput, Fallback, HttpRequest, Model, ModelSpec, Readiness, Registry, RequestOutput, ResponseHead, Result,
    Route, Work, metrics::Metrics,
};
use std::{sync::Arc, thread};

type Handler = fn(&HttpRequest) -> Result<ResponseHead>;

/// Creates a server with one raw-request model, whose handler takes HTTP requests.
struct TestServer {
    server: InProcess,
    registry: Arc<Registry>,
    model: Arc<Model>,
    metrics: Arc<Metrics>,
}

fn head(status: u16, body: String) -> ResponseHead {
    ResponseHead { status, body: Some(body.into()), ..ResponseHead::default() }
}

/// Formats the received request.
fn echo(http: &HttpRequest) -> Result<ResponseHead> {
    let HttpRequest { route, method, path, query, path_params, body, .. } = http;
    Ok(head(200, format!("{route}|{method}|{path}|{query}|{path_params:?}|{}", String::from_utf8_lossy(body))))
}

fn serve(config: Config, routes: &[&str], handler: Handler) -> TestServer {
    let (registry, metrics) = (Arc::new(Registry::default()), Arc::new(Metrics::default()));
    let routes = routes.iter().map(|text| Route::parse(text).unwrap()).collect();
    let fallback = Some(Fallback { model: "other".into(), timeout: None, match_body: [Box::from(*b"odd")].into() });
    let spec = ModelSpec { name: "m".into(), raw_requests: true, routes, fallback, ..ModelSpec::default() };
    let model = Arc::new(Model::new(spec, &metrics));
    start(&registry, &model, handler);
    let server = InProcess::new(config, Arc::clone(&registry), Arc::clone(&metrics)).unwrap();
    server.set_ready();
    TestServer { server, registry, model, metrics }
}

/// Runs a handler for a model.
fn start(registry: &Registry, model: &Arc<Model>, handler: Handler) {
    registry.insert(Arc::clone(model)).unwrap();
    model.set_readiness(Readiness::Ready);
    let queue = Arc::clone(model.queue());
    thread::spawn(move || {
        while let Some(work) = queue.next(0) {
            let Work::Batch(job) = work else { continue };
            let response = |http: &HttpRequest| {
                let head = handler(http)?;
                Ok(RequestOutput { head: Some(Box::new(head)), ..RequestOutput::default() })
            };
            let requests = job.parts().iter().map(|part| part.request.raw.as_ref().unwrap().http.as_ref().unwrap());
            let per_request = requests.map(|http| response(http)).collect();
            job.finish(Ok(BatchOutput { per_request: Some(per_request), ..BatchOutput::default() }));
        }
    });
}

impl TestServer {
    fn send(&self, request: Request<Bytes>) -> Response<Bytes> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(self.server.handle(request))
    }

    fn call(&self, line: &str, body: &'static str) -> Response<Bytes> {
        let (method, uri) = line.split_once(' ').unwrap();
        self.send(Request::builder().method(method).uri(uri).body(Bytes::from_static(body.as_bytes())).unwrap())
    }

    /// Returns status and body.
    fn text(&self, line: &str, body: &'static str) -> (u16, String) {
        let response = self.call(line, body);
        (response.status().as_u16(), String::from_utf8(response.body().to_vec()).unwrap())
    }
}

#[test]
fn raw_request_reaches_its_model_unchanged() {
    let server = serve(Config::default(), &["POST /score/{customer}", "GET /files/{path...}"], echo);
    let (status, text) = server.text("POST /score/anna%20m%2F%C3%BC?x=1&y=%20", "{\"a\":1}");
    let expected = "POST /score/{customer}|POST|/score/anna%20m%2F%C3%BC|x=1&y=%20";
    assert_eq!((status, text), (200, format!("{expected}|[(\"customer\", \"anna m/ü\")]|{{\"a\":1}}")));
    let (_, text) = server.text("GET /files/a/b%2Fc", "");
    assert_eq!(text, "GET /files/{path...}|GET|/files/a/b%2Fc||[(\"path\", \"a/b/c\")]|");
    assert_eq!(server.call("GET /files/", "").headers()["content-type"], "application/octet-stream");
}

#[test]
fn other_paths_reach_the_built_in_routes() {
    let server = serve(Config::default(), &["POST /score/{customer}"], echo);
    for line in ["GET /nothing", "POST /score", "POST /score/", "POST /score/a/b"] {
        assert_eq!(server.text(line, "").0, 404, "{line}");
    }
    assert_eq!(server.text("POST /score/%ff", "").0, 400);
    assert_eq!(server.text("GET /v2/health/live", "").0, 200);
    assert_eq!(server.text("POST /v1/models/m:predict", "{}").0, 501);
    assert_eq!(server.text("POST /v2/models/nobody/infer", "{}").0, 404);
}

#[test]
fn other_methods_are_refused_with_an_allow_header() {
    let server = serve(Config::default(), &["POST /a", "GET /a", "PUT /v2/health/live", "POST /"], echo);
    let refused = |line: &str| {
        let response = server.call(line, "");
        assert_eq!(response.body(), r#"{"error":"Method Not Allowed"}"#, "{line}");
        (response.status().as_u16(), response.headers()["allow"].to_str().unwrap().to_owned())
    };
    assert_eq!(refused("DELETE /a"), (405, "GET, HEAD, POST".to_owned()));
    assert_eq!(refused("DELETE /v2/health/live"), (405, "GET, HEAD, PUT".to_owned()));
    // Built-in routes keep their own methods.
    assert_eq!(server.text("GET /v2/health/live", "").1, r#"{"live":true}"#);
    assert_eq!(server.text("GET /", "").0, 200);
    assert!(server.text("POST /", "").1.starts_with("POST /|"));
    assert!(server.text("HEAD /a", "").1.starts_with("GET /a|HEAD|"));
}

#[test]
fn declared_route_precedes_a_built_in_one() {
    let routes = ["GET /metrics", "POST /v1/models/m:predict", "POST /{all...}"];
    let server = serve(Config::default(), &routes, echo);
    assert!(server.text("GET /metrics", "").1.starts_with("GET /metrics|"));
    assert!(server.text("POST /v1/models/m%3Apredict", "").1.starts_with("POST /v1/models/m:predict|"));
    assert!(server.text("POST /v2/models/m/generate", "").1.starts_with("POST /{all...}|"));
    // A pattern does not match inference paths.
    assert!(!server.text("POST /v2/models/m/infer", "{}").1.contains('|'));
}

#[test]
fn literal_route_of_an_inference_path_replaces_inference() {
    let routes = ["POST /v2/models/my model/infer", "POST /v2/models/{m}/versions/1/infer", "POST /{all...}"];
    let server = serve(Config::default(), &routes, echo);
    let taken = "POST /v2/models/my model/infer|POST|/v2/models/my%20model/infer|a=b|[]|no tensors";
    assert_eq!(server.text("POST /v2/models/my%20model/infer?a=b", "no tensors"), (200, taken.to_owned()));
    for line in ["POST /v2/models/m/infer", "POST /v2/models/m/versions/1/infer", "POST /v2/models/nobody/infer"] {
        assert!(!server.text(line, "{}").1.contains('|'), "{line}");
    }
    let send = |name: &str, value: &str| {
        let request = Request::builder().method("POST").uri("/v2/models/my%20model/infer").header(name, value);
        let response = server.send(request.body(Bytes::from_static(b"{}")).unwrap());
        (response.status().as_u16(), String::from_utf8(response.body().to_vec()).unwrap())
    };
    assert!(send("content-type", "application/x-npy").1.contains('|'));
    // The server decodes raw tensors, and it has no such model.
    let expected = r#"{"error":"unknown model 'my model'"}"#;
    assert_eq!(send("inference-header-content-length", "2"), (404, expected.to_owned()));
}

#[test]
fn model_sets_status_headers_and_errors() {
    let server = serve(Config::default(), &["GET /{what}"], |http| match &*http.path_params[0].1 {
        "teapot" => Ok(ResponseHead { headers: [("X-Pot", "tea")].into_iter().collect(), ..head(418, "short".into()) }),
        "split" => Ok(ResponseHead { headers: [("x", "a\r\nb: c")].into_iter().collect(), ..head(200, String::new()) }),
        "nothing" => Ok(ResponseHead { body: None, ..head(202, String::new()) }),
        _ => Err(penstock_core::Error::new(penstock_core::Kind::Forbidden, "not you")),
    });
    let teapot = server.call("GET /teapot", "");
    assert_eq!((teapot.status().as_u16(), &teapot.headers()["x-pot"]), (418, &"tea".parse().unwrap()));
    let nothing = server.call("GET /nothing", "");
    assert_eq!((nothing.status().as_u16(), nothing.headers().len(), nothing.body().len()), (202, 0, 0));
    let expected = r#"{"error":"model 'm' answered with a header \"x\" whose value HTTP does not allow"}"#;
    assert_eq!(server.text("GET /split", ""), (500, expected.to_owned()));
    assert_eq!(server.text("GET /else", ""), (403, r#"{"error":"not you"}"#.to_owned()));
    let metrics = server.metrics.exposition_with("");
    for outcome in ["ok", "invalid_input", "handler", "forbidden"] {
        let line = format!("outcome=\"{outcome}\"");
        assert!(metrics.lines().any(|one| one.contains("m\"") && one.contains(&line)), "{outcome}: {metrics}");
    }
}

#[test]
fn fallback_serves_failed_and_misdirected_requests() {
    let server = serve(Config::default(), &["POST /{what}"], |http| match &*http.path_params[0].1 {
        "misdirected" => Ok(head(421, "the first's".into())),
        "fails" => Err(penstock_core::Error::handler("broken")),
        _ => Ok(head(200, "the first's".into())),
    });
    assert_eq!(server.text("POST /misdirected", ""), (421, "the first's".to_owned()));
    assert_eq!(server.text("POST /good", "odd"), (200, "the first's".to_owned()));
    assert_eq!(server.text("POST /fails", ""), (500, r#"{"error":"broken"}"#.to_owned()));
    let spec = ModelSpec { name: "other".into(), raw_requests: true, ..ModelSpec::default() };
    start(&server.registry, &Arc::new(Model::new(spec, &server.metrics)), |http| {
        let why = http.primary_error.as_ref().map_or("none", penstock_core::Error::message).to_owned();
        Ok(head(207, format!("{why} {}", echo(http)?.body.map_or(0, |body| body.len()))))
    });
    let length = |path: &str, body: &str| format!("POST /{{what}}|POST|/{path}||[(\"what\", \"{path}\")]|{body}").len();
    assert_eq!(server.text("POST /good", "a"), (200, "the first's".to_owned()));
    assert_eq!(server.text("POST /misdirected", "a"), (207, format!("none {}", length("misdirected", "a"))));
    assert_eq!(server.text("POST /fails", "ab"), (207, format!("broken {}", length("fails", "ab"))));
    assert_eq!(server.text("POST /good", "an odd one"), (207, format!("none {}", length("good", "an odd one"))));
}

#[test]
fn refused_request_gets_the_reason() {
    let server = serve(Config::default(), &["GET /a"], echo);
    server.model.set_refusal(Some("it warms up"));
    let refused = server.call("GET /a", "");
    assert_eq!((refused.status().as_u16(), &refused.headers()["retry-after"]), (503, &"1".parse().unwrap()));
    assert_eq!(refused.body(), r#"{"error":"model 'm' is not ready: it warms up"}"#);
    assert_eq!(server.text("GET /v2/models/m/ready", "").0, 503);
    assert!(server.text("GET /v2/models/m/ready", "").1.contains("it warms up"));
    server.model.set_refusal(None);
    assert_eq!(server.text("GET /a", "").0, 200);
}

#[test]
fn body_limits_and_access_keys_apply_to_routes() {
    let mut access = Access::default();
    access.restrict(Category::Inference, "x-key", "secret").unwrap();
    let config = Config { access, ..Config::default() };
    config.limits.max_body_bytes.set(8);
    let server = serve(config, &["GET /a", "POST /a"], echo);
    assert_eq!(server.text("GET /a", "").0, 403);
    let post = |body: &'static str| {
        let request = Request::builder().method("POST").uri("/a").header("x-key", "secret");
        server.send(request.body(Bytes::from_static(body.as_bytes())).unwrap())
    };
    assert_eq!(post("12345678").status().as_u16(), 200);
    let large = post("123456789");
    assert_eq!(large.status().as_u16(), 413);
    assert_eq!(large.body(), r#"{"error":"the request's body has 9 bytes, at most 8 are accepted"}"#);
}
