//! Access rules: secrets that requests must carry, by category of route.

use super::category::Category;
use http::{HeaderMap, HeaderName};
use penstock_core::{Error, Kind, Result};
use std::fmt;
use subtle::ConstantTimeEq as _;

/// Prefix of a rule's header in gRPC metadata, as Triton's clients send it.
const GRPC_PREFIX: &str = "triton-grpc-protocol-";

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

    /// Reports whether nothing is required.
    pub(crate) fn is_open(&self) -> bool {
        self.rules.is_empty()
    }

    /// Checks the headers of a REST request.
    ///
    /// # Errors
    /// `Forbidden` that names the header.
    pub(crate) fn check_rest(&self, category: Category, headers: &HeaderMap) -> Result<()> {
        if self.rules.is_empty() { Ok(()) } else { self.check(category, headers, |rule| &rule.header) }
    }

    /// Checks the metadata of a gRPC call.
    ///
    /// # Errors
    /// `Forbidden` that names the metadata's key.
    pub(crate) fn check_grpc(&self, category: Category, headers: &HeaderMap) -> Result<()> {
        if self.rules.is_empty() { Ok(()) } else { self.check(category, headers, |rule| &rule.metadata) }
    }

    /// Returns the headers that rules require, over REST and gRPC.
    pub(crate) fn headers(&self) -> impl Iterator<Item = &str> {
        self.rules.iter().flat_map(|rule| [rule.header.as_str(), rule.metadata.as_str()])
    }

    /// Reports whether requests of a category need a secret.
    pub(crate) fn protects(&self, category: Category) -> bool {
        let has_rule = |wanted| self.rules.iter().any(|rule| rule.category == wanted);
        has_rule(category) || category.wider().is_some_and(has_rule)
    }

    fn check(&self, category: Category, headers: &HeaderMap, name: impl Fn(&Rule) -> &HeaderName) -> Result<()> {
        let of = |category| self.rules.iter().filter(move |rule| rule.category == category);
        let category = if of(category).next().is_none() { category.wider().unwrap_or(category) } else { category };
        let own = || of(category);
        let Some(first) = own().next() else { return Ok(()) };
        let carries =
            |rule: &Rule| headers.get_all(name(rule)).iter().any(|given| equal(given.as_bytes(), &rule.secret));
        // All are compared, so that the time does not reveal which one matched.
        match own().fold(false, |found, rule| found | carries(rule)) {
            true => Ok(()),
            false => Err(forbidden(&format!("'{}'", name(first)))),
        }
    }
}

impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rules: Vec<_> = self.rules.iter().map(|rule| (rule.category, &rule.header)).collect();
        f.debug_struct("Access").field("rules", &rules).finish()
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
        let shown = format!("{access:?}");
        assert!(shown.contains("admin") && !shown.contains("hush"), "{shown}");
    }
}
