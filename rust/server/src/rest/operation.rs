//! Inference operations and their paths, parsed without a router: every inference request passes here.

use penstock_core::{Error, Result};
use percent_encoding::percent_decode_str;
use std::borrow::Cow;

/// Operation of an inference request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    /// V2 inference with one response.
    Infer,
    /// Inference in the types of the model's handler.
    Plain,
    /// V2 inference in another form.
    Generate(GenerateMode),
    /// A call of KServe's V1 protocol.
    V1(V1Verb),
}

/// A form of V2 inference beyond `infer`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GenerateMode {
    /// One flat object.
    Generate,
    /// A stream of flat objects.
    GenerateStream,
    /// A stream of responses in the form of `infer`.
    InferStream,
    /// A stream of values in the types of the model's handler.
    PlainStream,
}

/// Verb of a V1 call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum V1Verb {
    /// The model's outputs.
    Predict,
    /// An explanation of the outputs.
    Explain,
}

/// Model and version that a path names.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ModelPath<'a> {
    pub(crate) model: Cow<'a, str>,
    pub(crate) version: Option<Cow<'a, str>>,
}

impl Operation {
    /// Parses `/v2/models/{model}[/versions/{version}]/{operation}`, `/v1/models/{model}[/versions/{version}]:{verb}`,
    /// whose colon may be percent-encoded, and `/models/{model}[/versions/{version}]`. Returns `None` for any other
    /// path.
    pub(crate) fn parse(path: &str) -> Option<(Self, ModelPath<'_>)> {
        let Some(rest) = path.strip_prefix("/v2/models/") else {
            return match path.strip_prefix("/models/") {
                Some(named) => Some((Self::Plain, ModelPath::parse(named)?)),
                None => Self::parse_v1(path.strip_prefix("/v1/models/")?),
            };
        };
        let (named, operation) = rest.rsplit_once('/')?;
        let operation = match operation {
            "infer" => Self::Infer,
            "generate" => Self::Generate(GenerateMode::Generate),
            "generate_stream" => Self::Generate(GenerateMode::GenerateStream),
            "infer_stream" => Self::Generate(GenerateMode::InferStream),
            _ => return None,
        };
        Some((operation, ModelPath::parse(named)?))
    }

    fn parse_v1(rest: &str) -> Option<(Self, ModelPath<'_>)> {
        let verbs = [("predict", V1Verb::Predict), ("explain", V1Verb::Explain)];
        verbs.into_iter().find_map(|(name, verb)| {
            let named = rest.strip_suffix(name)?;
            let named = [":", "%3A", "%3a"].into_iter().find_map(|colon| named.strip_suffix(colon))?;
            Some((Self::V1(verb), ModelPath::parse(named)?))
        })
    }
}

impl<'a> ModelPath<'a> {
    /// Parses `{model}[/versions/{version}]`.
    fn parse(rest: &'a str) -> Option<Self> {
        match rest.split_once('/') {
            None => Some(Self { model: decode(rest)?, version: None }),
            Some((model, rest)) => {
                let version = rest.strip_prefix("versions/").filter(|version| !version.contains('/'))?;
                Some(Self { model: decode(model)?, version: Some(decode(version)?) })
            }
        }
    }
}

/// Refuses a path that is not UTF-8 once its percent-encoding is decoded.
///
/// # Errors
/// `InvalidInput` that shows the segment.
pub(crate) fn check_path(path: &str) -> Result<()> {
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
    use super::{GenerateMode, Operation, V1Verb, check_path};

    fn parse(path: &str) -> Option<(String, Option<String>, Operation)> {
        Operation::parse(path).map(|(operation, path)| {
            (path.model.into_owned(), path.version.map(std::borrow::Cow::into_owned), operation)
        })
    }

    #[test]
    fn infer_path_is_parsed_with_model_and_version() {
        let infer = Operation::Infer;
        assert_eq!(parse("/v2/models/add/infer"), Some(("add".into(), None, infer)));
        let encoded = "/v2/models/a%20b%C3%BC/versions/2/infer";
        assert_eq!(parse(encoded), Some(("a bü".into(), Some("2".into()), infer)));
    }

    #[test]
    fn operations_are_distinguished() {
        let generate = Operation::Generate;
        assert_eq!(parse("/v2/models/a/generate"), Some(("a".into(), None, generate(GenerateMode::Generate))));
        let versioned = "/v2/models/a/versions/1/generate_stream";
        assert_eq!(parse(versioned), Some(("a".into(), Some("1".into()), generate(GenerateMode::GenerateStream))));
        assert_eq!(parse("/v2/models/a/infer_stream"), Some(("a".into(), None, generate(GenerateMode::InferStream))));
        for other in ["/v2/models/generate", "/v2/models//generate", "/v2/models/a/b/generate"] {
            assert_eq!(parse(other), None, "{other}");
        }
    }

    #[test]
    fn plain_path_is_the_model_alone() {
        assert_eq!(parse("/models/a%20b"), Some(("a b".into(), None, Operation::Plain)));
        assert_eq!(parse("/models/a/versions/2"), Some(("a".into(), Some("2".into()), Operation::Plain)));
        for other in ["/models/", "/models/a/", "/models/a/infer", "/models"] {
            assert_eq!(parse(other), None, "{other}");
        }
    }

    #[test]
    fn v1_verb_is_parsed_from_the_last_segment() {
        for colon in [":", "%3A", "%3a"] {
            let path = format!("/v1/models/a%20b{colon}predict");
            assert_eq!(parse(&path), Some(("a b".into(), None, Operation::V1(V1Verb::Predict))));
            let path = format!("/v1/models/add/versions/2{colon}explain");
            assert_eq!(parse(&path), Some(("add".into(), Some("2".into()), Operation::V1(V1Verb::Explain))));
        }
    }

    #[test]
    fn other_paths_are_not_operations() {
        for path in ["/v2/models//infer", "/v2/models/add/infer/", "/v2/models/a/b/infer", "/v2/models/add/ready"] {
            assert_eq!(parse(path), None, "{path}");
        }
        assert_eq!(parse("/v2/models/a/versions/1/x/infer"), None);
        assert_eq!(parse("/v2/models/%ff/infer"), None);
        for path in
            ["add", "add:", "add:train", ":predict", "add:predict/", "a/b:predict", "add/predict", "add:Predict"]
        {
            assert_eq!(parse(&format!("/v1/models/{path}")), None, "{path}");
        }
    }

    #[test]
    fn path_that_decodes_to_invalid_utf8_is_refused() {
        for path in ["", "/", "/v2/models/a%20b%C3%BC", "/100%", "/%zz", "/%25ff", "*"] {
            assert!(check_path(path).is_ok(), "{path}");
        }
        for segment in ["%ff", "a%C3", "%C3%28"] {
            let error = check_path(&format!("/v2/models/{segment}/ready")).expect_err(segment);
            let expected = format!("the path's segment '{segment}' is not UTF-8 once its percent-encoding is decoded");
            assert_eq!(error.message(), expected);
        }
    }
}
