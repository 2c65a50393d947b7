//! Events of `POST /v1/messages`, Anthropic's API: content blocks that start, grow and stop.

use super::{
    choice::{Choice, Piece},
    delta::Usage,
    events::{EventFormat, Events, StreamError, members},
    write::{number, raw, text},
};

/// Writer of these events, of one answer.
#[derive(Debug)]
pub(super) struct MessageEvents {
    /// Members of the message that do not change.
    head: String,
    prompt_tokens: u64,
    begun: bool,
    /// The content so far; the last block may not have stopped.
    blocks: Vec<Block>,
    /// The last block has not stopped.
    open: bool,
}

/// A block of the content.
#[derive(Debug)]
enum Block {
    Thinking(String),
    Text(String),
    ToolUse { id: String, name: String, input: String },
}

impl MessageEvents {
    pub(super) fn new(format: EventFormat) -> Self {
        let head = members(&format.head).to_owned();
        Self { head, prompt_tokens: format.prompt_tokens, begun: false, blocks: Vec::new(), open: false }
    }

    fn begin(&mut self, out: &mut Vec<u8>, known: Usage) {
        if std::mem::replace(&mut self.begun, true) {
            return;
        }
        event(out, "message_start", |out| {
            raw(out, r#","message":{"#);
            raw(out, &self.head);
            raw(out, r#","content":[],"stop_reason":null,"stop_sequence":null,"usage":"#);
            usage(out, &known, self.prompt_tokens);
            out.push(b'}');
        });
    }

    /// Starts a block, after the last one has stopped.
    fn open(&mut self, out: &mut Vec<u8>, block: Block) {
        self.close(out);
        self.open = true;
        event(out, "content_block_start", |out| {
            raw(out, r#","index":"#);
            number(out, self.blocks.len());
            raw(out, r#","content_block":"#);
            match &block {
                Block::Thinking(_) => raw(out, r#"{"type":"thinking","thinking":"","signature":""}"#),
                Block::Text(_) => raw(out, r#"{"type":"text","text":""}"#),
                Block::ToolUse { id, name, .. } => tool_use(out, id, name, "{}"),
            }
        });
        self.blocks.push(block);
    }

    fn close(&mut self, out: &mut Vec<u8>) {
        if std::mem::replace(&mut self.open, false) {
            event(out, "content_block_stop", |out| {
                raw(out, r#","index":"#);
                number(out, self.blocks.len() - 1);
            });
        }
    }

    fn delta(&self, out: &mut Vec<u8>, kind: &str, member: &str, added: &str) {
        event(out, "content_block_delta", |out| {
            raw(out, r#","index":"#);
            number(out, self.blocks.len() - 1);
            raw(out, r#","delta":{"type":""#);
            raw(out, kind);
            raw(out, r#"",""#);
            raw(out, member);
            raw(out, r#"":"#);
            text(out, added);
            out.push(b'}');
        });
    }
}

/// Appends an event of a type; `rest` writes its members, each after a comma.
fn event(out: &mut Vec<u8>, kind: &str, rest: impl FnOnce(&mut Vec<u8>)) {
    raw(out, "event: ");
    raw(out, kind);
    raw(out, "\ndata: {\"type\":\"");
    raw(out, kind);
    raw(out, "\"");
    rest(out);
    raw(out, "}\n\n");
}

fn tool_use(out: &mut Vec<u8>, id: &str, name: &str, input: &str) {
    raw(out, r#"{"type":"tool_use","id":"#);
    text(out, id);
    raw(out, r#","name":"#);
    text(out, name);
    raw(out, r#","input":"#);
    raw(out, input);
    out.push(b'}');
}

/// Appends the object `usage` of messages.
fn usage(out: &mut Vec<u8>, usage: &Usage, prompt_tokens: u64) {
    raw(out, r#"{"input_tokens":"#);
    number(out, usage.prompt_tokens.unwrap_or(prompt_tokens));
    raw(out, r#","output_tokens":"#);
    number(out, usage.completion_tokens.unwrap_or(0));
    if let Some(cached) = usage.cached_tokens {
        raw(out, r#","cache_read_input_tokens":"#);
        number(out, cached);
    }
    out.push(b'}');
}

/// Appends the members `stop_reason` and `stop_sequence`.
fn stop(out: &mut Vec<u8>, choice: &Choice) {
    let reason = match (choice.stop(), choice.finish_reason()) {
        (Some(_), _) => "stop_sequence",
        (None, "stop") => "end_turn",
        (None, "length") => "max_tokens",
        (None, "tool_calls") => "tool_use",
        (None, "content_filter") => "refusal",
        (None, other) => other,
    };
    raw(out, r#""stop_reason":"#);
    text(out, reason);
    raw(out, r#","stop_sequence":"#);
    match choice.stop() {
        Some(stop) => text(out, stop),
        None => raw(out, "null"),
    }
}

impl Events for MessageEvents {
    fn piece(&mut self, out: &mut Vec<u8>, _: usize, piece: &Piece, choice: &Choice) {
        self.begin(out, choice.usage());
        if !piece.reasoning.is_empty() {
            if !self.open || !matches!(self.blocks.last(), Some(Block::Thinking(_))) {
                self.open(out, Block::Thinking(String::new()));
            }
            if let Some(Block::Thinking(content)) = self.blocks.last_mut() {
                content.push_str(&piece.reasoning);
            }
            self.delta(out, "thinking_delta", "thinking", &piece.reasoning);
        }
        if !piece.content.is_empty() {
            if !self.open || !matches!(self.blocks.last(), Some(Block::Text(_))) {
                self.open(out, Block::Text(String::new()));
            }
            if let Some(Block::Text(content)) = self.blocks.last_mut() {
                content.push_str(&piece.content);
            }
            self.delta(out, "text_delta", "text", &piece.content);
        }
        for part in &piece.calls {
            if part.begins {
                let call = &choice.tool_calls()[part.index];
                let block = Block::ToolUse { id: call.id.clone(), name: call.name.clone(), input: String::new() };
                self.open(out, block);
            }
            if part.arguments.is_empty() {
                continue;
            }
            if let Some(Block::ToolUse { input, .. }) = self.blocks.last_mut() {
                input.push_str(&part.arguments);
            }
            self.delta(out, "input_json_delta", "partial_json", &part.arguments);
        }
    }

    fn end_choice(&mut self, out: &mut Vec<u8>, _: usize, choice: &Choice) {
        self.begin(out, choice.usage());
        self.close(out);
    }

    fn end(&mut self, out: &mut Vec<u8>, choices: &[&Choice], known: &Usage) {
        event(out, "message_delta", |out| {
            raw(out, r#","delta":{"#);
            choices.iter().for_each(|choice| stop(out, choice));
            raw(out, r#"},"usage":"#);
            usage(out, known, self.prompt_tokens);
        });
        event(out, "message_stop", |_| {});
    }

    fn fail(&mut self, out: &mut Vec<u8>, error: &StreamError) {
        raw(out, "event: error\ndata: ");
        raw(out, &error.body);
        raw(out, "\n\n");
    }

    fn document(&mut self, out: &mut Vec<u8>, choices: &[&Choice], known: &Usage) {
        raw(out, "{");
        raw(out, &self.head);
        raw(out, r#","content":["#);
        for (index, block) in self.blocks.iter().enumerate() {
            if index > 0 {
                out.push(b',');
            }
            match block {
                Block::Thinking(content) => {
                    raw(out, r#"{"type":"thinking","signature":"","thinking":"#);
                    text(out, content);
                    out.push(b'}');
                }
                Block::Text(content) => {
                    raw(out, r#"{"type":"text","text":"#);
                    text(out, content);
                    out.push(b'}');
                }
                Block::ToolUse { id, name, input } => {
                    // The member is an object, so text that is none becomes a member of one.
                    let is_object = serde_json::from_str::<serde_json::Map<_, _>>(input).is_ok();
                    let input = match &**input {
                        input if is_object => input.to_owned(),
                        "" => "{}".to_owned(),
                        invalid => serde_json::json!({ "invalid_json": invalid }).to_string(),
                    };
                    tool_use(out, id, name, &input);
                }
            }
        }
        raw(out, "],");
        choices.iter().for_each(|choice| stop(out, choice));
        raw(out, r#","usage":"#);
        usage(out, known, self.prompt_tokens);
        out.push(b'}');
    }
}

#[cfg(test)]
mod tests {
    use super::super::events::Api;
    use super::super::testing::{document, format, stream};
    use serde_json::{Value, json};

    const DOCUMENTS: [&str; 4] = [
        r#"{"reasoning":"hm"}"#,
        r#""Hi""#,
        r#"{"tool_calls":[{"name":"f","arguments":"{\"a\":"},{"arguments":"1}"}]}"#,
        r#"{"tool_calls":[{"name":"g"}],"usage":{"completion_tokens":4}}"#,
    ];

    #[test]
    fn blocks_start_grow_and_stop() {
        let expected = [
            r#"message_start|{"type":"message_start","message":{"id":"x-1","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":7,"output_tokens":0}}}"#,
            r#"content_block_start|{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}"#,
            r#"content_block_delta|{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"hm"}}"#,
            r#"content_block_stop|{"type":"content_block_stop","index":0}"#,
            r#"content_block_start|{"type":"content_block_start","index":1,"content_block":{"type":"text","text":""}}"#,
            r#"content_block_delta|{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"Hi"}}"#,
            r#"content_block_stop|{"type":"content_block_stop","index":1}"#,
            r#"content_block_start|{"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"call_0","name":"f","input":{}}}"#,
            r#"content_block_delta|{"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"{\"a\":"}}"#,
            r#"content_block_delta|{"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"1}"}}"#,
            r#"content_block_stop|{"type":"content_block_stop","index":2}"#,
            r#"content_block_start|{"type":"content_block_start","index":3,"content_block":{"type":"tool_use","id":"call_1","name":"g","input":{}}}"#,
            r#"content_block_stop|{"type":"content_block_stop","index":3}"#,
            r#"message_delta|{"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"input_tokens":7,"output_tokens":4}}"#,
            r#"message_stop|{"type":"message_stop"}"#,
        ];
        let lines: Vec<_> =
            expected.iter().map(|line| format!("event: {}\n\n", line.replacen('|', "\ndata: ", 1))).collect();
        assert_eq!(stream(format(Api::Messages), &DOCUMENTS), lines.concat());
    }

    #[test]
    fn document_has_the_blocks() {
        let read: Value = serde_json::from_str(&document(format(Api::Messages), &DOCUMENTS)).unwrap();
        let content = json!([
            {"type": "thinking", "thinking": "hm", "signature": ""},
            {"type": "text", "text": "Hi"},
            {"type": "tool_use", "id": "call_0", "name": "f", "input": {"a": 1}},
            {"type": "tool_use", "id": "call_1", "name": "g", "input": {}},
        ]);
        assert_eq!((&read["content"], &read["stop_reason"]), (&content, &json!("tool_use")));
        let invalid = document(format(Api::Messages), &[r#"{"tool_calls":[{"name":"f","arguments":"{]"}]}"#]);
        assert!(invalid.contains(r#""input":{"invalid_json":"{]"}"#), "{invalid}");
    }
}
