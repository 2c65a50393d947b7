//! One line a request, written by a thread of its own so that a slow terminal slows no request.
//! When the log cannot keep up, lines are dropped and counted.

use crate::config::AccessLog;
use penstock_core::Timings;
use prometheus_client::metrics::counter::Counter;
use std::{
    fmt::Write as _,
    io::{self, BufWriter, Write},
    sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel},
    thread,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// Lines that may wait for the writer.
const WAITING_LINES: usize = 8192;

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

/// Formats entries and hands them to the writer.
#[derive(Debug)]
pub(crate) struct AccessLogger {
    lines: SyncSender<String>,
    dropped: Counter,
    json: bool,
}

impl AccessLogger {
    /// `None` when nothing is to be logged.
    pub(crate) fn start(kind: AccessLog, dropped: Counter) -> Option<Self> {
        if kind == AccessLog::Off {
            return None;
        }
        let (lines, receiver) = sync_channel(WAITING_LINES);
        thread::Builder::new().name("penstock-log".to_owned()).spawn(move || write_lines(&receiver)).ok()?;
        Some(Self { lines, dropped, json: kind == AccessLog::Json })
    }

    /// Logs one request.
    pub(crate) fn log(&self, entry: &Entry<'_>) {
        let line = if self.json { json_line(entry) } else { text_line(entry) };
        if let Err(TrySendError::Full(_)) = self.lines.try_send(line) {
            self.dropped.inc();
        }
    }
}

fn write_lines(lines: &Receiver<String>) {
    let mut out = BufWriter::new(io::stderr());
    while let Ok(line) = lines.recv() {
        // A log that cannot be written must not stop the server: there is nowhere left to say so.
        let _ = out.write_all(line.as_bytes());
        while let Ok(line) = lines.try_recv() {
            let _ = out.write_all(line.as_bytes());
        }
        let _ = out.flush();
    }
}

fn seconds_since_epoch() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}

fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

fn text_line(entry: &Entry<'_>) -> String {
    let mut line = String::with_capacity(160);
    let _ = write!(
        line,
        "{:.3} {} {}/{} {} {} {:.2}ms queue={:.2}ms compute={:.2}ms batch={} id=",
        seconds_since_epoch(),
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
fn push_plain(line: &mut String, text: &str) {
    line.extend(text.chars().take(512).map(|c| if c.is_control() { ' ' } else { c }));
}

fn json_line(entry: &Entry<'_>) -> String {
    let json = serde_json::json!({
        "time": seconds_since_epoch(),
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
