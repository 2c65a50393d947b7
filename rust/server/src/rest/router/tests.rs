use super::*;
use penstock_core::{Dialect, ModelSpec};
use penstock_wire::openapi::{Gives, RequestLimits, Route as Doc, ServedModel, ServerDescription, Takes, document};
use std::collections::BTreeSet;

/// The path of a row, with names in place of its parameters.
fn example(route: &Route) -> String {
    let named = route.doc.path.replace("{model}", "m").replace("{version}", "1");
    named.replace("{region}", "r").replace("{repository}", "p")
}

#[test]
fn every_route_is_found_by_its_path() {
    for row in ROUTES {
        let path = example(row);
        let same = |route: &Route| std::ptr::eq(route, row);
        let found = match Endpoint::find(&Config::default(), &path) {
            Endpoint::Inference(operation, ModelPath { model, version }) => {
                assert_eq!((&*model, version.is_some()), ("m", path.contains("/versions/")), "{path}");
                matches!(row.handler, Handler::Inference(own) if own == operation)
            }
            Endpoint::Path(routes, params) => {
                assert_eq!(params.len(), row.doc.path.matches('{').count(), "{path}");
                routes.iter().any(same)
            }
            Endpoint::Unknown(_) => false,
        };
        assert!(found, "{path}");
    }
}

#[test]
fn all_methods_of_a_path_have_one_category() {
    for row in ROUTES {
        let of_path = ROUTES.iter().filter(|other| other.doc.path == row.doc.path);
        assert!(of_path.into_iter().all(|other| other.requires == row.requires), "{}", row.doc.path);
        let path = example(row);
        assert_eq!(Endpoint::find(&Config::default(), &path).requirement(&Method::GET), row.requires, "{path}");
    }
}

#[test]
fn documented_routes_have_unique_ids_and_summaries() {
    let described: Vec<&Route> = ROUTES.iter().filter(|route| !route.hidden).collect();
    let ids: BTreeSet<&str> = described.iter().map(|route| route.doc.id).collect();
    assert_eq!(ids.len(), described.len());
    assert!(described.iter().all(|route| !route.doc.summary.is_empty() && !route.doc.id.is_empty()));
    assert!(described.iter().all(|route| route.doc.method == route.handler.method()));
}

#[test]
fn schemas_named_by_routes_are_in_the_document() {
    let routes: Vec<Doc> = ROUTES.iter().filter(|route| !route.hidden).map(|route| route.doc).collect();
    let spec = ModelSpec { name: "m".into(), ..ModelSpec::default() };
    let bounds = RequestLimits { body_bytes: 1, header_bytes: 1, headers: 1, uri_bytes: 1, json_depth: 1 };
    let site = ServerDescription {
        name: "penstock",
        version: "1",
        routes: &routes,
        models: &[ServedModel { spec: &spec, is_default: true }],
        bounds,
        dialect: Dialect::Penstock,
        strict_json: false,
        timing_headers: false,
    };
    let document: serde_json::Value = serde_json::from_slice(&document(&site)).unwrap();
    let schemas = &document["components"]["schemas"];
    for route in &routes {
        if let Gives::Json(schema) = route.gives {
            assert!(schemas.get(schema).is_some(), "{schema}");
        }
        if let Takes::Json(schema) = route.takes {
            assert!(schemas.get(schema).is_some(), "{schema}");
        }
        let is_described = document["paths"].get(route.path).is_some();
        assert_eq!(is_described, !matches!(route.gives, Gives::OfModel), "{}", route.path);
    }
}

#[test]
fn allowed_methods_are_listed() {
    let methods = |path: &str| match Endpoint::find(&Config::default(), path) {
        Endpoint::Path(routes, _) => allowed(routes),
        _ => String::new(),
    };
    assert_eq!(methods("/v2/logging"), "GET,HEAD,POST");
    assert_eq!(methods("/v2"), "GET,HEAD");
    assert_eq!(methods("/v2/repository/index"), "POST");
}

#[test]
fn docs_routes_can_be_disabled() {
    let config = Config { docs: false, ..Config::default() };
    for path in ["/docs", "/openapi.json", "/v2/models/m/docs"] {
        assert!(matches!(Endpoint::find(&config, path), Endpoint::Unknown(_)), "{path}");
        assert!(matches!(Endpoint::find(&Config::default(), path), Endpoint::Path(..)), "{path}");
    }
}

#[test]
fn docs_page_needs_no_access_key() {
    for path in ["/docs", "/v2/docs"] {
        let endpoint = Endpoint::find(&Config::default(), path);
        assert_eq!(endpoint.requirement(&Method::GET), Requirement::Nothing, "{path}");
    }
}

fn requirement(method: &Method, path: &str) -> Category {
    match Endpoint::find(&Config::default(), path).requirement(method) {
        Requirement::Category(category) => category,
        Requirement::Nothing => panic!("{path} requires nothing"),
    }
}

fn get_category(path: &str) -> Category {
    requirement(&Method::GET, path)
}

#[test]
fn every_route_has_its_category() {
    assert_eq!(get_category("/v2/health/ready"), Category::Health);
    assert_eq!(get_category("/v2/models/m/ready"), Category::Health);
    assert_eq!(get_category("/v2/models/m/versions/1/ready"), Category::Health);
    assert_eq!(get_category("/v2/models/m/versions/1/config"), Category::ModelConfig);
    assert_eq!(get_category("/v2/models/m/versions/1/stats"), Category::Statistics);
    assert_eq!(get_category("/v2/models/stats"), Category::Statistics);
    assert_eq!(get_category("/metrics"), Category::Metrics);
    assert_eq!(get_category("/v2/models/m/trace/setting"), Category::Trace);
    assert_eq!(get_category("/v2/trace/setting"), Category::Trace);
    assert_eq!(get_category("/v2/logging"), Category::Logging);
    assert_eq!(get_category("/v2/cudasharedmemory/status"), Category::SharedMemory);
    let post_category = |path| requirement(&Method::POST, path);
    assert_eq!(post_category("/v2/repository/models/m/load"), Category::ModelRepository);
    assert_eq!(post_category("/v2/models/m/batching"), Category::ModelRepository);
    assert_eq!(post_category("/v2/models/m/versions/1/batching"), Category::ModelRepository);
    assert_eq!(get_category("/debug/batching"), Category::Debug);
    for path in ["/v2/models/m/infer", "/v2/models/m/versions/1/generate_stream", "/v1/models/m:predict"] {
        assert_eq!(post_category(path), Category::Inference, "{path}");
    }
}

#[test]
fn model_name_does_not_change_the_access_category() {
    for path in ["/v2", "/v2/", "/v2/models", "/v2/models/ready", "/v2/models/m/versions/config", "/v1/models"] {
        assert_eq!(get_category(path), Category::Metadata, "{path}");
    }
    assert_eq!(get_category("/v2/models/stats/config"), Category::ModelConfig);
    assert_eq!(get_category("/v2/models/versions/ready"), Category::Health);
}
