//! Parts of several messages: parameters, headers, bodies and errors.

use penstock_core::{Error, Headers, Kind, Parameter, Parameters};
use serde::{Deserialize, Serialize, Serializer};
use std::{io, time::Duration};

/// The depth limit of nested parameter lists.
const MAX_DEPTH: usize = 8;

/// Encodes a description.
pub(crate) fn encode(message: &impl Serialize) -> io::Result<Vec<u8>> {
    postcard::to_allocvec(message).map_err(io::Error::other)
}

/// Decodes a description; `None` unless it is exactly one message of that type.
pub(crate) fn decode<'a, T: Deserialize<'a>>(description: &'a [u8]) -> Option<T> {
    let (message, rest) = postcard::take_from_bytes(description).ok()?;
    rest.is_empty().then_some(message)
}

/// Headers or labels: names and values.
pub(crate) type Pairs<'a> = Vec<(&'a str, &'a str)>;

/// The pairs of headers.
pub(crate) fn pairs(headers: &Headers) -> Pairs<'_> {
    headers.iter().collect()
}

/// Parameters as one flat list: for each its name, then its value, a list in front of its elements.
///
/// Flat, because decoding a recursive type would let a broken process overflow the server's stack.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ParameterTokens<'a>(#[serde(borrow)] Vec<Token<'a>>);

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
enum Token<'a> {
    Bool(bool),
    Int(i64),
    Uint(u64),
    Float(f64),
    String(&'a str),
    /// A list of so many values, which follow.
    List(usize),
}

impl<'a> From<&'a Parameters> for ParameterTokens<'a> {
    fn from(parameters: &'a Parameters) -> Self {
        let mut tokens = Vec::with_capacity(parameters.len() * 2);
        for (name, value) in parameters {
            tokens.push(Token::String(name));
            push(&mut tokens, value);
        }
        Self(tokens)
    }
}

fn push<'a>(tokens: &mut Vec<Token<'a>>, value: &'a Parameter) {
    tokens.push(match value {
        Parameter::Bool(value) => Token::Bool(*value),
        Parameter::Int(value) => Token::Int(*value),
        Parameter::Uint(value) => Token::Uint(*value),
        Parameter::Float(value) => Token::Float(*value),
        Parameter::String(value) => Token::String(value),
        Parameter::List(values) => Token::List(values.len()),
    });
    if let Parameter::List(values) = value {
        values.iter().for_each(|value| push(tokens, value));
    }
}

impl ParameterTokens<'_> {
    /// The parameters; `None` for tokens that are not parameters, or are nested too deeply.
    pub(crate) fn parameters(&self) -> Option<Parameters> {
        let mut tokens = self.0.iter();
        let mut parameters = Parameters::new();
        while let Some(token) = tokens.next() {
            let Token::String(name) = token else { return None };
            parameters.push(((*name).to_owned(), value(&mut tokens, 0)?));
        }
        Some(parameters)
    }
}

fn value(tokens: &mut std::slice::Iter<'_, Token<'_>>, depth: usize) -> Option<Parameter> {
    Some(match *tokens.next()? {
        Token::Bool(value) => Parameter::Bool(value),
        Token::Int(value) => Parameter::Int(value),
        Token::Uint(value) => Parameter::Uint(value),
        Token::Float(value) => Parameter::Float(value),
        Token::String(value) => Parameter::String(value.to_owned()),
        Token::List(len) if depth < MAX_DEPTH => {
            Parameter::List((0..len).map(|_| value(tokens, depth + 1)).collect::<Option<_>>()?)
        }
        Token::List(_) => return None,
    })
}

/// A body: encoded as a whole, not byte by byte.
#[derive(Debug, Deserialize)]
pub(crate) struct Body<'a>(pub(crate) &'a [u8]);

impl Serialize for Body<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(self.0)
    }
}

/// An error.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ErrorMessage<'a> {
    kind: &'a str,
    message: &'a str,
    retry_after: Option<Duration>,
    too_large_batch: bool,
    traceback: Option<&'a str>,
}

impl<'a> From<&'a Error> for ErrorMessage<'a> {
    fn from(error: &'a Error) -> Self {
        Self {
            kind: error.kind().name(),
            message: error.message(),
            retry_after: error.retry_hint(),
            too_large_batch: error.is_batch_too_large(),
            traceback: error.traceback().map(|traceback| traceback.as_str()),
        }
    }
}

impl ErrorMessage<'_> {
    /// The error; `None` for an unknown kind.
    pub(crate) fn error(&self) -> Option<Error> {
        let error = Error::new(Kind::from_name(self.kind)?, self.message.to_owned());
        let error = match self.retry_after {
            Some(after) => error.retry_after(after),
            None => error,
        };
        let error = match self.traceback {
            Some(traceback) => error.with_traceback(traceback),
            None => error,
        };
        Some(if self.too_large_batch { error.batch_too_large() } else { error })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parameter() -> impl Strategy<Value = Parameter> {
        let leaf = prop_oneof![
            any::<bool>().prop_map(Parameter::Bool),
            any::<i64>().prop_map(Parameter::Int),
            any::<u64>().prop_map(Parameter::Uint),
            (-1e300..1e300).prop_map(Parameter::Float),
            any::<String>().prop_map(Parameter::String),
        ];
        leaf.prop_recursive(3, 12, 4, |inner| prop::collection::vec(inner, 0..4).prop_map(Parameter::List))
    }

    proptest! {
        #[test]
        fn values_round_trip(
            parameters in prop::collection::vec((any::<String>(), parameter()), 0..6),
            bytes in prop::collection::vec(any::<u8>(), 0..40),
        ) {
            let encoded = encode(&(ParameterTokens::from(&parameters), Body(&bytes))).unwrap();
            let (tokens, body): (ParameterTokens<'_>, Body<'_>) = decode(&encoded).unwrap();
            prop_assert_eq!(tokens.parameters(), Some(parameters));
            prop_assert_eq!(body.0, &bytes[..]);
            prop_assert!(decode::<ParameterTokens<'_>>(&encoded).is_none(), "bytes are left");
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let _ = decode::<ParameterTokens<'_>>(&bytes).map(|tokens| tokens.parameters());
            let _ = decode::<ErrorMessage<'_>>(&bytes).map(|message| message.error());
            let _ = decode::<&str>(&bytes);
        }
    }

    #[test]
    fn errors_keep_their_tracebacks() {
        let error = Error::handler("failed").with_traceback("line 1\nline 2");
        let encoded = encode(&ErrorMessage::from(&error)).unwrap();
        let back = decode::<ErrorMessage<'_>>(&encoded).unwrap().error().unwrap();
        assert_eq!((back.kind(), back.message(), back.traceback()), (error.kind(), "failed", error.traceback()));
    }

    #[test]
    fn deeply_nested_lists_are_refused() {
        let mut tokens = vec![Token::String("p")];
        tokens.extend(std::iter::repeat_n(Token::List(1), 100_000));
        assert!(ParameterTokens(tokens).parameters().is_none());
        let nested = |depth| (0..depth).fold(Parameter::Bool(true), |inner, _| Parameter::List(vec![inner]));
        for (depth, fits) in [(MAX_DEPTH, true), (MAX_DEPTH + 1, false)] {
            let parameters = vec![("p".to_owned(), nested(depth))];
            assert_eq!(ParameterTokens::from(&parameters).parameters().is_some(), fits);
        }
    }

    #[test]
    fn list_longer_than_its_description_is_refused() {
        assert!(ParameterTokens(vec![Token::String("p"), Token::List(usize::MAX)]).parameters().is_none());
        assert!(decode::<Vec<u64>>(&[255, 255, 255, 255, 255, 255, 255, 255, 255, 1]).is_none());
    }
}
