//! Routes as a model declares them.

use crate::{Error, Result};
use std::sync::Arc;

use super::segment::{self, Segment};

/// A method and a pattern of paths, as a model declares them: `POST /score/{customer}`.
///
/// A pattern is literal text with `{name}` parts, each of which stands for one or more characters of one segment;
/// `{name...}` at the end takes the rest of a path. A brace that stands for itself is doubled. Patterns are compared
/// with decoded paths, so nothing in them is percent-encoded.
///
/// ```
/// use penstock_core::Route;
///
/// let route = Route::parse("POST /models/{name}:{verb}").unwrap();
/// assert_eq!((route.method(), route.path()), ("POST", "/models/{name}:{verb}"));
/// assert!(Route::parse("POST /models/{name}{verb}").is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    pub(super) text: Arc<str>,
    pub(super) method: usize,
    pub(super) segments: Box<[Segment]>,
    /// Name of the `{name...}` parameter.
    pub(super) rest: Option<Arc<str>>,
}

impl Route {
    /// Parses a declared route.
    ///
    /// # Errors
    /// `InvalidInput`: the message has the fault and the expected form.
    pub fn parse(text: &str) -> Result<Self> {
        let wrong = |what: &str| Error::invalid(format!("the route {text:?} {what}"));
        let (method, path) = text
            .split_once(' ')
            .ok_or_else(|| wrong("has no method or no path, expected for example 'POST /score/{customer}'"))?;
        if method.is_empty() || !method.bytes().all(|byte| byte.is_ascii_uppercase()) || method == "CONNECT" {
            return Err(wrong("has no method before its path, expected for example GET or POST, in capitals"));
        }
        let inside = path.strip_prefix('/').ok_or_else(|| wrong("has a path that does not begin with '/'"))?;
        if let Some(byte) = path.chars().find(|one| one.is_control() || "?#%".contains(*one)) {
            return Err(wrong(&format!("has {byte:?} in its path, which is written decoded and without a query")));
        }
        let mut pieces: Vec<&str> = inside.split('/').collect();
        let rest = pieces.last().and_then(|last| segment::rest(last)).map(Arc::from);
        if rest.is_some() {
            pieces.pop();
        }
        let segments = pieces.into_iter().map(|piece| Segment::parse(piece).map_err(|what| wrong(&what)));
        let segments = segments.collect::<Result<Box<[_]>>>()?;
        let route = Self { text: text.into(), method: method.len(), segments, rest };
        let names: Vec<&Arc<str>> = route.names().collect();
        if let Some(twice) = names.iter().enumerate().find(|(at, name)| names[..*at].contains(name)) {
            return Err(wrong(&format!("has two parts named '{}'", twice.1)));
        }
        Ok(route)
    }

    /// The route as declared.
    pub fn text(&self) -> &Arc<str> {
        &self.text
    }

    /// Method in upper case.
    pub fn method(&self) -> &str {
        &self.text[..self.method]
    }

    /// Path pattern.
    pub fn path(&self) -> &str {
        &self.text[self.method + 1..]
    }

    /// Parameter names, from left to right.
    pub fn names(&self) -> impl Iterator<Item = &Arc<str>> {
        self.segments.iter().flat_map(Segment::names).chain(&self.rest)
    }

    /// Renders the path: `text` converts literals, `name` converts parameter names.
    pub fn written(&self, text: impl Fn(&str) -> String, mut name: impl FnMut(&str) -> String) -> String {
        let mut path = String::new();
        for segment in &self.segments {
            path.push('/');
            segment.write(&mut path, &text, &mut name);
        }
        if let Some(rest) = &self.rest {
            path.push('/');
            path.push_str(&name(rest));
        }
        path
    }

    /// Returns true if both match the same requests, regardless of parameter names.
    pub fn is_same(&self, other: &Self) -> bool {
        self.method() == other.method()
            && self.rest.is_some() == other.rest.is_some()
            && self.segments.len() == other.segments.len()
            && self.segments.iter().zip(&other.segments).all(|(one, another)| one.is_same(another))
    }
}

#[cfg(test)]
mod tests {
    use super::Route;

    fn parse_error(text: &str) -> String {
        Route::parse(text).expect_err(text).message().to_owned()
    }

    #[test]
    fn route_is_parsed_into_method_path_and_parameters() {
        let route = Route::parse("GET /v1/my model/{a}-{b}/files/{rest...}").unwrap();
        assert_eq!((route.method(), route.path()), ("GET", "/v1/my model/{a}-{b}/files/{rest...}"));
        assert_eq!(route.names().map(|name| &**name).collect::<Vec<_>>(), ["a", "b", "rest"]);
        let written = route.written(|text| text.replace(' ', "+"), |name| format!("<{name}>"));
        assert_eq!(written, "/v1/my+model/<a>-<b>/files/<rest>");
        assert_eq!(Route::parse("DELETE /").unwrap().names().count(), 0);
    }

    #[test]
    fn invalid_routes_are_refused() {
        for (text, expected) in [
            ("/score", "has no method or no path"),
            ("POST", "has no method or no path"),
            ("post /score", "in capitals"),
            (" /score", "has no method before its path"),
            ("CONNECT /score", "has no method before its path"),
            ("POST score", "does not begin with '/'"),
            ("POST  /score", "does not begin with '/'"),
            ("POST /score?x=1", "has '?' in its path"),
            ("POST /a%20b", "has '%' in its path"),
            ("POST /a\n", "has '\\n' in its path"),
            ("POST /{a", "has a brace that is not closed"),
            ("POST /a}", "has a brace that is not opened"),
            ("POST /{}", "has a part named ''"),
            ("POST /{a b}", "has a part named 'a b'"),
            ("POST /{a}{b}", "has two parts with nothing between them"),
            ("POST /{a}/{a}", "has two parts named 'a'"),
            ("POST /{a...}/b", "is possible only at the end"),
            ("POST /x{a...}", "is possible only at the end"),
        ] {
            let message = parse_error(text);
            assert!(message.contains(expected) && message.starts_with("the route \""), "{text}: {message}");
        }
    }

    #[test]
    fn parameter_names_do_not_distinguish_routes() {
        let same = |one: &str, another: &str| Route::parse(one).unwrap().is_same(&Route::parse(another).unwrap());
        assert!(same("GET /a/{x}:{y}/{z...}", "GET /a/{p}:{q}/{r...}"));
        assert!(!same("GET /a/{x}", "POST /a/{x}"));
        assert!(!same("GET /a/{x}", "GET /a/{x...}"));
        assert!(!same("GET /a/{x}", "GET /a/x"));
        assert!(!same("GET /a", "GET /a/"));
    }
}
