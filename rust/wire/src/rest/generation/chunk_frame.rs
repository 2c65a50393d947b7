//! Frame of the chunks and documents of completions and chats, which have the same members around each answer.

use super::{
    choice::Choice,
    delta::Usage,
    events::{EventFormat, StreamError, members},
    write::{number, raw, text, usage},
};

/// Writer of the frame.
#[derive(Debug)]
pub(super) struct ChunkFrame {
    /// The beginning of a chunk or a document, up to the first answer.
    before: String,
    include_usage: bool,
    continuous_usage: bool,
}

impl ChunkFrame {
    pub(super) fn new(format: &EventFormat) -> Self {
        Self {
            before: format!("{{{},\"choices\":[", members(&format.head)),
            include_usage: format.include_usage,
            continuous_usage: format.continuous_usage,
        }
    }

    /// Appends the event of one answer; `part` writes members of it, each after a comma.
    pub(super) fn event(
        &self,
        out: &mut Vec<u8>,
        (index, finish_reason): (usize, Option<&str>),
        known: &Usage,
        part: impl FnOnce(&mut Vec<u8>),
    ) {
        raw(out, "data: ");
        raw(out, &self.before);
        raw(out, r#"{"index":"#);
        number(out, index);
        part(out);
        raw(out, r#","finish_reason":"#);
        match finish_reason {
            Some(reason) => text(out, reason),
            None => raw(out, "null"),
        }
        raw(out, "}]");
        if self.continuous_usage && !known.is_unknown() {
            raw(out, r#","usage":"#);
            usage(out, known);
        } else if self.include_usage {
            raw(out, r#","usage":null"#);
        }
        raw(out, "}\n\n");
    }

    /// Appends the events of the end.
    pub(super) fn end(&self, out: &mut Vec<u8>, sum: &Usage) {
        if self.include_usage {
            raw(out, "data: ");
            raw(out, &self.before);
            raw(out, r#"],"usage":"#);
            usage(out, sum);
            raw(out, "}\n\n");
        }
        raw(out, "data: [DONE]\n\n");
    }

    /// Appends the document; `part` writes members of each answer, each after a comma.
    pub(super) fn document(
        &self,
        out: &mut Vec<u8>,
        choices: &[&Choice],
        sum: &Usage,
        part: impl Fn(&mut Vec<u8>, usize, &Choice),
    ) {
        raw(out, &self.before);
        for (index, choice) in choices.iter().enumerate() {
            raw(out, if index == 0 { r#"{"index":"# } else { r#",{"index":"# });
            number(out, index);
            part(out, index, choice);
            raw(out, r#","finish_reason":"#);
            text(out, choice.finish_reason());
            out.push(b'}');
        }
        raw(out, r#"],"usage":"#);
        usage(out, sum);
        out.push(b'}');
    }
}

/// Appends the event of an error.
pub(super) fn fail(out: &mut Vec<u8>, error: &StreamError) {
    raw(out, "data: ");
    raw(out, &error.body);
    raw(out, "\n\n");
}
