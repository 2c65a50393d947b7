//! The path of a request for inference, taken apart without a router.

use penstock_core::{Error, Result};
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

/// What a request for inference wants, other than one answer in the form of `infer`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GenerateVerb {
    /// One flat object.
    Generate,
    /// A stream of flat objects.
    GenerateStream,
    /// A stream of answers in the form of `infer`.
    InferStream,
}

impl GenerateVerb {
    /// Parses a path that ends in such a verb; `None` for any other path.
    pub(crate) fn parse(path: &str) -> Option<(Self, InferPath<'_>)> {
        let (before, verb) = path.rsplit_once('/')?;
        let verb = match verb {
            "generate" => Self::Generate,
            "generate_stream" => Self::GenerateStream,
            "infer_stream" => Self::InferStream,
            _ => return None,
        };
        Some((verb, InferPath::named(before.strip_prefix("/v2/models/")?)?))
    }
}

/// Refuses a path that is not text once it is decoded: no route reads one.
///
/// # Errors
/// `InvalidInput` that shows the segment.
pub(crate) fn check(path: &str) -> Result<()> {
    let wrong =
        path.split('/').find(|segment| segment.contains('%') && percent_decode_str(segment).decode_utf8().is_err());
    match wrong {
        None => Ok(()),
        Some(segment) => Err(Error::invalid(format!(
            "the path's segment '{segment}' is not UTF-8 once its percent-encoding is decoded"
        ))),
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
    use super::{GenerateVerb, InferPath, check};

    fn parsed(path: &str) -> Option<(String, Option<String>)> {
        InferPath::parse(path).map(|path| (path.model.into_owned(), path.version.map(Into::into)))
    }

    #[test]
    fn takes_the_model_and_the_version() {
        assert_eq!(parsed("/v2/models/add/infer"), Some(("add".into(), None)));
        assert_eq!(parsed("/v2/models/a%20b%C3%BC/versions/2/infer"), Some(("a bü".into(), Some("2".into()))));
    }

    #[test]
    fn verbs_are_told_apart() {
        let verb = |path| {
            GenerateVerb::parse(path).map(|(verb, path)| (verb, path.model.into_owned(), path.version.is_some()))
        };
        assert_eq!(verb("/v2/models/a/generate"), Some((GenerateVerb::Generate, "a".into(), false)));
        assert_eq!(
            verb("/v2/models/a/versions/1/generate_stream"),
            Some((GenerateVerb::GenerateStream, "a".into(), true))
        );
        assert_eq!(verb("/v2/models/a/infer_stream"), Some((GenerateVerb::InferStream, "a".into(), false)));
        for other in ["/v2/models/a/infer", "/v2/models/generate", "/v2/models//generate", "/v2/models/a/b/generate"] {
            assert_eq!(verb(other), None, "{other}");
        }
    }

    #[test]
    fn leaves_every_other_path_alone() {
        for path in ["/v2/models//infer", "/v2/models/add/infer/", "/v2/models/a/b/infer", "/v2/models/add/ready"] {
            assert_eq!(parsed(path), None, "{path}");
        }
        assert_eq!(parsed("/v2/models/a/versions/1/x/infer"), None);
        assert_eq!(parsed("/v2/models/%ff/infer"), None);
    }

    #[test]
    fn a_path_is_text_once_it_is_decoded() {
        for path in ["", "/", "/v2/models/a%20b%C3%BC", "/100%", "/%zz", "/%25ff", "*"] {
            assert!(check(path).is_ok(), "{path}");
        }
        for segment in ["%ff", "a%C3", "%C3%28"] {
            let error = check(&format!("/v2/models/{segment}/ready")).expect_err(segment);
            let expected = format!("the path's segment '{segment}' is not UTF-8 once its percent-encoding is decoded");
            assert_eq!(error.message(), expected);
        }
    }
}
