//! Which model a request to a path of a model's own is for.

use super::{Model, Readiness, Registry, index::version_key, registry::Table};
use crate::{Error, ModelSpec, Result, Route, RouteTable, TableMatch};
use std::sync::{Arc, atomic::Ordering};

/// The routes of all that serves.
pub(super) type Routes = RouteTable<Vec<Arc<Model>>>;

/// What a method and a path lead to among the models' own routes.
#[derive(Debug)]
pub enum RouteMatch {
    /// A model: of the versions that have the route, the highest ready one.
    Model {
        /// It.
        model: Arc<Model>,
        /// Its route, as it declares it.
        route: Arc<str>,
        /// What the named parts of the route stand for.
        path_params: Vec<(Arc<str>, String)>,
    },
    /// Routes of other methods: their names, as the header `Allow` has them.
    OtherMethods(String),
    /// No route.
    NotFound,
}

impl Registry {
    /// Whether any model that serves has routes. RawRequest of every request that is for no built-in one.
    pub fn has_routes(&self) -> bool {
        self.routed.load(Ordering::Relaxed)
    }

    /// Whether any of these names a path of V2's inference. RawRequest of every inference.
    pub fn has_infer_routes(&self) -> bool {
        self.infers.load(Ordering::Relaxed)
    }

    /// What a request to a path, given by its decoded segments, leads to.
    pub fn route<S: AsRef<str>>(&self, method: &str, segments: &[S]) -> RouteMatch {
        let table = self.read();
        match table.routes.find(method, segments) {
            TableMatch::Route { route, target, values } => {
                let Some(model) = chosen(target) else { return RouteMatch::NotFound };
                // Another version may call its parts otherwise.
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

    /// Refuses models of which one has a route that another model has: one of them, or one that serves and is not
    /// about to leave.
    ///
    /// # Errors
    /// `InvalidInput` that names both models and the route.
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
    /// Refuses a model that has a route of another one.
    pub(super) fn check_routes(&self, spec: &ModelSpec) -> Result<()> {
        if spec.routes.is_empty() {
            return Ok(());
        }
        self.models.values().flat_map(|entry| &entry.serving).try_for_each(|serving| check(spec, serving.spec()))
    }

    /// Finds a model from now on by its routes.
    pub(super) fn add_routes(&mut self, model: &Arc<Model>) {
        for route in &model.spec().routes {
            self.routes.entry(route).push(Arc::clone(model));
        }
    }

    /// Finds what serves by its routes, and nothing else any more. Whether there are any, and whether one of them
    /// names a path of V2's inference.
    pub(super) fn rebuild_routes(&mut self) -> (bool, bool) {
        self.routes = Routes::default();
        let serving: Vec<_> = self.models.values().flat_map(|entry| &entry.serving).cloned().collect();
        serving.iter().for_each(|model| self.add_routes(model));
        let any = serving.iter().any(|model| !model.spec().routes.is_empty());
        (any, serving.iter().any(|model| infers(model.spec())))
    }
}

/// Whether one of a model's routes names a path of V2's inference. A pattern names none.
pub(super) fn infers(spec: &ModelSpec) -> bool {
    let of_inference = |route: &Route| {
        route.method() == "POST"
            && route.path().starts_with("/v2/models/")
            && route.path().ends_with("/infer")
            && route.names().next().is_none()
    };
    spec.routes.iter().any(of_inference)
}

/// Of several models with one route, while one replaces another, the first goes on; of its versions the highest ready
/// one, else the highest.
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

    fn found(registry: &Registry, method: &str, path: &str) -> String {
        match registry.route(method, &path[1..].split('/').collect::<Vec<_>>()) {
            RouteMatch::Model { model, route, path_params } => {
                format!("{} {} {route} {path_params:?}", model.spec().name, model.spec().version)
            }
            RouteMatch::OtherMethods(allow) => allow,
            RouteMatch::NotFound => "nothing".to_owned(),
        }
    }

    #[test]
    fn routes_come_and_go_with_their_models() {
        let registry = Registry::default();
        assert!(!registry.has_routes());
        registry.insert(model("plain", "1", &[])).unwrap();
        assert!(!registry.has_routes());
        registry.insert(model("a", "1", &["POST /a/{x}", "GET /a/{x}"])).unwrap();
        assert!(registry.has_routes());
        assert_eq!(found(&registry, "POST", "/a/7"), r#"a 1 POST /a/{x} [("x", "7")]"#);
        assert_eq!(found(&registry, "PUT", "/a/7"), "GET, HEAD, POST");
        registry.swap("a", vec![model("a", "1", &["POST /b"])], &[]);
        assert_eq!(found(&registry, "POST", "/a/7"), "nothing");
        assert_eq!(found(&registry, "POST", "/b"), "a 1 POST /b []");
        registry.swap("a", Vec::new(), &[]);
        assert!(!registry.has_routes());
        assert_eq!(found(&registry, "POST", "/b"), "nothing");
    }

    #[test]
    fn only_a_whole_path_of_inference_is_looked_for() {
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
    fn the_highest_ready_version_with_the_route_answers() {
        let registry = Registry::default();
        let versions =
            [model("a", "9", &["GET /a/{x}"]), model("a", "10", &["GET /a/{y}"]), model("a", "11", &["GET /b"])];
        versions.iter().for_each(|one| registry.insert(Arc::clone(one)).unwrap());
        assert_eq!(found(&registry, "GET", "/a/1"), r#"a 10 GET /a/{y} [("y", "1")]"#);
        versions[1].set_refusal(Some("warming"));
        assert_eq!(found(&registry, "GET", "/a/1"), r#"a 9 GET /a/{x} [("x", "1")]"#);
        versions[0].set_readiness(Readiness::Unavailable);
        assert_eq!(found(&registry, "GET", "/a/1"), r#"a 10 GET /a/{y} [("y", "1")]"#);
        versions[1].set_refusal(None);
        assert_eq!(found(&registry, "GET", "/b"), "a 11 GET /b []");
    }

    #[test]
    fn two_models_cannot_have_one_route() {
        let registry = Registry::default();
        registry.insert(model("a", "1", &["POST /score/{x}"])).unwrap();
        let error = registry.insert(model("b", "1", &["GET /b", "POST /score/{y}"])).unwrap_err();
        assert_eq!(
            error.message(),
            "models 'a' and 'b' both have the route 'POST /score/{y}': a path leads to one model only"
        );
        assert_eq!(found(&registry, "GET", "/b"), "nothing");
        let other = [model("c", "1", &["POST /score/{z}"])];
        assert!(registry.check_routes(&other, &[]).is_err());
        registry.check_routes(&other, &["a".to_owned()]).unwrap();
        let both = [model("d", "1", &["GET /d"]), model("e", "1", &["GET /d"])];
        assert!(registry.check_routes(&both, &[]).unwrap_err().message().contains("'d' and 'e'"));
        let versions = [model("d", "1", &["GET /d"]), model("d", "2", &["GET /d"])];
        registry.check_routes(&versions, &[]).unwrap();
    }
}
