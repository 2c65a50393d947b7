//! Writer of the audit log: a thread, so that no I/O thread waits for a disk.

use super::{
    super::{log::Log, timestamp::Stamp},
    chain::ChainEnd,
    event::AuditEvent,
    sink::Sink,
};
use crate::settings::{AuditTarget, LogLevel};
use penstock_core::{Error, Kind, Result};
use penstock_wire::settings::LogFormat;
use std::{
    sync::{
        Mutex, PoisonError, Weak,
        mpsc::{Receiver, Sender, SyncSender, channel, sync_channel},
    },
    thread,
    time::{Duration, Instant},
};
use tokio::{runtime::Handle, sync::oneshot, time::timeout};

/// Lines about denied access in a second. Anyone who connects can cause them, and each waits for the disk.
const MAX_DENIALS: u32 = 20;

/// Time after which a disk that does not answer counts as one that cannot be written.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);

const UNWRITABLE: &str = "the audit log cannot be written";

/// Audit log of a server.
#[derive(Debug)]
pub(crate) struct AuditLog {
    messages: Sender<Message>,
    denials: Mutex<Denials>,
}

#[derive(Debug)]
enum Message {
    /// An event, and who waits until it is written.
    Event(AuditEvent, Option<oneshot::Sender<bool>>),
    /// Opens the file again.
    Reopen(SyncSender<()>),
    /// Reports that all messages before it are done.
    Flush(SyncSender<()>),
}

#[derive(Debug, Default)]
struct Denials {
    since: Option<Instant>,
    lines: u32,
    skipped: u64,
}

/// State of the thread.
struct Writer {
    target: AuditTarget,
    sink: Sink,
    end: ChainEnd,
    /// Set after a failure, which is logged once.
    failed: bool,
    log: Weak<Log>,
}

impl AuditLog {
    /// Opens the destination, whose chain is continued, and starts the thread.
    ///
    /// # Errors
    /// The problem of the file.
    pub(crate) fn open(target: &AuditTarget, log: Weak<Log>) -> std::result::Result<Self, String> {
        let path = target.path();
        let opened = Sink::open(target);
        let mut sink = opened.map_err(|error| format!("'{}' cannot be opened: {error}", path.display()))?;
        let end = sink.chain_end(path)?.unwrap_or_default();
        let writer = Writer { target: target.clone(), sink, end, failed: false, log };
        let (messages, receiver) = channel();
        let thread = thread::Builder::new().name("penstock-audit".to_owned());
        thread.spawn(move || writer.run(&receiver)).map_err(|error| format!("cannot start a thread: {error}"))?;
        Ok(Self { messages, denials: Mutex::default() })
    }

    /// Records an event, and waits until it is written.
    ///
    /// # Errors
    /// `Unavailable` where it cannot be.
    pub(crate) async fn record(&self, event: AuditEvent) -> Result<()> {
        let (done, written) = oneshot::channel();
        let sent = self.messages.send(Message::Event(event, Some(done))).is_ok();
        let written = async { written.await.unwrap_or(false) };
        let is_written = match Handle::try_current() {
            // A call in this process may have no runtime, and then no clock.
            Err(_) => written.await,
            Ok(_) => timeout(WRITE_TIMEOUT, written).await.unwrap_or(false),
        };
        match sent && is_written {
            true => Ok(()),
            false => Err(Error::new(Kind::Unavailable, UNWRITABLE).retry_after(Duration::from_secs(1))),
        }
    }

    /// Records an event without waiting.
    pub(crate) fn note(&self, event: AuditEvent) {
        // Without its thread the log has failed already.
        let _ = self.messages.send(Message::Event(event, None));
    }

    /// Records denied access: a limited number of lines, and then how many have none.
    pub(crate) fn denied(&self, event: AuditEvent) {
        let now = Instant::now();
        let mut denials = self.denials.lock().unwrap_or_else(PoisonError::into_inner);
        if denials.since.is_none_or(|since| now.saturating_duration_since(since) >= Duration::from_secs(1)) {
            (denials.since, denials.lines) = (Some(now), 0);
        }
        if denials.lines == MAX_DENIALS {
            denials.skipped += 1;
            return;
        }
        denials.lines += 1;
        let skipped = std::mem::take(&mut denials.skipped);
        drop(denials);
        self.note(AuditEvent { skipped, ..event });
    }

    /// Opens the file again, which may have been moved away, and waits for that.
    pub(crate) fn reopen(&self) {
        let (done, opened) = sync_channel(1);
        if self.messages.send(Message::Reopen(done)).is_ok() {
            // It fails if the thread has ended.
            let _ = opened.recv_timeout(WRITE_TIMEOUT);
        }
    }

    /// Waits until all events so far are written, at most for `patience`.
    pub(crate) fn flush(&self, patience: Duration) {
        let (done, flushed) = sync_channel(1);
        if self.messages.send(Message::Flush(done)).is_ok() {
            let _ = flushed.recv_timeout(patience);
        }
    }
}

impl Writer {
    fn run(mut self, messages: &Receiver<Message>) {
        while let Ok(message) = messages.recv() {
            match message {
                Message::Event(event, done) => {
                    let is_written = self.write(&event);
                    // The client may have left.
                    let _ = done.map(|done| done.send(is_written));
                }
                Message::Reopen(done) => {
                    self.reopen();
                    let _ = done.send(());
                }
                Message::Flush(done) => {
                    let _ = done.send(());
                }
            }
        }
    }

    fn write(&mut self, event: &AuditEvent) -> bool {
        match self.try_write(event) {
            Ok(()) => {
                if std::mem::take(&mut self.failed) {
                    self.report(LogLevel::Info, "the audit log is written again");
                }
                true
            }
            Err(error) => {
                if !std::mem::replace(&mut self.failed, true) {
                    self.report(LogLevel::Error, &format!("{UNWRITABLE}, control changes are refused: {error}"));
                }
                false
            }
        }
    }

    fn try_write(&mut self, event: &AuditEvent) -> std::result::Result<(), String> {
        // A file that was opened again and is empty continues the one before it.
        if let Some(end) = self.sink.lock(self.target.path())? {
            self.end = end;
        }
        let (line, end) = self.end.append(event, &Stamp::now(LogFormat::Iso8601).text());
        self.sink.write(&line).map_err(|error| error.to_string())?;
        self.end = end;
        Ok(())
    }

    fn reopen(&mut self) {
        match Sink::open(&self.target) {
            Ok(sink) => self.sink = sink,
            Err(error) => self.report(LogLevel::Error, &format!("the audit log cannot be opened again: {error}")),
        }
    }

    fn report(&self, level: LogLevel, text: &str) {
        if let Some(log) = self.log.upgrade() {
            log.event(level, text);
        }
    }
}
