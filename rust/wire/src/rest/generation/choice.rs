//! One generated answer: what its chunks add, and what it is at its end.

use super::{
    decoder::TextDecoder,
    delta::{Delta, TokenLogprob, ToolCallDelta, Usage},
};
use penstock_core::{Error, Result};

/// Limit of the arguments of one tool call, which the model may never end.
const MOST_ARGUMENT_BYTES: usize = 1 << 20;

/// Limit of tool calls in an answer.
const MOST_TOOL_CALLS: usize = 128;

/// Form of a model's chunks.
#[derive(Clone, Debug, Default)]
pub struct ChunkFormat {
    /// Chunks are documents; else text.
    pub documents: bool,
    /// The content ends before the first of these.
    pub stops: Vec<String>,
    /// Retains the whole answer.
    pub retain: bool,
    /// Prefix of the ids of tool calls, which an index follows.
    pub call_id: String,
}

/// A tool call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolCall {
    /// Id, by which its result refers to it.
    pub id: String,
    /// Name of the tool.
    pub name: String,
    /// Arguments so far, if they are retained: JSON text of the model, which need not be valid.
    pub arguments: String,
    /// Bytes of the arguments so far.
    bytes: usize,
}

/// Addition of one chunk to an answer.
#[derive(Debug, Default)]
pub struct Piece {
    pub(super) content: String,
    pub(super) reasoning: String,
    pub(super) calls: Vec<CallPart>,
    pub(super) logprobs: Vec<TokenLogprob>,
}

/// Part of a tool call.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct CallPart {
    pub(super) index: usize,
    /// The call begins here.
    pub(super) begins: bool,
    pub(super) arguments: String,
}

impl Piece {
    fn clear(&mut self) {
        self.content.clear();
        self.reasoning.clear();
        self.calls.clear();
        self.logprobs.clear();
    }

    /// Reports whether it adds nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.content.is_empty() && self.reasoning.is_empty() && self.calls.is_empty() && self.logprobs.is_empty()
    }
}

/// State of an answer.
///
/// ```
/// use penstock_wire::rest::generation::{Choice, ChunkFormat, Piece};
///
/// let mut choice = Choice::new(ChunkFormat { documents: true, retain: true, ..ChunkFormat::default() });
/// let mut piece = Piece::default();
/// choice.feed(br#"{"tool_calls":[{"name":"weather","arguments":"{}"}]}"#, &mut piece)?;
/// choice.finish(&mut piece);
/// assert_eq!((choice.finish_reason(), &*choice.tool_calls()[0].arguments), ("tool_calls", "{}"));
/// # Ok::<(), penstock_core::Error>(())
/// ```
#[derive(Debug)]
pub struct Choice {
    format: ChunkFormat,
    decoder: TextDecoder,
    content: String,
    reasoning: String,
    tool_calls: Vec<ToolCall>,
    logprobs: Vec<TokenLogprob>,
    /// The last tool call can be continued: no text has followed it.
    call_open: bool,
    finish_reason: Option<String>,
    usage: Usage,
}

impl Choice {
    /// An answer without chunks.
    #[must_use]
    pub fn new(mut format: ChunkFormat) -> Self {
        Self {
            decoder: TextDecoder::new(std::mem::take(&mut format.stops)),
            format,
            content: String::new(),
            reasoning: String::new(),
            tool_calls: Vec::new(),
            logprobs: Vec::new(),
            call_open: false,
            finish_reason: None,
            usage: Usage::default(),
        }
    }

    /// Reads a chunk into `piece`, which it clears. A cut character, and what may begin a stop text, is held back.
    ///
    /// # Errors
    /// `Handler`: not a document of this form, or a tool call beyond the limits.
    pub fn feed(&mut self, chunk: &[u8], piece: &mut Piece) -> Result<()> {
        self.feed_all([chunk], piece)
    }

    /// As [`Choice::feed`], for several chunks at once.
    ///
    /// # Errors
    /// As [`Choice::feed`].
    pub fn feed_all<'a>(&mut self, chunks: impl IntoIterator<Item = &'a [u8]>, piece: &mut Piece) -> Result<()> {
        piece.clear();
        for chunk in chunks {
            if self.format.documents {
                let delta = Delta::read(chunk);
                let delta = delta.map_err(|error| Error::handler(format!("the model gave no delta: {error}")))?;
                self.apply(delta, piece)?;
            } else {
                self.decoder.feed(chunk, &mut piece.content);
            }
        }
        self.take(piece);
        Ok(())
    }

    /// Reads the end of the answer into `piece`, which it clears: the text that was held back.
    pub fn finish(&mut self, piece: &mut Piece) {
        piece.clear();
        self.decoder.finish(&mut piece.content);
        self.take(piece);
    }

    /// Sets the finish reason that the model gave apart from its chunks.
    pub fn set_finish_reason(&mut self, reason: String) {
        self.finish_reason = Some(reason);
    }

    fn apply(&mut self, delta: Delta, piece: &mut Piece) -> Result<()> {
        let text = |text: Option<String>| text.unwrap_or_default();
        let (reasoning, content) = (text(delta.reasoning), text(delta.content));
        self.call_open &= reasoning.is_empty() && content.is_empty();
        piece.reasoning.push_str(&reasoning);
        self.decoder.feed(content.as_bytes(), &mut piece.content);
        if self.has_stopped() {
            return Ok(());
        }
        if !delta.tool_calls.is_empty() {
            self.decoder.finish(&mut piece.content);
        }
        for call in delta.tool_calls {
            piece.calls.push(self.call(call)?);
        }
        piece.logprobs.extend(delta.logprobs);
        self.finish_reason = delta.finish_reason.or(self.finish_reason.take());
        self.usage.update(delta.usage.unwrap_or_default());
        Ok(())
    }

    fn call(&mut self, delta: ToolCallDelta) -> Result<CallPart> {
        let begins = delta.name.is_some();
        if let Some(name) = delta.name {
            let index = self.tool_calls.len();
            if index == MOST_TOOL_CALLS {
                return Err(Error::handler(format!("the model made more than {MOST_TOOL_CALLS} tool calls")));
            }
            let id = delta.id.unwrap_or_else(|| format!("{}{index}", self.format.call_id));
            self.tool_calls.push(ToolCall { id, name, ..ToolCall::default() });
            self.call_open = true;
        }
        let index = self.tool_calls.len().wrapping_sub(1);
        let Some(call) = self.tool_calls.last_mut().filter(|_| self.call_open) else {
            let text = "the model gave arguments without the name of a tool call, or after text that followed the call";
            return Err(Error::handler(text));
        };
        let arguments = delta.arguments.unwrap_or_default();
        call.bytes += arguments.len();
        if call.bytes > MOST_ARGUMENT_BYTES {
            let name = &call.name;
            let text = format!("the model's call of '{name}' has more than {MOST_ARGUMENT_BYTES} bytes of arguments");
            return Err(Error::handler(text));
        }
        Ok(CallPart { index, begins, arguments })
    }

    /// Adds a piece to what is retained.
    fn take(&mut self, piece: &Piece) {
        if !self.format.retain {
            return;
        }
        self.content.push_str(&piece.content);
        self.reasoning.push_str(&piece.reasoning);
        self.logprobs.extend_from_slice(&piece.logprobs);
        for part in &piece.calls {
            self.tool_calls[part.index].arguments.push_str(&part.arguments);
        }
    }

    /// Reports whether a stop text was found: the answer has ended.
    #[must_use]
    pub fn has_stopped(&self) -> bool {
        self.decoder.stop().is_some()
    }

    /// Returns the stop text that was found.
    #[must_use]
    pub fn stop(&self) -> Option<&str> {
        self.decoder.stop()
    }

    /// Returns the finish reason: the model's, else `tool_calls` or `stop`.
    #[must_use]
    pub fn finish_reason(&self) -> &str {
        match &self.finish_reason {
            _ if self.has_stopped() => "stop",
            Some(reason) => reason,
            None if self.tool_calls.is_empty() => "stop",
            None => "tool_calls",
        }
    }

    /// Returns the content, if it is retained.
    #[must_use]
    pub fn content(&self) -> &str {
        &self.content
    }

    /// Returns the reasoning, if it is retained.
    #[must_use]
    pub fn reasoning(&self) -> &str {
        &self.reasoning
    }

    /// Returns the tool calls so far.
    #[must_use]
    pub fn tool_calls(&self) -> &[ToolCall] {
        &self.tool_calls
    }

    /// Returns the log probabilities, if they are retained.
    #[must_use]
    pub fn logprobs(&self) -> &[TokenLogprob] {
        &self.logprobs
    }

    /// Returns the numbers of tokens that the model gave.
    #[must_use]
    pub const fn usage(&self) -> Usage {
        self.usage
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choice(stops: &[&str]) -> Choice {
        let stops = stops.iter().map(ToString::to_string).collect();
        Choice::new(ChunkFormat { documents: true, stops, retain: true, call_id: "call_".to_owned() })
    }

    fn feed(choice: &mut Choice, documents: &[&str]) -> Result<()> {
        let mut piece = Piece::default();
        for document in documents {
            choice.feed(document.as_bytes(), &mut piece)?;
        }
        choice.finish(&mut piece);
        Ok(())
    }

    #[test]
    fn answer_is_the_sum_of_its_deltas() {
        let mut choice = choice(&[]);
        let documents = [
            r#"{"reasoning":"why "}"#,
            r#"{"reasoning":"not"}"#,
            r#""Let me see. ""#,
            r#"{"tool_calls":[{"name":"f","arguments":"{\"a\""}]}"#,
            r#"{"tool_calls":[{"arguments":":1}"},{"name":"g","id":"mine","arguments":"{}"}]}"#,
            r#"{"usage":{"prompt_tokens":3}}"#,
            r#"{"usage":{"completion_tokens":4}}"#,
        ];
        feed(&mut choice, &documents).unwrap();
        assert_eq!((choice.content(), choice.reasoning()), ("Let me see. ", "why not"));
        let calls: Vec<_> = choice.tool_calls().iter().map(|call| (&*call.id, &*call.name, &*call.arguments)).collect();
        assert_eq!(calls, [("call_0", "f", r#"{"a":1}"#), ("mine", "g", "{}")]);
        assert_eq!(choice.finish_reason(), "tool_calls");
        let usage = choice.usage();
        assert_eq!((usage.prompt_tokens, usage.completion_tokens), (Some(3), Some(4)));
    }

    #[test]
    fn stop_text_ends_the_content() {
        let mut choice = choice(&["STOP"]);
        feed(&mut choice, &[r#""one ST""#, r#"{"content":"OP two","finish_reason":"length"}"#]).unwrap();
        assert_eq!((choice.content(), choice.finish_reason(), choice.stop()), ("one ", "stop", Some("STOP")));
    }

    #[test]
    fn held_text_precedes_a_tool_call() {
        let mut choice = choice(&["STOP"]);
        let mut piece = Piece::default();
        choice.feed(br#""one ST""#, &mut piece).unwrap();
        assert_eq!(piece.content, "one ");
        choice.feed(br#"{"tool_calls":[{"name":"f"}]}"#, &mut piece).unwrap();
        assert_eq!((&*piece.content, piece.calls.len()), ("ST", 1));
    }

    #[test]
    fn tool_calls_are_bounded() {
        let long = format!(r#"{{"tool_calls":[{{"arguments":"{}"}}]}}"#, "a".repeat(600 << 10));
        let endless = [r#"{"tool_calls":[{"name":"f"}]}"#, &*long, &*long];
        let error = feed(&mut choice(&[]), &endless).unwrap_err();
        assert!(error.to_string().contains("call of 'f' has more than 1048576 bytes"), "{error}");
        let many = vec![r#"{"tool_calls":[{"name":"f"}]}"#; 129];
        assert!(feed(&mut choice(&[]), &many).unwrap_err().to_string().contains("more than 128 tool calls"));
        assert!(feed(&mut choice(&[]), &[r#"{"tool_calls":[{"arguments":"1"}]}"#]).is_err());
        let after_text = [r#"{"tool_calls":[{"name":"f"}]}"#, r#""text""#, r#"{"tool_calls":[{"arguments":"1"}]}"#];
        assert!(feed(&mut choice(&[]), &after_text).is_err());
    }
}
