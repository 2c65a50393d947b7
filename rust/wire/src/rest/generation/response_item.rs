//! Output items of `POST /v1/responses` as JSON, errors and numbers of tokens in its form.

use super::{
    delta::{TokenLogprob, Usage},
    events::StreamError,
    write::{json, number, raw, text},
};

/// An item of the output.
#[derive(Debug)]
pub(super) struct Item {
    /// Its id, with the prefix of its kind.
    pub(super) id: String,
    pub(super) content: Content,
}

/// Content of an item, as far as it has come.
#[derive(Debug)]
pub(super) enum Content {
    Reasoning(String),
    Message(String, Vec<TokenLogprob>),
    Call { id: String, name: String, arguments: String },
}

/// Status of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Status {
    InProgress,
    Completed,
    Incomplete,
}

impl Item {
    /// An item with the id `id` after the prefix of its kind.
    pub(super) fn new(content: Content, id: &str) -> Self {
        let prefix = match content {
            Content::Reasoning(_) => "rs",
            Content::Message(..) => "msg",
            Content::Call { .. } => "fc",
        };
        Self { id: format!("{prefix}_{id}"), content }
    }

    /// Reports whether it has a content part.
    pub(super) const fn has_part(&self) -> bool {
        !matches!(self.content, Content::Call { .. })
    }

    /// Appends the item; one in progress has no content yet.
    pub(super) fn write(&self, out: &mut Vec<u8>, status: Status) {
        let is_empty = status == Status::InProgress;
        raw(out, r#"{"id":"#);
        text(out, &self.id);
        raw(out, r#","status":"#);
        text(
            out,
            match status {
                Status::InProgress => "in_progress",
                Status::Completed => "completed",
                Status::Incomplete => "incomplete",
            },
        );
        match &self.content {
            Content::Reasoning(_) => raw(out, r#","type":"reasoning","summary":[],"content":["#),
            Content::Message(..) => raw(out, r#","type":"message","role":"assistant","content":["#),
            Content::Call { id, name, arguments } => {
                raw(out, r#","type":"function_call","call_id":"#);
                text(out, id);
                raw(out, r#","name":"#);
                text(out, name);
                raw(out, r#","arguments":"#);
                text(out, if is_empty { "" } else { arguments });
                out.push(b'}');
                return;
            }
        }
        if !is_empty {
            self.write_part(out, false);
        }
        raw(out, "]}");
    }

    /// Appends the content part; an empty one as it is added.
    pub(super) fn write_part(&self, out: &mut Vec<u8>, is_empty: bool) {
        match &self.content {
            Content::Reasoning(content) => {
                raw(out, r#"{"type":"reasoning_text","text":"#);
                text(out, if is_empty { "" } else { content });
            }
            Content::Message(content, logprobs) => {
                raw(out, r#"{"type":"output_text","annotations":[],"logprobs":"#);
                json(out, &logprobs[..if is_empty { 0 } else { logprobs.len() }]);
                raw(out, r#","text":"#);
                text(out, if is_empty { "" } else { content });
            }
            Content::Call { .. } => raw(out, "{"),
        }
        out.push(b'}');
    }
}

/// Appends the object `error` of responses; `null` without one.
pub(super) fn error(out: &mut Vec<u8>, error: Option<&StreamError>) {
    let Some(error) = error else { return raw(out, "null") };
    raw(out, r#"{"code":"#);
    text(out, error.code.as_deref().unwrap_or("server_error"));
    raw(out, r#","message":"#);
    text(out, &error.message);
    out.push(b'}');
}

/// Appends the object `usage` of responses.
pub(super) fn usage(out: &mut Vec<u8>, usage: &Usage) {
    let (input, output) = (usage.prompt_tokens.unwrap_or(0), usage.completion_tokens.unwrap_or(0));
    raw(out, r#"{"input_tokens":"#);
    number(out, input);
    raw(out, r#","input_tokens_details":{"cached_tokens":"#);
    number(out, usage.cached_tokens.unwrap_or(0));
    raw(out, r#"},"output_tokens":"#);
    number(out, output);
    raw(out, r#","output_tokens_details":{"reasoning_tokens":"#);
    number(out, usage.reasoning_tokens.unwrap_or(0));
    raw(out, r#"},"total_tokens":"#);
    number(out, input + output);
    out.push(b'}');
}
