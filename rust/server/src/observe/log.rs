//! Server log and access log. A thread writes both to standard error, so that a slow terminal slows no request.
//! When the log cannot keep up, lines are dropped and counted. The level can be changed while the server runs.
//! `tracing-appender` 0.2.5 would save 13 lines for 12 more crates, but it panics without a thread and copies each line.

use super::access_log::{Entry, Exchange, Line, json_line, text_line, text_line_of};
use super::audit::AuditLog;
use super::plain::{MAX_MESSAGE_BYTES, plain};
use super::sample::Sample;
use super::short_log::{ShortEntry, is_coloured, short_line};
use super::slow::{SlowRecord, SlowRequests, Stages};
use super::timestamp::Stamp;
use crate::settings::{AccessField, AccessLog, AuditTarget, Config, Live, LogLevel};
use penstock_core::Protocol;
use penstock_wire::settings::{LogFormat, LogSettings};
use prometheus_client::metrics::counter::Counter;
use std::{
    io::{self, BufWriter, Write},
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, SyncSender, TrySendError, sync_channel},
    },
    thread,
    time::Instant,
};

/// Lines that may wait for the writer.
const WAITING_LINES: usize = 8192;

/// Sender of lines to the writer thread.
#[derive(Debug)]
pub(crate) struct Log {
    settings: Mutex<LogSettings>,
    /// Set while requests are logged.
    requests: AtomicBool,
    /// Set while requests are logged, or slow ones recorded; read for every request.
    observed: AtomicBool,
    /// `None` where slow requests are not recorded.
    slow: Option<SlowRequests>,
    /// Set at the start, where there is an audit log.
    audit: OnceLock<AuditLog>,
    form: Live<AccessLog>,
    /// Chosen fields; see [`Log::fields`].
    fields: Vec<AccessField>,
    /// Successful requests that are logged.
    sample: Sample,
    /// Level of the configuration. `Debug` logs refused requests too.
    level: Live<LogLevel>,
    dropped: Counter,
    /// Started with the first line. `None` if the thread cannot be started.
    lines: OnceLock<Option<SyncSender<String>>>,
}

impl Log {
    pub(crate) fn new(config: &Config, dropped: Counter) -> Self {
        let (form, level) = (config.access_log, config.log_level);
        let on = form != AccessLog::Off;
        let settings = LogSettings {
            info: level >= LogLevel::Info,
            warning: level >= LogLevel::Warning,
            error: level >= LogLevel::Error,
            verbose_level: on.into(),
            format: LogFormat::Iso8601,
        };
        Self {
            settings: Mutex::new(settings),
            requests: AtomicBool::new(on),
            observed: AtomicBool::new(on || config.slow_request.is_some()),
            slow: config.slow_request.map(SlowRequests::new),
            audit: OnceLock::new(),
            form: form.into(),
            fields: config.access_log_fields.clone(),
            sample: Sample::new(config.access_log_sample),
            level: level.into(),
            dropped,
            lines: OnceLock::new(),
        }
    }

    /// Takes over the configuration. What clients have changed stays where the configuration has not changed.
    pub(crate) fn reconfigure(&self, requests: AccessLog, level: LogLevel) {
        let mut settings = self.settings.lock().unwrap_or_else(PoisonError::into_inner);
        if self.level.get() != level {
            self.level.set(level);
            settings.info = level >= LogLevel::Info;
            settings.warning = level >= LogLevel::Warning;
            settings.error = level >= LogLevel::Error;
        }
        if self.form.get() != requests {
            self.form.set(requests);
            settings.verbose_level = (requests != AccessLog::Off).into();
            self.observe(requests != AccessLog::Off);
        }
    }

    /// Returns the current settings.
    pub(crate) fn settings(&self) -> LogSettings {
        *self.settings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the settings under a lock, so that concurrent changes are not lost. Returns the new settings.
    ///
    /// # Errors
    /// The error of `change`; the settings stay.
    pub(crate) fn change<E>(
        &self,
        change: impl FnOnce(LogSettings) -> Result<LogSettings, E>,
    ) -> Result<LogSettings, E> {
        let mut settings = self.settings.lock().unwrap_or_else(PoisonError::into_inner);
        *settings = change(*settings)?;
        self.observe(settings.verbose_level > 0);
        Ok(*settings)
    }

    fn observe(&self, on: bool) {
        self.requests.store(on, Ordering::Relaxed);
        self.observed.store(on || self.slow.is_some(), Ordering::Relaxed);
    }

    /// Returns the fields of a line; none for the text line without names.
    fn fields(&self) -> &[AccessField] {
        match self.form.get() {
            AccessLog::Json if self.fields.is_empty() => &AccessField::ALL,
            _ => &self.fields,
        }
    }

    /// Reports whether requests are logged.
    pub(crate) fn logs_requests(&self) -> bool {
        self.requests.load(Ordering::Relaxed)
    }

    /// Reports whether the lines of requests have a field that must be known before the response.
    pub(crate) fn has_field(&self, field: AccessField) -> bool {
        self.fields().contains(&field)
    }

    /// Reports whether facts of requests are collected.
    pub(crate) fn observes_requests(&self) -> bool {
        self.observed.load(Ordering::Relaxed)
    }

    /// Returns the slow requests; `None` where they are not recorded.
    pub(crate) fn slow(&self) -> Option<&SlowRequests> {
        self.slow.as_ref()
    }

    /// Opens the audit log.
    ///
    /// # Errors
    /// The problem of its file.
    pub(crate) fn open_audit(self: &Arc<Self>, target: &AuditTarget) -> Result<(), String> {
        let audit = AuditLog::open(target, Arc::downgrade(self))?;
        let _ = self.audit.set(audit);
        Ok(())
    }

    /// Returns the audit log; `None` where there is none.
    pub(crate) fn audit(&self) -> Option<&AuditLog> {
        self.audit.get()
    }

    /// Reports whether the lines of requests have the causes of errors.
    pub(crate) fn logs_causes(&self) -> bool {
        self.logs_requests() && self.form.get() != AccessLog::Short
    }

    /// Reports whether the dispatcher logs each HTTP request, in the short form.
    pub(crate) fn logs_paths(&self) -> bool {
        self.logs_requests() && self.form.get() == AccessLog::Short
    }

    /// Logs one request.
    pub(crate) fn request(&self, entry: &Entry, exchange: Option<Exchange<'_>>) {
        if self.form.get() == AccessLog::Short {
            return self.request_in_short(entry);
        }
        if entry.error.is_none() && !self.sample.takes_next() {
            return;
        }
        let line = Line { entry, exchange, time: &Stamp::now(self.settings().format) };
        let fields = self.fields();
        self.write(match self.form.get() {
            AccessLog::Json => json_line(line, fields),
            _ if fields.is_empty() => text_line(line),
            _ => text_line_of(line, fields),
        });
    }

    /// Records a request, and logs it, if it was slow.
    pub(super) fn slow_request(&self, entry: Entry, exchange: Exchange<'_>, stages: &Stages) {
        let Some(slow) = &self.slow else { return };
        let measured = stages.measured(entry.timings);
        if measured.total < slow.threshold {
            return;
        }
        let time = Stamp::now(self.settings().format);
        let record = Arc::new(SlowRecord::new(entry, exchange, (&measured, time)));
        let Some(skipped) = slow.add(&record, Instant::now()) else { return };
        self.write(match self.form.get() {
            AccessLog::Json => record.json_line(skipped),
            _ => record.text_line(skipped),
        });
    }

    fn request_in_short(&self, entry: &Entry) {
        // The dispatcher logs it, with its path.
        if entry.protocol == Protocol::Http.name() {
            return;
        }
        self.short(&ShortEntry {
            method: entry.protocol,
            path: &entry.model_name(),
            status: entry.status,
            failed: entry.error.is_some(),
            duration: entry.duration,
            rows: (entry.timings.batch_rows > 0).then(|| entry.timings.batch_rows.to_string()).as_deref(),
        });
    }

    /// Logs one request in the short form.
    pub(crate) fn short(&self, entry: &ShortEntry<'_>) {
        if entry.failed || self.sample.takes_next() {
            self.write(short_line(entry, &Stamp::now(self.settings().format), is_coloured()));
        }
    }

    /// Reports whether a level is logged.
    pub(crate) fn is_enabled(&self, level: LogLevel) -> bool {
        let settings = self.settings();
        match level {
            LogLevel::Off => false,
            LogLevel::Error => settings.error,
            LogLevel::Warning => settings.warning,
            LogLevel::Info => settings.info,
            LogLevel::Debug => self.level.get() >= LogLevel::Debug && settings.info,
        }
    }

    /// Logs an event, if its level is enabled.
    pub(crate) fn event(&self, level: LogLevel, message: &str) {
        self.event_with(level, message, "");
    }

    /// Logs an event with the stacks of threads: a member of the JSON object, or indented lines below.
    pub(crate) fn event_with(&self, level: LogLevel, message: &str, stacks: &str) {
        if !self.is_enabled(level) {
            return;
        }
        let (time, message) = (Stamp::now(self.settings().format), plain(message, MAX_MESSAGE_BYTES));
        if self.form.get() == AccessLog::Json {
            let mut line = serde_json::json!({"time": time.json(), "level": level.name(), "message": message});
            if !stacks.is_empty() {
                line["stacks"] = stacks.into();
            }
            self.write(line.to_string() + "\n");
            return;
        }
        let mut line = format!("{} {} {message}\n", time.text(), level.name());
        for frame in stacks.lines() {
            line.extend(["    ", &plain(frame, MAX_MESSAGE_BYTES), "\n"]);
        }
        self.write(line);
    }

    fn write(&self, line: String) {
        let start = || {
            let (lines, receiver) = sync_channel(WAITING_LINES);
            let thread = thread::Builder::new().name("penstock-log".to_owned());
            thread.spawn(move || write_lines(&receiver)).ok().map(|_| lines)
        };
        let Some(lines) = self.lines.get_or_init(start) else { return };
        if let Err(TrySendError::Full(_)) = lines.try_send(line) {
            self.dropped.inc();
        }
    }
}

fn write_lines(lines: &Receiver<String>) {
    let mut out = BufWriter::new(io::stderr());
    while let Ok(line) = lines.recv() {
        // A failed write must not stop the server, and it cannot be logged.
        let _ = out.write_all(line.as_bytes());
        while let Ok(line) = lines.try_recv() {
            let _ = out.write_all(line.as_bytes());
        }
        let _ = out.flush();
    }
}
