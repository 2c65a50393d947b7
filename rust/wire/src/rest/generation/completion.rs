//! Events of `POST /v1/completions`: `text_completion`.

use super::{
    choice::{Choice, Piece},
    chunk_frame::{self, ChunkFrame},
    delta::{TokenLogprob, Usage},
    events::{EventFormat, Events, StreamError},
    write::{json, raw, text},
};
use serde::Serialize;
use std::collections::BTreeMap;

/// Writer of these events.
#[derive(Debug)]
pub(super) struct CompletionEvents {
    frame: ChunkFrame,
    /// Text before each answer.
    prompts: Vec<String>,
    /// The answers that have begun.
    begun: Vec<bool>,
    /// Characters of each answer so far.
    offsets: Vec<usize>,
}

impl CompletionEvents {
    pub(super) fn new(format: EventFormat, answers: usize) -> Self {
        Self {
            frame: ChunkFrame::new(&format),
            offsets: vec![0; answers],
            begun: vec![false; answers],
            prompts: format.echo,
        }
    }

    fn event(&mut self, out: &mut Vec<u8>, index: usize, content: &str, part: &Part<'_>) {
        let offset = self.offsets[index];
        self.frame.event(out, (index, part.finish_reason), &part.usage, |out| {
            raw(out, r#","text":"#);
            text(out, content);
            raw(out, r#","logprobs":"#);
            logprobs(out, part.logprobs, offset);
        });
        self.offsets[index] += content.chars().count();
    }

    fn begin(&mut self, out: &mut Vec<u8>, index: usize, choice: &Choice) {
        let begun = std::mem::replace(&mut self.begun[index], true);
        if let Some(prompt) = self.prompts.get(index).filter(|_| !begun).cloned() {
            self.event(out, index, &prompt, &Part { logprobs: &[], finish_reason: None, usage: choice.usage() });
        }
    }
}

/// Members of an event besides its text.
struct Part<'a> {
    logprobs: &'a [TokenLogprob],
    finish_reason: Option<&'a str>,
    usage: Usage,
}

/// Log probabilities in the form of this API.
#[derive(Serialize)]
struct Logprobs<'a> {
    tokens: Vec<&'a str>,
    token_logprobs: Vec<f64>,
    top_logprobs: Vec<BTreeMap<&'a str, f64>>,
    text_offset: Vec<usize>,
}

fn top(token: &TokenLogprob) -> BTreeMap<&str, f64> {
    token.top_logprobs.iter().map(|top| (&*top.token, top.logprob)).collect()
}

/// Appends log probabilities of tokens from a character on.
fn logprobs(out: &mut Vec<u8>, logprobs: &[TokenLogprob], mut offset: usize) {
    if logprobs.is_empty() {
        return raw(out, "null");
    }
    let text_offset = logprobs.iter().map(|token| {
        let start = offset;
        offset += token.token.chars().count();
        start
    });
    json(
        out,
        &Logprobs {
            text_offset: text_offset.collect(),
            tokens: logprobs.iter().map(|token| &*token.token).collect(),
            token_logprobs: logprobs.iter().map(|token| token.logprob).collect(),
            top_logprobs: logprobs.iter().map(top).collect(),
        },
    );
}

impl Events for CompletionEvents {
    fn piece(&mut self, out: &mut Vec<u8>, index: usize, piece: &Piece, choice: &Choice) {
        self.begin(out, index, choice);
        // This API has neither reasoning nor tool calls.
        if !piece.content.is_empty() || !piece.logprobs.is_empty() {
            let part = Part { logprobs: &piece.logprobs, finish_reason: None, usage: choice.usage() };
            self.event(out, index, &piece.content, &part);
        }
    }

    fn end_choice(&mut self, out: &mut Vec<u8>, index: usize, choice: &Choice) {
        self.begin(out, index, choice);
        let part = Part { logprobs: &[], finish_reason: Some(choice.finish_reason()), usage: choice.usage() };
        self.event(out, index, "", &part);
    }

    fn end(&mut self, out: &mut Vec<u8>, _: &[&Choice], sum: &Usage) {
        self.frame.end(out, sum);
    }

    fn fail(&mut self, out: &mut Vec<u8>, error: &StreamError) {
        chunk_frame::fail(out, error);
    }

    fn document(&mut self, out: &mut Vec<u8>, choices: &[&Choice], sum: &Usage) {
        self.frame.document(out, choices, sum, |out, index, choice| {
            let prompt = self.prompts.get(index).map_or("", String::as_str);
            raw(out, r#","text":"#);
            text(out, &[prompt, choice.content()].concat());
            raw(out, r#","logprobs":"#);
            logprobs(out, choice.logprobs(), prompt.chars().count());
        });
    }
}

#[cfg(test)]
mod tests {
    use super::super::events::{Api, EventFormat};
    use super::super::testing::{document, format, stream};

    const DOCUMENTS: [&str; 2] = [
        r#"{"content":"aé","logprobs":[{"token":"a","logprob":-1.5,"top_logprobs":[{"token":"b","logprob":-2.0}]},{"token":"é","logprob":0.0}]}"#,
        r#"{"content":"c","logprobs":[{"token":"c","logprob":-3.0}],"finish_reason":"length"}"#,
    ];

    #[test]
    fn stream_has_texts_offsets_and_the_echo() {
        let echo = EventFormat { echo: vec!["P".to_owned()], ..format(Api::Completions) };
        let expected = [
            r#"{"id":"x-1","choices":[{"index":0,"text":"P","logprobs":null,"finish_reason":null}]}"#,
            r#"{"id":"x-1","choices":[{"index":0,"text":"aé","logprobs":{"tokens":["a","é"],"token_logprobs":[-1.5,0.0],"top_logprobs":[{"b":-2.0},{}],"text_offset":[1,2]},"finish_reason":null}]}"#,
            r#"{"id":"x-1","choices":[{"index":0,"text":"c","logprobs":{"tokens":["c"],"token_logprobs":[-3.0],"top_logprobs":[{}],"text_offset":[3]},"finish_reason":null}]}"#,
            r#"{"id":"x-1","choices":[{"index":0,"text":"","logprobs":null,"finish_reason":"length"}]}"#,
            "[DONE]",
        ];
        let lines: Vec<_> = expected.iter().map(|line| format!("data: {line}\n\n")).collect();
        assert_eq!(stream(echo, &DOCUMENTS), lines.concat());
    }

    #[test]
    fn document_has_the_whole_text() {
        let expected = r#"{"id":"x-1","choices":[{"index":0,"text":"aéc","logprobs":{"tokens":["a","é","c"],"token_logprobs":[-1.5,0.0,-3.0],"top_logprobs":[{"b":-2.0},{},{}],"text_offset":[0,1,2]},"finish_reason":"length"}],"usage":{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0}}"#;
        assert_eq!(document(format(Api::Completions), &DOCUMENTS), expected);
    }
}
