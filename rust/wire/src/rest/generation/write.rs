//! Parts of events: JSON members that several APIs have.

use super::delta::{TokenLogprob, Usage};
use crate::json::string;
use serde::Serialize;

/// Appends text as it is.
pub(super) fn raw(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(text.as_bytes());
}

/// Appends a JSON string.
pub(super) fn text(out: &mut Vec<u8>, text: &str) {
    string::write(out, text);
}

/// Appends an integer.
pub(super) fn number(out: &mut Vec<u8>, number: impl itoa::Integer) {
    raw(out, itoa::Buffer::new().format(number));
}

/// Appends a value that has a JSON form.
pub(super) fn json(out: &mut Vec<u8>, value: &(impl Serialize + ?Sized)) {
    // Values here have no maps with other keys than strings, the only error but those of the writer, which has none.
    let _: serde_json::Result<()> = serde_json::to_writer(out, value);
}

/// Appends `{"content":[...]}`, or `null` without log probabilities.
pub(super) fn logprobs(out: &mut Vec<u8>, logprobs: &[TokenLogprob]) {
    if logprobs.is_empty() {
        return raw(out, "null");
    }
    raw(out, r#"{"content":"#);
    json(out, logprobs);
    raw(out, r#","refusal":null}"#);
}

/// Appends the object `usage` of completions and chats.
pub(super) fn usage(out: &mut Vec<u8>, usage: &Usage) {
    let (prompt, completion) = (usage.prompt_tokens.unwrap_or(0), usage.completion_tokens.unwrap_or(0));
    raw(out, r#"{"prompt_tokens":"#);
    number(out, prompt);
    raw(out, r#","completion_tokens":"#);
    number(out, completion);
    raw(out, r#","total_tokens":"#);
    number(out, prompt + completion);
    if let Some(cached) = usage.cached_tokens {
        raw(out, r#","prompt_tokens_details":{"cached_tokens":"#);
        number(out, cached);
        out.push(b'}');
    }
    if let Some(reasoning) = usage.reasoning_tokens {
        raw(out, r#","completion_tokens_details":{"reasoning_tokens":"#);
        number(out, reasoning);
        out.push(b'}');
    }
    out.push(b'}');
}
