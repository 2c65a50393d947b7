//! Streams and documents of one answer, for tests.

use super::{
    choice::{Choice, ChunkFormat, Piece},
    events::{Api, EventFormat, Events},
};

/// The form of an API with the head `{"id":"x-1"}`.
pub(super) fn format(api: Api) -> EventFormat {
    EventFormat {
        api,
        head: r#"{"id":"x-1"}"#.to_owned(),
        id: "1".to_owned(),
        include_usage: false,
        continuous_usage: false,
        echo: Vec::new(),
        prompt_tokens: 7,
    }
}

fn run(events: &mut dyn Events, documents: &[&str]) -> (Vec<u8>, Choice) {
    let chunks = ChunkFormat { documents: true, retain: true, call_id: "call_".to_owned(), ..ChunkFormat::default() };
    let (mut choice, mut piece, mut out) = (Choice::new(chunks), Piece::default(), Vec::new());
    for document in documents {
        choice.feed(document.as_bytes(), &mut piece).unwrap();
        if !piece.is_empty() {
            events.piece(&mut out, 0, &piece, &choice);
        }
    }
    events.end_choice(&mut out, 0, &choice);
    (out, choice)
}

/// The events of the answer that documents of a model make.
pub(super) fn stream(format: EventFormat, documents: &[&str]) -> String {
    let mut events = format.events(1);
    let (mut out, choice) = run(&mut *events, documents);
    events.end(&mut out, &[&choice], &choice.usage());
    String::from_utf8(out).unwrap()
}

/// The response without a stream.
pub(super) fn document(format: EventFormat, documents: &[&str]) -> String {
    let mut events = format.events(1);
    let (_, choice) = run(&mut *events, documents);
    let mut out = Vec::new();
    events.document(&mut out, &[&choice], &choice.usage());
    String::from_utf8(out).unwrap()
}
