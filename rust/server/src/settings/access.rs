//! Access rules: secrets that requests must carry, by category of route.

use http::{HeaderMap, HeaderName};
use penstock_core::{Error, Kind, Result};
use std::{fmt, mem::discriminant};
use subtle::ConstantTimeEq as _;

/// Prefix of a rule's header in gRPC metadata, as Triton's clients send it.
const GRPC_PREFIX: &str = "triton-grpc-protocol-";

/// Scheme before the server's key in the header `authorization`.
const BEARER: &[u8] = b"Bearer ";

/// Category of routes, in Triton's division.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Category {
    /// Live, ready, and gRPC's health service.
    Health,
    /// Metadata of the server and of models; gRPC reflection.
    Metadata,
    /// Inference in every protocol.
    Inference,
    /// Regions of shared memory.
    SharedMemory,
    /// Configuration of models.
    ModelConfig,
    /// Loading and unloading.
    ModelRepository,
    /// Statistics of models, and the metrics.
    Statistics,
    /// Trace settings.
    Trace,
    /// Log settings.
    Logging,
}

impl Category {
    /// All categories, by name.
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

    /// Returns the category of a name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find_map(|(known, category)| (known == name).then_some(category))
    }
}

/// The secret that requests to a route must carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Requirement {
    /// None.
    Nothing,
    /// The secret of a category.
    Category(Category),
}

/// Secrets that requests must carry; none by default. Neither `Debug` nor a message shows them.
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
    /// Requires `header: secret` in a category; over gRPC `triton-grpc-protocol-<header>`. Of several
    /// rules for one category, one is enough.
    ///
    /// # Errors
    /// The reason, if `header` is not a header name.
    pub fn restrict(&mut self, category: Category, header: &str, secret: &str) -> std::result::Result<(), String> {
        let name = |text: &str| HeaderName::try_from(text).map_err(|_| format!("{header:?} is not a header's name"));
        let metadata = name(&format!("{GRPC_PREFIX}{header}"))?;
        self.rules.push(Rule { category, header: name(header)?, metadata, secret: secret.as_bytes().into() });
        Ok(())
    }

    /// Requires `authorization: Bearer <key>` in all categories without a rule, except health: probes have no key.
    pub fn require_key(&mut self, key: &str) {
        self.key = Some(key.as_bytes().into());
    }

    /// Reports whether nothing is required.
    pub(crate) fn is_open(&self) -> bool {
        self.rules.is_empty() && self.key.is_none()
    }

    /// Checks the headers of a REST request.
    ///
    /// # Errors
    /// `Forbidden` that names the header.
    pub(crate) fn check_rest(&self, requirement: Requirement, headers: &HeaderMap) -> Result<()> {
        match requirement {
            Requirement::Nothing => Ok(()),
            Requirement::Category(category) => self.check(category, headers, |rule| &rule.header),
        }
    }

    /// Checks the metadata of a gRPC call.
    ///
    /// # Errors
    /// `Forbidden` that names the metadata's key.
    pub(crate) fn check_grpc(&self, category: Category, headers: &HeaderMap) -> Result<()> {
        self.check(category, headers, |rule| &rule.metadata)
    }

    /// Returns the headers that rules require, over REST and gRPC.
    pub(crate) fn headers(&self) -> impl Iterator<Item = &str> {
        self.rules.iter().flat_map(|rule| [rule.header.as_str(), rule.metadata.as_str()])
    }

    fn check(&self, category: Category, headers: &HeaderMap, name: impl Fn(&Rule) -> &HeaderName) -> Result<()> {
        let own = || self.rules.iter().filter(|rule| discriminant(&rule.category) == discriminant(&category));
        let Some(first) = own().next() else { return self.check_key(category, headers) };
        let carries =
            |rule: &Rule| headers.get_all(name(rule)).iter().any(|given| equal(given.as_bytes(), &rule.secret));
        // All are compared, so that the time does not reveal which one matched.
        match own().fold(false, |found, rule| found | carries(rule)) {
            true => Ok(()),
            false => Err(forbidden(&format!("'{}'", name(first)))),
        }
    }

    fn check_key(&self, category: Category, headers: &HeaderMap) -> Result<()> {
        let Some(key) = self.key.as_ref().filter(|_| category != Category::Health) else { return Ok(()) };
        let given = headers.get("authorization").map(http::HeaderValue::as_bytes);
        // The scheme is case-insensitive.
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

    #[test]
    fn access_debug_output_hides_secrets() {
        let mut access = Access::default();
        access.restrict(Category::Logging, "admin", "hush-hush").unwrap();
        access.require_key("top-secret");
        let shown = format!("{access:?}");
        assert!(shown.contains("admin") && !shown.contains("hush") && !shown.contains("top-secret"), "{shown}");
    }
}
