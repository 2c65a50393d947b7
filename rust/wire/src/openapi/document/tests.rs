use super::*;
use crate::{
    openapi::{RequestLimits, ServedModel, routes},
    rest::testing,
};
use penstock_core::{Datatype, Dialect, Document, ModelSpec, Route, TensorSpec};
use std::sync::Arc;

const BOUNDS: RequestLimits =
    RequestLimits { body_bytes: 1024, header_bytes: 512, headers: 10, uri_bytes: 256, json_depth: 8 };

/// Some of the server's routes.
const ROUTES: &[routes::Route] = &[
    routes::Route::new("get", "/v2", ("server_metadata", Tag::Server, "Metadata of the server")).json("ServerMetadata"),
    routes::Route::new("get", "/v2/models/{model}", ("model_metadata", Tag::Models, "Metadata of a model"))
        .json("ModelMetadata"),
    routes::Route::new("post", "/v2/models/{model}/infer", ("infer", Tag::Inference, "Inference"))
        .of_model(Takes::Inference),
    routes::Route::new(
        "post",
        "/v2/models/{model}/versions/{version}/infer",
        ("infer_version", Tag::Inference, "Inference"),
    )
    .of_model(Takes::Inference),
    routes::Route::new("post", "/v2/models/{model}/generate", ("generate", Tag::Inference, "Flat objects"))
        .of_model(Takes::Generate),
    routes::Route::new("post", "/v1/models/{model}:predict", ("predict", Tag::V1, "Predictions"))
        .of_model(Takes::Predict),
    routes::Route::new("get", "/metrics", ("metrics", Tag::Server, "Metrics")).text("text/plain"),
];

fn build(specs: &[ModelSpec]) -> Value {
    let models: Vec<ServedModel<'_>> = specs.iter().map(|spec| ServedModel { spec, is_default: true }).collect();
    let site = ServerDescription {
        name: "penstock",
        version: "1",
        routes: ROUTES,
        models: &models,
        bounds: BOUNDS,
        dialect: Dialect::Penstock,
        strict_json: false,
        timing_headers: true,
    };
    serde_json::from_slice(&document(&site)).unwrap()
}

/// Every reference in a value.
fn references(value: &Value) -> Vec<&str> {
    match value {
        Value::Array(items) => items.iter().flat_map(references).collect(),
        Value::Object(members) => {
            let own = members.get("$ref").and_then(Value::as_str);
            own.into_iter().chain(members.values().flat_map(references)).collect()
        }
        _ => Vec::new(),
    }
}

#[test]
fn every_openapi_reference_resolves() {
    let document = build(&[testing::add()]);
    let found = references(&document);
    assert!(found.len() > 20);
    for reference in found {
        assert!(document.pointer(&reference[1..]).is_some(), "{reference}");
    }
}

#[test]
fn each_model_has_an_operation_and_example() {
    let document = build(&[testing::add()]);
    let operation = &document["paths"]["/v2/models/add/infer"]["post"];
    let example = &operation["requestBody"]["content"]["application/json"]["examples"]["request"]["value"];
    let input = |name: &str| json!({"name": name, "datatype": "FP32", "shape": [1, 4], "data": [1, 1, 1, 1]});
    assert_eq!(*example, json!({"inputs": [input("a"), input("b")]}));
    let responses = operation["responses"].as_object().unwrap();
    let statuses: Vec<&str> = responses.keys().map(String::as_str).collect();
    assert_eq!(
        statuses,
        ["200", "400", "401", "403", "404", "413", "414", "415", "429", "431", "500", "501", "503", "504"]
    );
    assert!(document["paths"].get("/v2/models/{model}/infer").is_none());
    assert!(document["paths"]["/v2/models/add/versions/1/infer"]["post"].is_object());
}

#[test]
fn document_schemas_retain_their_definitions() {
    let text = r##"{"$ref": "#/$defs/Node", "$defs": {"Node": {"properties": {"next": {"$ref": "#/$defs/Node"}}}}}"##;
    let document = Document { schema: text.to_owned(), example: None };
    let input = TensorSpec {
        document: true,
        described: Some(Arc::new(document)),
        ..TensorSpec::new("node", Datatype::Bytes, Vec::new())
    };
    let document = build(&[ModelSpec { name: "a b".into(), inputs: vec![input], ..ModelSpec::default() }]);
    let schema = &document["components"]["schemas"]["a_b.1.input.node"];
    assert_eq!(schema["$ref"], "#/components/schemas/a_b.1.input.node/$defs/Node");
    assert!(references(&document).iter().all(|reference| document.pointer(&reference[1..]).is_some()));
    let operation = &document["paths"]["/v2/models/a%20b/infer"]["post"];
    assert!(operation["requestBody"]["content"]["application/json"].get("examples").is_none());
}

#[test]
fn server_without_models_has_a_document() {
    let document = build(&[]);
    assert!(document["paths"]["/v2"]["get"].is_object());
    assert!(document["paths"].get("/v2/models/{model}").is_none());
}

#[test]
fn formats_are_listed_if_they_hold_the_datatype() {
    let tensor = |datatype| TensorSpec::new("x", datatype, vec![Some(2)]);
    let model = |name: &str, datatype| ModelSpec {
        name: name.into(),
        inputs: vec![tensor(datatype)],
        outputs: vec![tensor(datatype)],
        ..ModelSpec::default()
    };
    let document = build(&[model("text", Datatype::Bytes), model("bf16", Datatype::Bf16)]);
    let kinds = |name: &str, place: &str| -> Vec<String> {
        let content = document.pointer(&format!("/paths/~1v2~1models~1{name}~1infer/post/{place}/content")).unwrap();
        content.as_object().unwrap().keys().map(|kind| kind.replace("application/", "")).collect()
    };
    for place in ["requestBody", "responses/200"] {
        let text = ["json", "msgpack", "octet-stream", "vnd.apache.arrow.stream", "x-npy", "x-npz"];
        assert_eq!(kinds("text", place), text);
        let bf16 = ["json", "msgpack", "octet-stream", "x-npy", "x-npz", "x-safetensors"];
        assert_eq!(kinds("bf16", place), bf16);
    }
}

#[test]
fn raw_request_model_is_documented_with_its_routes() {
    let routes = ["POST /v1/models/my m:predict", "GET /files/{name}/{rest...}", "PURGE /files", "GET /metrics"];
    let spec = ModelSpec {
        name: "my m".into(),
        raw_requests: true,
        routes: routes.iter().map(|text| Route::parse(text).unwrap()).collect(),
        ..ModelSpec::default()
    };
    let other = ModelSpec {
        name: "b".into(),
        raw_requests: true,
        routes: vec![Route::parse("PUT /files/{a}/{b...}").unwrap()],
        ..ModelSpec::default()
    };
    let document = build(&[spec, other]);
    for reference in references(&document) {
        assert!(document.pointer(&reference[1..]).is_some(), "{reference}");
    }
    let paths = &document["paths"];
    let infer = &paths["/v2/models/my%20m/infer"]["post"];
    assert_eq!(infer["x-penstock"]["routes"], json!(routes));
    assert!(infer["requestBody"]["content"]["application/json"].get("examples").is_none());
    assert!(paths.get("/v2/models/my%20m/generate").is_none());
    let predict = &paths["/v1/models/my%20m:predict"]["post"];
    assert_eq!(predict["tags"], json!(["routes of models"]));
    assert!(predict["requestBody"]["content"]["*/*"].is_object());
    // Of two names for one path, the first.
    let files = &paths["/files/{name}/{rest}"];
    assert_eq!(files["get"]["parameters"][1]["name"], "rest");
    assert_eq!(files["put"]["parameters"][0]["name"], "name");
    assert!(files["get"].get("requestBody").is_none());
    assert_eq!(paths["/metrics"]["get"]["summary"], "A route of my m");
    assert!(paths.get("/files").is_none());
}
