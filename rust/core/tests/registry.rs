//! Lookups in the model registry, and their errors.

use penstock_core::{Dialect, Model, ModelSpec, Readiness, Registry, metrics::Metrics};
use std::sync::Arc;

fn registry(dialect: Dialect, raw_requests: bool) -> Registry {
    let registry = Registry::with_dialect(dialect);
    for version in ["1", "2"] {
        let spec = ModelSpec { name: "m".into(), version: version.into(), raw_requests, ..ModelSpec::default() };
        let model = Arc::new(Model::new(spec, &Metrics::default()));
        model.set_readiness(Readiness::Ready);
        registry.insert(model).unwrap();
    }
    registry
}

#[test]
fn registry_dialect_sets_the_error_texts() {
    let registry = Registry::with_dialect(Dialect::Kserve);
    let spec = ModelSpec { name: "m".into(), ..ModelSpec::default() };
    let model = Arc::new(Model::new(spec, &Metrics::default()));
    assert_eq!(model.admit().unwrap_err().message(), "model 'm' is not ready");
    registry.swap("m", vec![Arc::clone(&model)], &[]);
    assert_eq!(model.admit().unwrap_err().message(), "Model with name m is not ready.");
    model.set_refusal(Some("for lunch"));
    assert_eq!(model.admit().unwrap_err().message(), "Model with name m is not ready: for lunch");
    assert_eq!(registry.find("n", None).unwrap_err().message(), "Model with name n does not exist.");
}

#[test]
fn raw_request_model_serves_unknown_versions_in_the_kserve_dialect() {
    let find_in = |dialect, raw_requests, version| {
        let found = registry(dialect, raw_requests).find_permissively("m", version);
        found.map(|model| model.spec().version.to_string()).map_err(|error| error.message().to_owned())
    };
    let found = |version| find_in(Dialect::Kserve, true, version);
    assert_eq!(found(Some("7")).as_deref(), Ok("2"));
    assert_eq!(found(Some("1")).as_deref(), Ok("1"));
    assert_eq!(found(None).as_deref(), Ok("2"));
    for (dialect, raw_requests) in [(Dialect::Kserve, false), (Dialect::Penstock, true), (Dialect::Triton, true)] {
        assert_eq!(find_in(dialect, raw_requests, Some("7")).unwrap_err(), "model 'm' has no version '7'");
    }
    let registry = registry(Dialect::Kserve, true);
    assert_eq!(registry.find("m", Some("7")).unwrap_err().message(), "model 'm' has no version '7'");
    assert_eq!(registry.find_permissively("n", Some("7")).unwrap_err().message(), "Model with name n does not exist.");
    assert_eq!(Registry::reason(registry.find_permissively("m", Some("7"))).unwrap(), None);
    registry.set_refusal("m", None, Some("away")).unwrap();
    assert_eq!(Registry::reason(registry.find_permissively("m", Some("7"))).unwrap().as_deref(), Some("away"));
}
