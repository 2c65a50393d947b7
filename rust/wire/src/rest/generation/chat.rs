//! Events of `POST /v1/chat/completions`: `chat.completion.chunk`.

use super::{
    choice::{Choice, Piece},
    chunk_frame::{self, ChunkFrame},
    delta::Usage,
    events::{EventFormat, Events, StreamError},
    write::{logprobs, number, raw, text},
};

/// Writer of these events.
#[derive(Debug)]
pub(super) struct ChatEvents {
    frame: ChunkFrame,
    /// The answers whose role was sent.
    begun: Vec<bool>,
}

impl ChatEvents {
    pub(super) fn new(format: &EventFormat, answers: usize) -> Self {
        Self { frame: ChunkFrame::new(format), begun: vec![false; answers] }
    }

    /// Appends an event; `delta` writes the members of the object of that name.
    fn event(&self, out: &mut Vec<u8>, index: usize, part: &Part<'_>, delta: impl FnOnce(&mut Vec<u8>)) {
        self.frame.event(out, (index, part.finish_reason), &part.usage, |out| {
            raw(out, r#","delta":{"#);
            delta(out);
            raw(out, r#"},"logprobs":"#);
            logprobs(out, part.piece.map_or(&[], |piece| &piece.logprobs));
        });
    }

    fn begin(&mut self, out: &mut Vec<u8>, index: usize, choice: &Choice) {
        if !std::mem::replace(&mut self.begun[index], true) {
            let part = Part { piece: None, finish_reason: None, usage: choice.usage() };
            self.event(out, index, &part, |out| raw(out, r#""role":"assistant","content":"""#));
        }
    }
}

/// Members of an event besides its delta.
struct Part<'a> {
    /// The piece whose log probabilities it has.
    piece: Option<&'a Piece>,
    finish_reason: Option<&'a str>,
    usage: Usage,
}

impl Events for ChatEvents {
    fn piece(&mut self, out: &mut Vec<u8>, index: usize, piece: &Piece, choice: &Choice) {
        self.begin(out, index, choice);
        let part = Part { piece: None, finish_reason: None, usage: choice.usage() };
        if !piece.reasoning.is_empty() {
            self.event(out, index, &part, |out| {
                // Clients read one of the two.
                raw(out, r#""reasoning":"#);
                text(out, &piece.reasoning);
                raw(out, r#","reasoning_content":"#);
                text(out, &piece.reasoning);
            });
        }
        if !piece.content.is_empty() || !piece.logprobs.is_empty() {
            self.event(out, index, &Part { piece: Some(piece), ..part }, |out| {
                raw(out, r#""content":"#);
                text(out, &piece.content);
            });
        }
        for call in &piece.calls {
            self.event(out, index, &part, |out| {
                raw(out, r#""tool_calls":[{"index":"#);
                number(out, call.index);
                let about = &choice.tool_calls()[call.index];
                if call.begins {
                    raw(out, r#","id":"#);
                    text(out, &about.id);
                    raw(out, r#","type":"function""#);
                }
                raw(out, r#","function":{"#);
                if call.begins {
                    raw(out, r#""name":"#);
                    text(out, &about.name);
                    out.push(b',');
                }
                raw(out, r#""arguments":"#);
                text(out, &call.arguments);
                raw(out, "}}]");
            });
        }
    }

    fn end_choice(&mut self, out: &mut Vec<u8>, index: usize, choice: &Choice) {
        self.begin(out, index, choice);
        let part = Part { piece: None, finish_reason: Some(choice.finish_reason()), usage: choice.usage() };
        self.event(out, index, &part, |_| {});
    }

    fn end(&mut self, out: &mut Vec<u8>, _: &[&Choice], sum: &Usage) {
        self.frame.end(out, sum);
    }

    fn fail(&mut self, out: &mut Vec<u8>, error: &StreamError) {
        chunk_frame::fail(out, error);
    }

    fn document(&mut self, out: &mut Vec<u8>, choices: &[&Choice], sum: &Usage) {
        self.frame.document(out, choices, sum, |out, _, choice| {
            raw(out, r#","message":{"role":"assistant","content":"#);
            message(out, choice);
            raw(out, r#"},"logprobs":"#);
            logprobs(out, choice.logprobs());
        });
    }
}

/// Appends the members of a message, from the value of `content` on.
fn message(out: &mut Vec<u8>, choice: &Choice) {
    match choice.content() {
        "" if !choice.tool_calls().is_empty() => raw(out, "null"),
        content => text(out, content),
    }
    raw(out, r#","refusal":null"#);
    if !choice.reasoning().is_empty() {
        raw(out, r#","reasoning":"#);
        text(out, choice.reasoning());
        raw(out, r#","reasoning_content":"#);
        text(out, choice.reasoning());
    }
    if choice.tool_calls().is_empty() {
        return;
    }
    raw(out, r#","tool_calls":["#);
    for (index, call) in choice.tool_calls().iter().enumerate() {
        raw(out, if index == 0 { r#"{"id":"# } else { r#",{"id":"# });
        text(out, &call.id);
        raw(out, r#","type":"function","function":{"name":"#);
        text(out, &call.name);
        raw(out, r#","arguments":"#);
        text(out, &call.arguments);
        raw(out, "}}");
    }
    out.push(b']');
}

#[cfg(test)]
mod tests {
    use super::super::events::{Api, EventFormat};
    use super::super::testing::{document, format, stream};

    fn chat() -> EventFormat {
        EventFormat { include_usage: true, ..format(Api::Chat) }
    }

    #[test]
    fn stream_has_roles_deltas_finish_reasons_and_usage() {
        let documents = [
            r#"{"reasoning":"hm"}"#,
            r#""Hi \"you\"""#,
            r#"{"tool_calls":[{"name":"f","arguments":"{"},{"arguments":"}"}]}"#,
            r#"{"usage":{"prompt_tokens":2,"completion_tokens":3,"reasoning_tokens":1}}"#,
        ];
        let expected = [
            r#"{"id":"x-1","choices":[{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}],"usage":null}"#,
            r#"{"id":"x-1","choices":[{"index":0,"delta":{"reasoning":"hm","reasoning_content":"hm"},"logprobs":null,"finish_reason":null}],"usage":null}"#,
            r#"{"id":"x-1","choices":[{"index":0,"delta":{"content":"Hi \"you\""},"logprobs":null,"finish_reason":null}],"usage":null}"#,
            r#"{"id":"x-1","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"call_0","type":"function","function":{"name":"f","arguments":"{"}}]},"logprobs":null,"finish_reason":null}],"usage":null}"#,
            r#"{"id":"x-1","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"}"}}]},"logprobs":null,"finish_reason":null}],"usage":null}"#,
            r#"{"id":"x-1","choices":[{"index":0,"delta":{},"logprobs":null,"finish_reason":"tool_calls"}],"usage":null}"#,
            r#"{"id":"x-1","choices":[],"usage":{"prompt_tokens":2,"completion_tokens":3,"total_tokens":5,"completion_tokens_details":{"reasoning_tokens":1}}}"#,
            "[DONE]",
        ];
        let lines: Vec<_> = expected.iter().map(|line| format!("data: {line}\n\n")).collect();
        assert_eq!(stream(chat(), &documents), lines.concat());
    }

    #[test]
    fn empty_answer_has_a_role_and_an_end() {
        let events = stream(format(Api::Chat), &[]);
        assert_eq!(events.matches("data: ").count(), 3);
        assert!(events.contains(r#""finish_reason":"stop""#) && !events.contains("usage"), "{events}");
    }

    #[test]
    fn continuous_usage_is_what_the_model_gives() {
        let continuous = EventFormat { continuous_usage: true, ..chat() };
        let documents = [r#"{"content":"a","usage":{"prompt_tokens":2,"completion_tokens":1}}"#, r#""b""#];
        let events = stream(continuous, &documents);
        assert_eq!(events.matches(r#""usage":{"prompt_tokens":2,"completion_tokens":1,"total_tokens":3}"#).count(), 5);
    }

    #[test]
    fn document_has_message_logprobs_and_usage() {
        let documents = [r#"{"content":"a","logprobs":[{"token":"a","logprob":-0.5}]}"#, r#"{"reasoning":"r"}"#];
        let expected = r#"{"id":"x-1","choices":[{"index":0,"message":{"role":"assistant","content":"a","refusal":null,"reasoning":"r","reasoning_content":"r"},"logprobs":{"content":[{"token":"a","logprob":-0.5,"bytes":null,"top_logprobs":[]}],"refusal":null},"finish_reason":"stop"}],"usage":{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0}}"#;
        assert_eq!(document(format(Api::Chat), &documents), expected);
        let called = document(format(Api::Chat), &[r#"{"tool_calls":[{"name":"f","arguments":"{}"}]}"#]);
        assert!(called.contains(r#""content":null,"refusal":null,"tool_calls":[{"id":"call_0","type":"function","function":{"name":"f","arguments":"{}"}}]"#), "{called}");
    }
}
