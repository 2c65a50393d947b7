//! Routes of the models in the table.

use super::{Model, Readiness, Registry, index::version_key, registry::Table};
use crate::{Error, ModelSpec, Result, Route, RouteTable, TableMatch};
use std::sync::{Arc, atomic::Ordering};

/// Routes of the serving models.
pub(super) type Routes = RouteTable<Vec<Arc<Model>>>;

/// Result of a route lookup.
#[derive(Debug)]
pub enum RouteMatch {
    /// A route matches.
    Model {
        /// The highest ready version with the route.
        model: Arc<Model>,
        /// Route as that version declares it.
        route: Arc<str>,
        /// Values of the route's parameters.
        path_params: Vec<(Arc<str>, String)>,
    },
    /// Routes of other methods match: the value of the `Allow` header.
    OtherMethods(String),
    /// No route matches.
    NotFound,
}

impl Registry {
    /// Returns true if a serving model has routes. Called for every request without a built-in route.
    pub fn has_routes(&self) -> bool {
        self.routed.load(Ordering::Relaxed)
    }

    /// Returns true if a route is a V2 inference path. Called for every inference request.
    pub fn has_infer_routes(&self) -> bool {
        self.infers.load(Ordering::Relaxed)
    }

    /// Looks up the model for a path, given by its decoded segments.
    pub fn route<S: AsRef<str>>(&self, method: &str, segments: &[S]) -> RouteMatch {
        let table = self.read();
        match table.routes.find(method, segments) {
            TableMatch::Route { route, target, values } => {
                let Some(model) = chosen(target) else { return RouteMatch::NotFound };
                // Another version may have other parameter names.
                let own = model.spec().routes.iter().find(|own| own.is_same(route)).unwrap_or(route);
                let path_params = own.names().cloned().zip(values).collect();
                RouteMatch::Model { route: Arc::clone(own.text()), path_params, model: Arc::clone(model) }
            }
            TableMatch::OtherMethods(methods) => {
                let mut allowed: Vec<&str> = methods.into_iter().collect();
                if allowed.contains(&"GET") && !allowed.contains(&"HEAD") {
                    allowed.push("HEAD");
                }
                allowed.sort_unstable();
                RouteMatch::OtherMethods(allowed.join(", "))
            }
            TableMatch::NotFound => RouteMatch::NotFound,
        }
    }

    /// Checks that no route of these models belongs to another one of them, or to a serving model that stays.
    ///
    /// # Errors
    /// `InvalidInput`: the message has both models and the route.
    pub fn check_routes(&self, models: &[Arc<Model>], leaving: &[String]) -> Result<()> {
        for (at, model) in models.iter().enumerate() {
            for other in &models[..at] {
                check(model.spec(), other.spec())?;
            }
            for serving in self.all() {
                if !leaving.iter().any(|name| **name == *serving.spec().name) {
                    check(model.spec(), serving.spec())?;
                }
            }
        }
        Ok(())
    }
}

impl Table {
    /// Checks that no serving model has one of the routes.
    pub(super) fn check_routes(&self, spec: &ModelSpec) -> Result<()> {
        if spec.routes.is_empty() {
            return Ok(());
        }
        self.models.values().flat_map(|entry| &entry.serving).try_for_each(|serving| check(spec, serving.spec()))
    }

    /// Adds a model's routes.
    pub(super) fn add_routes(&mut self, model: &Arc<Model>) {
        for route in &model.spec().routes {
            self.routes.entry(route).push(Arc::clone(model));
        }
    }

    /// Rebuilds the routes. Returns whether there are any, and whether one is a V2 inference path.
    pub(super) fn rebuild_routes(&mut self) -> (bool, bool) {
        self.routes = Routes::default();
        let serving: Vec<_> = self.models.values().flat_map(|entry| &entry.serving).cloned().collect();
        serving.iter().for_each(|model| self.add_routes(model));
        let any = serving.iter().any(|model| !model.spec().routes.is_empty());
        (any, serving.iter().any(|model| infers(model.spec())))
    }
}

/// Returns true if a route of the model is a V2 inference path without parameters.
pub(super) fn infers(spec: &ModelSpec) -> bool {
    let of_inference = |route: &Route| {
        route.method() == "POST"
            && route.path().starts_with("/v2/models/")
            && route.path().ends_with("/infer")
            && route.names().next().is_none()
    };
    spec.routes.iter().any(of_inference)
}

/// Model for a route. During a replacement several models may have it: the first name wins, then the highest ready
/// version, else the highest.
fn chosen(models: &[Arc<Model>]) -> Option<&Arc<Model>> {
    let first = &models.first()?.spec().name;
    let versions = models.iter().filter(|model| model.spec().name == *first);
    versions.max_by_key(|model| (model.readiness() == Readiness::Ready, version_key(&model.spec().version)))
}

fn check(one: &ModelSpec, other: &ModelSpec) -> Result<()> {
    if one.name == other.name {
        return Ok(());
    }
    let taken = |route: &&Route| other.routes.iter().any(|known| known.is_same(route));
    match one.routes.iter().find(taken) {
        None => Ok(()),
        Some(route) => Err(Error::invalid(format!(
            "models '{}' and '{}' both have the route '{}': a path leads to one model only",
            other.name,
            one.name,
            route.text()
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Metrics;

    fn model(name: &str, version: &str, routes: &[&str]) -> Arc<Model> {
        let routes = routes.iter().map(|text| Route::parse(text).unwrap()).collect();
        let spec = ModelSpec {
            name: name.into(),
            version: version.into(),
            routes,
            raw_requests: true,
            ..ModelSpec::default()
        };
        let model = Model::new(spec, &Metrics::default());
        model.set_readiness(Readiness::Ready);
        Arc::new(model)
    }

    fn find_route(registry: &Registry, method: &str, path: &str) -> String {
        match registry.route(method, &path[1..].split('/').collect::<Vec<_>>()) {
            RouteMatch::Model { model, route, path_params } => {
                format!("{} {} {route} {path_params:?}", model.spec().name, model.spec().version)
            }
            RouteMatch::OtherMethods(allow) => allow,
            RouteMatch::NotFound => "nothing".to_owned(),
        }
    }

    #[test]
    fn routes_are_added_and_removed_with_their_models() {
        let registry = Registry::default();
        assert!(!registry.has_routes());
        registry.insert(model("plain", "1", &[])).unwrap();
        assert!(!registry.has_routes());
        registry.insert(model("a", "1", &["POST /a/{x}", "GET /a/{x}"])).unwrap();
        assert!(registry.has_routes());
        assert_eq!(find_route(&registry, "POST", "/a/7"), r#"a 1 POST /a/{x} [("x", "7")]"#);
        assert_eq!(find_route(&registry, "PUT", "/a/7"), "GET, HEAD, POST");
        registry.swap("a", vec![model("a", "1", &["POST /b"])], &[]);
        assert_eq!(find_route(&registry, "POST", "/a/7"), "nothing");
        assert_eq!(find_route(&registry, "POST", "/b"), "a 1 POST /b []");
        registry.swap("a", Vec::new(), &[]);
        assert!(!registry.has_routes());
        assert_eq!(find_route(&registry, "POST", "/b"), "nothing");
    }

    #[test]
    fn infer_route_lookup_needs_a_literal_inference_path() {
        let registry = Registry::default();
        registry
            .insert(model("plain", "1", &["POST /v2/models/{m}/infer", "GET /v2/models/a/infer", "POST /a"]))
            .unwrap();
        assert!(!registry.has_infer_routes());
        registry.insert(model("a", "1", &["POST /b", "POST /v2/models/a/versions/1/infer"])).unwrap();
        assert!(registry.has_infer_routes());
        registry.insert(model("b", "1", &["POST /c"])).unwrap();
        assert!(registry.has_infer_routes());
        registry.swap("a", vec![model("a", "1", &["POST /b"])], &[]);
        assert!(registry.has_routes() && !registry.has_infer_routes());
    }

    #[test]
    fn highest_ready_version_with_the_route_is_chosen() {
        let registry = Registry::default();
        let versions =
            [model("a", "9", &["GET /a/{x}"]), model("a", "10", &["GET /a/{y}"]), model("a", "11", &["GET /b"])];
        versions.iter().for_each(|one| registry.insert(Arc::clone(one)).unwrap());
        assert_eq!(find_route(&registry, "GET", "/a/1"), r#"a 10 GET /a/{y} [("y", "1")]"#);
        versions[1].set_refusal(Some("warming"));
        assert_eq!(find_route(&registry, "GET", "/a/1"), r#"a 9 GET /a/{x} [("x", "1")]"#);
        versions[0].set_readiness(Readiness::Unavailable);
        assert_eq!(find_route(&registry, "GET", "/a/1"), r#"a 10 GET /a/{y} [("y", "1")]"#);
        versions[1].set_refusal(None);
        assert_eq!(find_route(&registry, "GET", "/b"), "a 11 GET /b []");
    }

    #[test]
    fn two_models_cannot_share_a_route() {
        let registry = Registry::default();
        registry.insert(model("a", "1", &["POST /score/{x}"])).unwrap();
        let error = registry.insert(model("b", "1", &["GET /b", "POST /score/{y}"])).unwrap_err();
        assert_eq!(
            error.message(),
            "models 'a' and 'b' both have the route 'POST /score/{y}': a path leads to one model only"
        );
        assert_eq!(find_route(&registry, "GET", "/b"), "nothing");
        let other = [model("c", "1", &["POST /score/{z}"])];
        assert!(registry.check_routes(&other, &[]).is_err());
        registry.check_routes(&other, &["a".to_owned()]).unwrap();
        let both = [model("d", "1", &["GET /d"]), model("e", "1", &["GET /d"])];
        assert!(registry.check_routes(&both, &[]).unwrap_err().message().contains("'d' and 'e'"));
        let versions = [model("d", "1", &["GET /d"]), model("d", "2", &["GET /d"])];
        registry.check_routes(&versions, &[]).unwrap();
    }
}
