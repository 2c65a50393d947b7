//! Tokens of a request to a language model, as its handler counts them.

use std::time::Duration;

/// Largest number of tokens of a request: doubles are exact up to here.
pub const MAX_TOKENS: u64 = 1 << 53;

/// Maximum bytes of a finish reason.
const MAX_REASON_BYTES: usize = 128;

/// Tokens of one request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TokenUsage {
    /// Place of the request in its batch.
    pub place: usize,
    /// Tokens of the prompt; `None` if they were not counted.
    pub prompt: Option<u64>,
    /// Generated tokens; `None` if they were not counted.
    pub completion: Option<u64>,
    /// Time from the cut of the batch to the last count.
    pub duration: Duration,
    /// Reason for the end of the text.
    pub finish_reason: Option<String>,
    /// Kind of the request.
    pub operation: GenAiOperation,
}

/// Kind of a request to a language model, by OpenTelemetry's names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GenAiOperation {
    /// Answer to a conversation.
    Chat,
    /// Vectors of texts.
    Embeddings,
    /// Content of several kinds.
    GenerateContent,
    /// Continuation of a text.
    #[default]
    TextCompletion,
}

impl GenAiOperation {
    /// All operations.
    pub const ALL: [Self; 4] = [Self::Chat, Self::Embeddings, Self::GenerateContent, Self::TextCompletion];

    /// Name in `gen_ai.operation.name`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Chat => "chat",
            Self::Embeddings => "embeddings",
            Self::GenerateContent => "generate_content",
            Self::TextCompletion => "text_completion",
        }
    }

    /// Operation of a name.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|operation| operation.name() == name)
    }
}

impl TokenUsage {
    /// Adds counts of the same request. The reason, the operation and the time are those of `more`.
    ///
    /// # Errors
    /// More than [`MAX_TOKENS`], or a long reason; a message. Nothing is added.
    pub fn add(&mut self, more: Self) -> Result<(), String> {
        let prompt = sum("prompt", self.prompt, more.prompt)?;
        let completion = sum("completion", self.completion, more.completion)?;
        let finish_reason = more.finish_reason.or_else(|| self.finish_reason.take());
        *self = Self { prompt, completion, finish_reason, ..more };
        Ok(())
    }

    /// Checks counts of another process, or of a caller.
    ///
    /// # Errors
    /// A message.
    pub fn check(&self) -> Result<(), String> {
        for (name, count) in [("prompt", self.prompt), ("completion", self.completion)] {
            sum(name, count, None)?;
        }
        match &self.finish_reason {
            Some(reason) if reason.len() > MAX_REASON_BYTES => {
                Err(format!("finish_reason has {} bytes, expected at most {MAX_REASON_BYTES}", reason.len()))
            }
            _ => Ok(()),
        }
    }
}

fn sum(name: &str, before: Option<u64>, more: Option<u64>) -> Result<Option<u64>, String> {
    if before.is_none() && more.is_none() {
        return Ok(None);
    }
    let sum = before.unwrap_or(0).saturating_add(more.unwrap_or(0));
    match sum {
        0..=MAX_TOKENS => Ok(Some(sum)),
        _ => Err(format!("{name} has {sum} tokens, expected at most 2**53 of a request")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(prompt: Option<u64>, completion: Option<u64>) -> TokenUsage {
        TokenUsage { prompt, completion, ..TokenUsage::default() }
    }

    #[test]
    fn counts_of_a_request_are_added() {
        let mut sum = usage(Some(5), None);
        sum.add(TokenUsage { finish_reason: Some("stop".to_owned()), ..usage(None, Some(2)) }).unwrap();
        sum.add(usage(None, Some(3))).unwrap();
        assert_eq!((sum.prompt, sum.completion, sum.finish_reason.as_deref()), (Some(5), Some(5), Some("stop")));
    }

    #[test]
    fn counts_above_the_maximum_are_refused() {
        let mut sum = usage(None, Some(MAX_TOKENS));
        let refused = sum.add(usage(None, Some(1))).unwrap_err();
        assert!(refused.starts_with("completion has 9007199254740993 tokens"), "{refused}");
        assert_eq!(sum.completion, Some(MAX_TOKENS));
        assert!(usage(Some(u64::MAX), None).check().unwrap_err().starts_with("prompt has"));
        let long = TokenUsage { finish_reason: Some("x".repeat(129)), ..TokenUsage::default() };
        assert!(long.check().unwrap_err().contains("at most 128"));
    }

    #[test]
    fn operations_have_names() {
        for operation in GenAiOperation::ALL {
            assert_eq!(GenAiOperation::by_name(operation.name()), Some(operation));
        }
        assert_eq!(GenAiOperation::by_name("other"), None);
    }
}
