//! Documents that a model yields: the members of `penstock.openai.Delta`.

use serde::{Deserialize, Serialize};

/// Addition of one chunk to an answer.
#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Delta {
    pub(super) content: Option<String>,
    pub(super) reasoning: Option<String>,
    pub(super) tool_calls: Vec<ToolCallDelta>,
    pub(super) logprobs: Vec<TokenLogprob>,
    pub(super) finish_reason: Option<String>,
    pub(super) usage: Option<Usage>,
}

/// Begins a tool call, if it has a name, or continues the last one.
#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct ToolCallDelta {
    pub(super) name: Option<String>,
    pub(super) arguments: Option<String>,
    pub(super) id: Option<String>,
}

/// Log probability of a token, with the most likely tokens at its place.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct TokenLogprob {
    /// The token's text.
    pub token: String,
    /// Its natural logarithm of probability.
    pub logprob: f64,
    /// Its bytes, where it is not whole characters.
    #[serde(default)]
    pub bytes: Option<Vec<u8>>,
    /// The most likely tokens.
    #[serde(default)]
    pub top_logprobs: Vec<TopLogprob>,
}

/// Log probability of one of the most likely tokens.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct TopLogprob {
    /// The token's text.
    pub token: String,
    /// Its natural logarithm of probability.
    pub logprob: f64,
    /// Its bytes, where it is not whole characters.
    #[serde(default)]
    pub bytes: Option<Vec<u8>>,
}

/// Numbers of tokens, as far as they are known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Usage {
    /// Tokens of the prompt.
    pub prompt_tokens: Option<u64>,
    /// Tokens of the answer, reasoning included.
    pub completion_tokens: Option<u64>,
    /// Tokens of the prompt that were found in a cache.
    pub cached_tokens: Option<u64>,
    /// Tokens of reasoning.
    pub reasoning_tokens: Option<u64>,
}

impl Usage {
    /// Takes what `later` knows.
    pub(super) fn update(&mut self, later: Self) {
        self.prompt_tokens = later.prompt_tokens.or(self.prompt_tokens);
        self.completion_tokens = later.completion_tokens.or(self.completion_tokens);
        self.cached_tokens = later.cached_tokens.or(self.cached_tokens);
        self.reasoning_tokens = later.reasoning_tokens.or(self.reasoning_tokens);
    }

    /// Reports whether nothing is known.
    #[must_use]
    pub fn is_unknown(&self) -> bool {
        *self == Self::default()
    }
}

impl Delta {
    /// Reads a document: a text, `null`, or an object.
    pub(super) fn read(document: &[u8]) -> serde_json::Result<Self> {
        match document.first() {
            Some(b'"') => Ok(Self { content: Some(serde_json::from_slice(document)?), ..Self::default() }),
            Some(b'n') => serde_json::from_slice::<()>(document).map(|()| Self::default()),
            Some(b'{') => serde_json::from_slice(document),
            _ => Err(serde::de::Error::custom("expected a text or an object")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn document_is_a_text_or_an_object() {
        assert_eq!(Delta::read(br#""a\n""#).unwrap().content.as_deref(), Some("a\n"));
        assert_eq!(Delta::read(b"null").unwrap(), Delta::default());
        let read = Delta::read(br#"{"reasoning":"r","tool_calls":[{"name":"f","arguments":"{"}]}"#).unwrap();
        assert_eq!(read.reasoning.as_deref(), Some("r"));
        assert_eq!(read.tool_calls[0].name.as_deref(), Some("f"));
    }

    #[test]
    fn unknown_member_is_named() {
        for document in [&br#"{"contents":"a"}"#[..], b"[]", b"1", b"", b"nul"] {
            assert!(Delta::read(document).is_err());
        }
        assert!(Delta::read(br#"{"contents":"a"}"#).unwrap_err().to_string().contains("contents"));
    }
}
