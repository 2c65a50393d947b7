//! Who may call what: secrets that requests must carry, by category of route.

use http::{HeaderMap, HeaderName, Method};
use penstock_core::{Error, Kind, Result};
use std::{fmt, mem::discriminant};
use subtle::ConstantTimeEq as _;

/// The page that asks for the key. A browser cannot send one with its first request, and the page itself is the
/// same on every server.
const OPEN_PAGES: [&str; 2] = ["/docs", "/v2/docs"];

/// Before a rule's header in gRPC's metadata, as Triton's clients send it.
const GRPC_PREFIX: &str = "triton-grpc-protocol-";

/// Before the server's key in the header `authorization`.
const BEARER: &[u8] = b"Bearer ";

/// What a route is for, in Triton's division.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Category {
    /// Live, ready, and gRPC's health service.
    Health,
    /// Of the server and of models; gRPC's reflection.
    Metadata,
    /// Whatever computes.
    Inference,
    /// Regions of shared memory.
    SharedMemory,
    /// How models are configured.
    ModelConfig,
    /// Loading and unloading.
    ModelRepository,
    /// What models have done, and the metrics.
    Statistics,
    /// What is traced.
    Trace,
    /// What is logged.
    Logging,
}

impl Category {
    /// All of them, by name.
    pub const ALL: [(&'static str, Self); 9] = [
        ("health", Self::Health),
        ("metadata", Self::Metadata),
        ("inference", Self::Inference),
        ("shared-memory", Self::SharedMemory),
        ("model-config", Self::ModelConfig),
        ("model-repository", Self::ModelRepository),
        ("statistics", Self::Statistics),
        ("trace", Self::Trace),
        ("logging", Self::Logging),
    ];

    /// The category of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find_map(|(known, category)| (known == name).then_some(category))
    }

    /// Of a REST route. What has no category of its own is metadata, or inference if it is posted to.
    fn of_rest(method: &Method, path: &str) -> Self {
        if let Some(rest) = path.strip_prefix("/v2/models/") {
            let mut segments = rest.split('/').skip(1);
            let verb = match segments.next() {
                Some("versions") => segments.nth(1),
                verb => verb,
            };
            return match verb {
                None if rest == "stats" => Self::Statistics,
                Some("ready") => Self::Health,
                Some("config") => Self::ModelConfig,
                Some("stats") => Self::Statistics,
                Some("trace") => Self::Trace,
                Some("batching") => Self::ModelRepository,
                _ => Self::by_method(method),
            };
        }
        match path.split('/').nth(2) {
            _ if path == "/metrics" || path == "/debug/batching" => Self::Statistics,
            _ if path == "/" => Self::Health,
            _ if !path.starts_with("/v2/") => Self::by_method(method),
            Some("health") => Self::Health,
            Some("logging") => Self::Logging,
            Some("trace") => Self::Trace,
            Some("repository") => Self::ModelRepository,
            Some("systemsharedmemory" | "cudasharedmemory") => Self::SharedMemory,
            _ => Self::by_method(method),
        }
    }

    fn by_method(method: &Method) -> Self {
        if method == Method::POST { Self::Inference } else { Self::Metadata }
    }

    /// Of a gRPC call.
    fn of_call(path: &str) -> Self {
        let (service, call) = path.rsplit_once('/').unwrap_or(("", path));
        match call {
            _ if service == "/grpc.health.v1.Health" => Self::Health,
            "ServerLive" | "ServerReady" | "ModelReady" => Self::Health,
            "ModelInfer" | "ModelStreamInfer" => Self::Inference,
            "ModelConfig" => Self::ModelConfig,
            "ModelStatistics" => Self::Statistics,
            "TraceSetting" => Self::Trace,
            "LogSettings" => Self::Logging,
            _ if call.contains("SharedMemory") => Self::SharedMemory,
            _ if call.starts_with("Repository") => Self::ModelRepository,
            _ => Self::Metadata,
        }
    }
}

/// What requests must carry. Nothing by default. It is never shown: not by `Debug`, not in a message.
#[derive(Clone, Default)]
pub struct Access {
    rules: Vec<Rule>,
    key: Option<Box<[u8]>>,
}

#[derive(Clone)]
struct Rule {
    category: Category,
    header: HeaderName,
    metadata: HeaderName,
    secret: Box<[u8]>,
}

impl Access {
    /// Asks for `header: secret` in a category; over gRPC for `triton-grpc-protocol-<header>`. Of several
    /// rules for one category, one is enough.
    ///
    /// # Errors
    /// What is wrong, if `header` is no header's name.
    pub fn restrict(&mut self, category: Category, header: &str, secret: &str) -> std::result::Result<(), String> {
        let name = |text: &str| HeaderName::try_from(text).map_err(|_| format!("{header:?} is not a header's name"));
        let metadata = name(&format!("{GRPC_PREFIX}{header}"))?;
        self.rules.push(Rule { category, header: name(header)?, metadata, secret: secret.as_bytes().into() });
        Ok(())
    }

    /// Asks for `authorization: Bearer <key>` in all categories without a rule, but for health: probes have no key.
    pub fn require_key(&mut self, key: &str) {
        self.key = Some(key.as_bytes().into());
    }

    /// Whether nothing is asked for.
    pub(crate) fn is_open(&self) -> bool {
        self.rules.is_empty() && self.key.is_none()
    }

    /// Checks a REST request.
    ///
    /// # Errors
    /// `Forbidden` that names the header.
    pub(crate) fn check_rest(&self, method: &Method, path: &str, headers: &HeaderMap) -> Result<()> {
        if OPEN_PAGES.contains(&path) && method != Method::POST {
            return Ok(());
        }
        self.check(Category::of_rest(method, path), headers, |rule| &rule.header)
    }

    /// Checks a REST request whose path says nothing of its category.
    ///
    /// # Errors
    /// `Forbidden` that names the header.
    pub(crate) fn check_category(&self, category: Category, headers: &HeaderMap) -> Result<()> {
        self.check(category, headers, |rule| &rule.header)
    }

    /// Checks a gRPC call.
    ///
    /// # Errors
    /// `Forbidden` that names the metadata's key.
    pub(crate) fn check_call(&self, path: &str, headers: &HeaderMap) -> Result<()> {
        self.check(Category::of_call(path), headers, |rule| &rule.metadata)
    }

    /// The headers that rules ask for, over REST and gRPC.
    pub(crate) fn headers(&self) -> impl Iterator<Item = &str> {
        self.rules.iter().flat_map(|rule| [rule.header.as_str(), rule.metadata.as_str()])
    }

    fn check(&self, category: Category, headers: &HeaderMap, name: impl Fn(&Rule) -> &HeaderName) -> Result<()> {
        let own = || self.rules.iter().filter(|rule| discriminant(&rule.category) == discriminant(&category));
        let Some(first) = own().next() else { return self.check_key(category, headers) };
        let carries =
            |rule: &Rule| headers.get_all(name(rule)).iter().any(|given| equal(given.as_bytes(), &rule.secret));
        // All are compared, so that the time says nothing of which one it was.
        match own().fold(false, |found, rule| found | carries(rule)) {
            true => Ok(()),
            false => Err(forbidden(&format!("'{}'", name(first)))),
        }
    }

    fn check_key(&self, category: Category, headers: &HeaderMap) -> Result<()> {
        let Some(key) = self.key.as_ref().filter(|_| category != Category::Health) else { return Ok(()) };
        let given = headers.get("authorization").map(http::HeaderValue::as_bytes);
        // The scheme's case is the client's choice.
        let given = given.and_then(|given| given.split_at_checked(BEARER.len()));
        match given {
            Some((scheme, given)) if scheme.eq_ignore_ascii_case(BEARER) && equal(given, key) => Ok(()),
            _ => Err(forbidden("'authorization' with a Bearer token")),
        }
    }
}

impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rules: Vec<_> = self.rules.iter().map(|rule| (rule.category, &rule.header)).collect();
        f.debug_struct("Access").field("rules", &rules).field("has_key", &self.key.is_some()).finish()
    }
}

fn equal(given: &[u8], secret: &[u8]) -> bool {
    given.ct_eq(secret).into()
}

fn forbidden(expected: &str) -> Error {
    Error::new(Kind::Forbidden, format!("This API is restricted, expecting header {expected}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(path: &str) -> Category {
        Category::of_rest(&Method::GET, path)
    }

    #[test]
    fn every_route_has_its_category() {
        assert_eq!(of("/v2/health/ready"), Category::Health);
        assert_eq!(of("/v2/models/m/ready"), Category::Health);
        assert_eq!(of("/v2/models/m/versions/1/ready"), Category::Health);
        assert_eq!(of("/v2/models/m/versions/1/config"), Category::ModelConfig);
        assert_eq!(of("/v2/models/m/versions/1/stats"), Category::Statistics);
        assert_eq!(of("/v2/models/stats"), Category::Statistics);
        assert_eq!(of("/metrics"), Category::Statistics);
        assert_eq!(of("/v2/models/m/trace/setting"), Category::Trace);
        assert_eq!(of("/v2/trace/setting"), Category::Trace);
        assert_eq!(of("/v2/logging"), Category::Logging);
        assert_eq!(of("/v2/cudasharedmemory/status"), Category::SharedMemory);
        let posted = |path| Category::of_rest(&Method::POST, path);
        assert_eq!(posted("/v2/repository/models/m/load"), Category::ModelRepository);
        assert_eq!(posted("/v2/models/m/batching"), Category::ModelRepository);
        assert_eq!(posted("/v2/models/m/versions/1/batching"), Category::ModelRepository);
        assert_eq!(of("/debug/batching"), Category::Statistics);
        for path in ["/v2/models/m/infer", "/v2/models/m/versions/1/generate_stream", "/v1/models/m:predict"] {
            assert_eq!(posted(path), Category::Inference, "{path}");
        }
    }

    #[test]
    fn a_models_name_does_not_change_the_category() {
        for path in ["/v2", "/v2/", "/v2/models", "/v2/models/ready", "/v2/models/m/versions/config", "/v1/models"] {
            assert_eq!(of(path), Category::Metadata, "{path}");
        }
        assert_eq!(of("/v2/models/stats/config"), Category::ModelConfig);
        assert_eq!(of("/v2/models/versions/ready"), Category::Health);
    }

    #[test]
    fn it_does_not_show_its_secrets() {
        let mut access = Access::default();
        access.restrict(Category::Logging, "admin", "hush-hush").unwrap();
        access.require_key("top-secret");
        let shown = format!("{access:?}");
        assert!(shown.contains("admin") && !shown.contains("hush") && !shown.contains("top-secret"), "{shown}");
    }
}
