//! One line a request.

use crate::log::Stamp;
use penstock_core::Timings;
use std::{fmt::Write as _, time::Duration};

/// What is said of one request.
#[derive(Debug)]
pub(crate) struct Entry<'a> {
    pub(crate) id: &'a str,
    pub(crate) protocol: &'static str,
    pub(crate) model: &'a str,
    pub(crate) version: &'a str,
    /// `ok`, or the name of the error's kind.
    pub(crate) outcome: &'static str,
    /// HTTP status or gRPC code.
    pub(crate) status: i32,
    pub(crate) duration: Duration,
    pub(crate) timings: Timings,
    pub(crate) error: Option<&'a str>,
}

fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

/// A line for people.
pub(crate) fn text_line(entry: &Entry<'_>, time: &Stamp) -> String {
    let mut line = String::with_capacity(160);
    let _ = write!(
        line,
        "{} {} {}/{} {} {} {:.2}ms queue={:.2}ms compute={:.2}ms batch={} id=",
        time.text(),
        entry.protocol,
        entry.model,
        entry.version,
        entry.status,
        entry.outcome,
        milliseconds(entry.duration),
        milliseconds(entry.timings.queue),
        milliseconds(entry.timings.compute),
        entry.timings.batch_rows,
    );
    push_plain(&mut line, entry.id);
    if let Some(error) = entry.error {
        line.push_str(" error=\"");
        push_plain(&mut line, error);
        line.push('"');
    }
    line.push('\n');
    line
}

/// A client's text must not forge lines or move a terminal's cursor.
pub(crate) fn push_plain(line: &mut String, text: &str) {
    line.extend(text.chars().take(512).map(|c| if c.is_control() { ' ' } else { c }));
}

/// A line for machines.
pub(crate) fn json_line(entry: &Entry<'_>, time: &Stamp) -> String {
    let json = serde_json::json!({
        "time": time.json(),
        "id": entry.id,
        "protocol": entry.protocol,
        "model": entry.model,
        "version": entry.version,
        "outcome": entry.outcome,
        "status": entry.status,
        "duration_ms": milliseconds(entry.duration),
        "queue_ms": milliseconds(entry.timings.queue),
        "compute_ms": milliseconds(entry.timings.compute),
        "batch_rows": entry.timings.batch_rows,
        "error": entry.error,
    })
    .to_string();
    let mut line = String::with_capacity(json.len() + 1);
    for character in json.chars() {
        // JSON may hold these as they are, but some terminals obey them.
        if character.is_control() {
            let _ = write!(line, "\\u{:04x}", u32::from(character));
        } else {
            line.push(character);
        }
    }
    line.push('\n');
    line
}
