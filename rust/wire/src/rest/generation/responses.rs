//! Events of `POST /v1/responses`: output items that are added, grow and are done, with sequence numbers.

use super::{
    choice::{Choice, Piece},
    delta::{TokenLogprob, Usage},
    events::{EventFormat, Events, StreamError, members},
    response_item::{self, Content, Item, Status, usage},
    write::{json, number, raw, text},
};

/// Writer of these events, of one answer.
#[derive(Debug)]
pub(super) struct ResponseEvents {
    /// Members of the response that do not change.
    head: String,
    id: String,
    /// Number of events so far.
    sequence: usize,
    begun: bool,
    /// The output so far; the last item may not be done.
    items: Vec<Item>,
    /// The last item is not done.
    open: bool,
    /// Status and reason at the end.
    ended: Ended,
}

/// The state of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    Not,
    Completed,
    /// Incomplete, with the reason.
    Incomplete(&'static str),
    Failed,
}

impl ResponseEvents {
    pub(super) fn new(format: EventFormat) -> Self {
        Self {
            head: members(&format.head).to_owned(),
            id: format.id,
            sequence: 0,
            begun: false,
            items: Vec::new(),
            open: false,
            ended: Ended::Not,
        }
    }

    /// Appends an event of a type; `rest` writes its members, each after a comma.
    fn event(&mut self, out: &mut Vec<u8>, kind: &str, rest: impl FnOnce(&Self, &mut Vec<u8>)) {
        raw(out, "event: ");
        raw(out, kind);
        raw(out, "\ndata: {\"type\":\"");
        raw(out, kind);
        raw(out, r#"","sequence_number":"#);
        number(out, self.sequence);
        self.sequence += 1;
        rest(self, out);
        raw(out, "}\n\n");
    }

    /// Appends an event of the whole response.
    fn response_event(&mut self, out: &mut Vec<u8>, kind: &str, usage: Option<&Usage>, error: Option<&StreamError>) {
        self.event(out, kind, |events, out| {
            raw(out, r#","response":"#);
            events.response(out, usage, error);
        });
    }

    fn response(&self, out: &mut Vec<u8>, known: Option<&Usage>, error: Option<&StreamError>) {
        raw(out, "{");
        raw(out, &self.head);
        raw(out, r#","status":""#);
        raw(
            out,
            match self.ended {
                Ended::Not => "in_progress",
                Ended::Completed => "completed",
                Ended::Incomplete(_) => "incomplete",
                Ended::Failed => "failed",
            },
        );
        raw(out, r#"","error":"#);
        response_item::error(out, error);
        raw(out, r#","incomplete_details":"#);
        match self.ended {
            Ended::Incomplete(reason) => {
                raw(out, r#"{"reason":"#);
                text(out, reason);
                out.push(b'}');
            }
            _ => raw(out, "null"),
        }
        raw(out, r#","output":["#);
        for index in 0..self.items.len() {
            if index > 0 {
                out.push(b',');
            }
            self.items[index].write(out, self.status(index));
        }
        raw(out, r#"],"usage":"#);
        match known {
            Some(known) => usage(out, known),
            None => raw(out, "null"),
        }
        out.push(b'}');
    }

    /// Status of an item, once it is done.
    fn status(&self, index: usize) -> Status {
        match self.ended {
            Ended::Incomplete(_) if index + 1 == self.items.len() => Status::Incomplete,
            _ => Status::Completed,
        }
    }

    /// Appends an event of the last item.
    fn item_event(&mut self, out: &mut Vec<u8>, kind: &str, rest: impl FnOnce(&Item, &mut Vec<u8>)) {
        let index = self.items.len() - 1;
        self.event(out, kind, |events, out| {
            raw(out, r#","output_index":"#);
            number(out, index);
            let item = &events.items[index];
            raw(out, r#","item_id":"#);
            text(out, &item.id);
            rest(item, out);
        });
    }

    /// Returns the content of the item that is not done.
    fn last(&mut self) -> Option<&mut Content> {
        self.items.last_mut().filter(|_| self.open).map(|item| &mut item.content)
    }

    fn begin(&mut self, out: &mut Vec<u8>) {
        if !std::mem::replace(&mut self.begun, true) {
            self.response_event(out, "response.created", None, None);
            self.response_event(out, "response.in_progress", None, None);
        }
    }

    /// Adds an item, after the last one is done.
    fn open(&mut self, out: &mut Vec<u8>, content: Content) {
        self.close(out);
        let item = Item::new(content, &format!("{}_{}", self.id, self.items.len()));
        let has_part = item.has_part();
        self.items.push(item);
        self.open = true;
        self.whole_item_event(out, "response.output_item.added", Status::InProgress);
        if has_part {
            self.item_event(out, "response.content_part.added", |item, out| {
                raw(out, r#","content_index":0,"part":"#);
                item.write_part(out, true);
            });
        }
    }

    fn whole_item_event(&mut self, out: &mut Vec<u8>, kind: &str, status: Status) {
        let index = self.items.len() - 1;
        self.event(out, kind, |events, out| {
            raw(out, r#","output_index":"#);
            number(out, index);
            raw(out, r#","item":"#);
            events.items[index].write(out, status);
        });
    }

    /// Appends the events of the end of the last item, if it is not done.
    fn close(&mut self, out: &mut Vec<u8>) {
        if !std::mem::replace(&mut self.open, false) {
            return;
        }
        let index = self.items.len() - 1;
        let kind = match &self.items[index].content {
            Content::Reasoning(_) => "response.reasoning_text.done",
            Content::Message(..) => "response.output_text.done",
            Content::Call { .. } => "response.function_call_arguments.done",
        };
        self.item_event(out, kind, |item, out| match &item.content {
            Content::Reasoning(content) => {
                raw(out, r#","content_index":0,"text":"#);
                text(out, content);
            }
            Content::Message(content, logprobs) => {
                raw(out, r#","content_index":0,"logprobs":"#);
                json(out, &**logprobs);
                raw(out, r#","text":"#);
                text(out, content);
            }
            Content::Call { name, arguments, .. } => {
                raw(out, r#","name":"#);
                text(out, name);
                raw(out, r#","arguments":"#);
                text(out, arguments);
            }
        });
        if self.items[index].has_part() {
            self.item_event(out, "response.content_part.done", |item, out| {
                raw(out, r#","content_index":0,"part":"#);
                item.write_part(out, false);
            });
        }
        self.whole_item_event(out, "response.output_item.done", self.status(index));
    }

    fn delta(&mut self, out: &mut Vec<u8>, kind: &str, added: &str, logprobs: Option<&[TokenLogprob]>) {
        self.item_event(out, kind, |item, out| {
            if item.has_part() {
                raw(out, r#","content_index":0"#);
            }
            if let Some(logprobs) = logprobs {
                raw(out, r#","logprobs":"#);
                json(out, logprobs);
            }
            raw(out, r#","delta":"#);
            text(out, added);
        });
    }
}

impl Events for ResponseEvents {
    fn piece(&mut self, out: &mut Vec<u8>, _: usize, piece: &Piece, choice: &Choice) {
        self.begin(out);
        if !piece.reasoning.is_empty() {
            if !matches!(self.last(), Some(Content::Reasoning(_))) {
                self.open(out, Content::Reasoning(String::new()));
            }
            if let Some(Content::Reasoning(content)) = self.last() {
                content.push_str(&piece.reasoning);
            }
            self.delta(out, "response.reasoning_text.delta", &piece.reasoning, None);
        }
        if !piece.content.is_empty() || !piece.logprobs.is_empty() {
            if !matches!(self.last(), Some(Content::Message(..))) {
                self.open(out, Content::Message(String::new(), Vec::new()));
            }
            if let Some(Content::Message(content, logprobs)) = self.last() {
                content.push_str(&piece.content);
                logprobs.extend_from_slice(&piece.logprobs);
            }
            self.delta(out, "response.output_text.delta", &piece.content, Some(&piece.logprobs));
        }
        for part in &piece.calls {
            if part.begins {
                let call = &choice.tool_calls()[part.index];
                let (id, name) = (call.id.clone(), call.name.clone());
                self.open(out, Content::Call { id, name, arguments: String::new() });
            }
            if part.arguments.is_empty() {
                continue;
            }
            if let Some(Content::Call { arguments, .. }) = self.last() {
                arguments.push_str(&part.arguments);
            }
            self.delta(out, "response.function_call_arguments.delta", &part.arguments, None);
        }
    }

    fn end_choice(&mut self, out: &mut Vec<u8>, _: usize, choice: &Choice) {
        self.begin(out);
        let ended = match choice.finish_reason() {
            "length" => Ended::Incomplete("max_output_tokens"),
            "content_filter" => Ended::Incomplete("content_filter"),
            _ => Ended::Completed,
        };
        if self.items.is_empty() {
            self.open(out, Content::Message(String::new(), Vec::new()));
        }
        self.ended = ended;
        self.close(out);
    }

    fn end(&mut self, out: &mut Vec<u8>, _: &[&Choice], usage: &Usage) {
        let kind = if self.ended == Ended::Completed { "response.completed" } else { "response.incomplete" };
        self.response_event(out, kind, Some(usage), None);
    }

    fn fail(&mut self, out: &mut Vec<u8>, error: &StreamError) {
        self.begin(out);
        self.ended = Ended::Failed;
        self.event(out, "error", |_, out| {
            raw(out, r#","param":null,"code":"#);
            json(out, &error.code);
            raw(out, r#","message":"#);
            text(out, &error.message);
        });
        self.response_event(out, "response.failed", None, Some(error));
    }

    fn document(&mut self, out: &mut Vec<u8>, _: &[&Choice], usage: &Usage) {
        self.response(out, Some(usage), None);
    }
}

#[cfg(test)]
mod tests {
    use super::super::events::{Api, StreamError};
    use super::super::testing::{document, format, stream};
    use serde_json::{Value, json};

    fn events(text: &str) -> Vec<Value> {
        let mut events = Vec::new();
        for event in text.split_terminator("\n\n") {
            let (kind, data) = event.split_once("\ndata: ").unwrap();
            let data: Value = serde_json::from_str(data).unwrap();
            assert_eq!(kind.strip_prefix("event: ").unwrap(), data["type"]);
            assert_eq!(data["sequence_number"], events.len());
            events.push(data);
        }
        events
    }

    fn kinds(events: &[Value]) -> Vec<&str> {
        events
            .iter()
            .map(|event| event["type"].as_str().unwrap().strip_prefix("response.").unwrap_or("error"))
            .collect()
    }

    const DOCUMENTS: [&str; 5] = [
        r#"{"reasoning":"hm"}"#,
        r#""He""#,
        r#""llo""#,
        r#"{"tool_calls":[{"name":"f","arguments":"{"}]}"#,
        r#"{"tool_calls":[{"arguments":"}"},{"name":"g"}],"usage":{"prompt_tokens":1,"completion_tokens":2}}"#,
    ];

    #[test]
    fn items_are_added_grow_and_are_done() {
        let events = events(&stream(format(Api::Responses), &DOCUMENTS));
        let expected = "created in_progress \
            output_item.added content_part.added reasoning_text.delta reasoning_text.done content_part.done output_item.done \
            output_item.added content_part.added output_text.delta output_text.delta output_text.done content_part.done \
            output_item.done \
            output_item.added function_call_arguments.delta function_call_arguments.delta function_call_arguments.done \
            output_item.done output_item.added function_call_arguments.done output_item.done completed";
        assert_eq!(kinds(&events).join(" "), expected);
        let response = &events.last().unwrap()["response"];
        assert_eq!(response["id"], "x-1");
        assert_eq!(response["status"], "completed");
        let output = response["output"].as_array().unwrap();
        assert_eq!(output[1]["content"][0]["text"], "Hello");
        assert_eq!(output[2]["arguments"], "{}");
        assert_eq!((&output[3]["call_id"], &output[3]["name"]), (&json!("call_1"), &json!("g")));
        assert_eq!(response["usage"]["total_tokens"], 3);
        // Items keep their ids.
        for event in &events {
            if let (Some(index), Some(id)) = (event["output_index"].as_u64(), event.get("item_id")) {
                assert_eq!(output[index as usize]["id"], *id);
            }
        }
    }

    #[test]
    fn document_is_the_response_of_the_last_event() {
        let events = events(&stream(format(Api::Responses), &DOCUMENTS));
        let read: Value = serde_json::from_str(&document(format(Api::Responses), &DOCUMENTS)).unwrap();
        assert_eq!(read, events.last().unwrap()["response"]);
    }

    #[test]
    fn limit_of_tokens_makes_it_incomplete() {
        let events = events(&stream(format(Api::Responses), &[r#"{"content":"a","finish_reason":"length"}"#]));
        let last = events.last().unwrap();
        assert_eq!(last["type"], "response.incomplete");
        assert_eq!(last["response"]["incomplete_details"]["reason"], "max_output_tokens");
        assert_eq!(last["response"]["output"][0]["status"], "incomplete");
    }

    #[test]
    fn error_is_an_event_and_the_response_has_failed() {
        let mut out = Vec::new();
        let error = StreamError { body: String::new(), message: "no".to_owned(), code: None };
        format(Api::Responses).events(1).fail(&mut out, &error);
        let events = events(std::str::from_utf8(&out).unwrap());
        assert_eq!(kinds(&events), ["created", "in_progress", "error", "failed"]);
        assert_eq!(events[3]["response"]["error"], json!({"code": "server_error", "message": "no"}));
    }
}
