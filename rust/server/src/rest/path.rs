//! The path of an inference request, taken apart without a router.

use percent_encoding::percent_decode_str;
use std::borrow::Cow;

/// The model and version that a path names.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct InferPath<'a> {
    pub(crate) model: Cow<'a, str>,
    pub(crate) version: Option<Cow<'a, str>>,
}

impl<'a> InferPath<'a> {
    /// Parses `/v2/models/{model}[/versions/{version}]/infer`; `None` for any other path.
    pub(crate) fn parse(path: &'a str) -> Option<Self> {
        Self::named(path.strip_prefix("/v2/models/")?.strip_suffix("/infer")?)
    }

    /// Parses `{model}[/versions/{version}]`.
    pub(crate) fn named(rest: &'a str) -> Option<Self> {
        match rest.split_once('/') {
            None => Some(Self { model: decode(rest)?, version: None }),
            Some((model, rest)) => {
                let version = rest.strip_prefix("versions/").filter(|version| !version.contains('/'))?;
                Some(Self { model: decode(model)?, version: Some(decode(version)?) })
            }
        }
    }
}

fn decode(segment: &str) -> Option<Cow<'_, str>> {
    if segment.is_empty() {
        return None;
    }
    if !segment.contains('%') {
        return Some(Cow::Borrowed(segment));
    }
    percent_decode_str(segment).decode_utf8().ok()
}

#[cfg(test)]
mod tests {
    use super::InferPath;

    fn parsed(path: &str) -> Option<(String, Option<String>)> {
        InferPath::parse(path).map(|path| (path.model.into_owned(), path.version.map(Into::into)))
    }

    #[test]
    fn takes_the_model_and_the_version() {
        assert_eq!(parsed("/v2/models/add/infer"), Some(("add".into(), None)));
        assert_eq!(parsed("/v2/models/a%20b%C3%BC/versions/2/infer"), Some(("a bü".into(), Some("2".into()))));
    }

    #[test]
    fn leaves_every_other_path_alone() {
        for path in ["/v2/models//infer", "/v2/models/add/infer/", "/v2/models/a/b/infer", "/v2/models/add/ready"] {
            assert_eq!(parsed(path), None, "{path}");
        }
        assert_eq!(parsed("/v2/models/a/versions/1/x/infer"), None);
        assert_eq!(parsed("/v2/models/%ff/infer"), None);
    }
}
