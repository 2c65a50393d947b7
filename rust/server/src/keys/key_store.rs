//! The keys of a server, and their reading again.

use super::{
    credential, file,
    key::{Denied, Key},
    key_table::KeyTable,
};
use crate::{
    observe::{AuditEvent, Log},
    settings::{KeySettings, LogLevel},
};
use http::HeaderMap;
use penstock_core::{
    ClientIdentity, Error, Kind,
    metrics::{DeniedReason, Metrics},
};
use penstock_tls::FileStamps;
use std::{
    os::unix::fs::PermissionsExt as _,
    path::Path,
    sync::{Arc, Mutex, PoisonError, RwLock},
    time::{Duration, Instant},
};
use tokio::time::sleep;

/// Interval at which a changed file is found.
const RELOAD_INTERVAL: Duration = Duration::from_secs(5);

/// Least time between two log lines about refused clients.
const LOG_INTERVAL: Duration = Duration::from_secs(1);

/// Permissions of others than the owner and its group, and of the group to write.
const TOO_OPEN: u32 = 0o027;

/// The keys of a server. A request uses those of its time.
#[derive(Debug)]
pub(crate) struct KeyStore {
    settings: KeySettings,
    table: RwLock<Arc<KeyTable>>,
    /// State of the file at the last reading, also of one that could not be used.
    seen: Mutex<FileStamps>,
    logged: Mutex<Option<Instant>>,
}

/// Result of a check: the client's key, and the table that it is from.
#[derive(Debug)]
pub(crate) struct Authenticated {
    pub(crate) key: Arc<Key>,
    table: Arc<KeyTable>,
    /// Key that the client sent; `None` without one.
    credential: Option<Box<[u8]>>,
}

/// Checks a file of keys.
///
/// # Errors
/// The first problem, with its line.
pub fn check_keys_file(path: &Path) -> Result<(), String> {
    file::read(path).map(drop)
}

impl KeyStore {
    /// Reads the keys.
    ///
    /// # Errors
    /// The first problem of the file.
    pub(crate) fn load(settings: &KeySettings, log: &Log) -> Result<Self, String> {
        let seen = FileStamps::of(settings.file.iter());
        let table = read(settings, log)?;
        let (settings, table) = (settings.clone(), RwLock::new(Arc::new(table)));
        Ok(Self { settings, table, seen: Mutex::new(seen), logged: Mutex::new(None) })
    }

    /// Returns the key of a request: that of its headers, else of its connection's certificate, else what clients
    /// without a key may do.
    ///
    /// # Errors
    /// `Unauthenticated` for a key that is unknown or expired, `InvalidInput` for two keys.
    pub(crate) fn authenticate(&self, headers: &HeaderMap, client: &ClientIdentity) -> Result<Authenticated, Denied> {
        let unknown = |error| Denied::new(DeniedReason::Unknown, error);
        let credential = credential::of(headers).map_err(unknown)?;
        let table = Arc::clone(&self.table.read().unwrap_or_else(PoisonError::into_inner));
        let key = match (credential, &client.certificate) {
            (Some(credential), _) => {
                let error = || unknown(Error::new(Kind::Unauthenticated, "this key is not known"));
                Some(table.find(credential).ok_or_else(error)?)
            }
            (None, Some(certificate)) => table.find_certificate(certificate),
            (None, None) => None,
        };
        let key = Arc::clone(key.unwrap_or(&table.anonymous));
        key.check_expiry()?;
        Ok(Authenticated { key, credential: credential.map(Into::into), table })
    }

    /// Reports whether a request has the same result as an earlier one of its connection.
    pub(crate) fn is_still(&self, before: &Authenticated, headers: &HeaderMap) -> bool {
        let table = self.table.read().unwrap_or_else(PoisonError::into_inner);
        let is_same = Arc::ptr_eq(&table, &before.table);
        drop(table);
        is_same
            && credential::of(headers)
                .is_ok_and(|credential| credential::equal(credential, before.credential.as_deref()))
            && before.key.check_expiry().is_ok()
    }

    /// Counts a refusal, and logs it: at most one line a second.
    pub(crate) fn refused(&self, denied: &Denied, client: &ClientIdentity, (metrics, log): (&Metrics, &Log)) {
        metrics.keys.denied(denied.reason);
        let mut logged = self.logged.lock().unwrap_or_else(PoisonError::into_inner);
        if logged.is_none_or(|logged| logged.elapsed() >= LOG_INTERVAL) {
            *logged = Some(Instant::now());
            drop(logged);
            log.event(LogLevel::Warning, &format!("refused a client, {}: {}", client.name(), denied.error.message()));
        }
    }

    /// Reads a changed file at an interval, for ever. Ends at once without a file.
    pub(crate) async fn watch(self: Arc<Self>, metrics: Arc<Metrics>, log: Arc<Log>) {
        if self.settings.file.is_none() {
            return;
        }
        loop {
            sleep(RELOAD_INTERVAL).await;
            let (own, metrics, log) = (Arc::clone(&self), Arc::clone(&metrics), Arc::clone(&log));
            // An error would be a panic, which was reported.
            let _ = tokio::task::spawn_blocking(move || own.reload(&metrics, &log)).await;
        }
    }

    /// Reads the file again if it has changed. One that cannot be used is logged, and the old keys stay.
    pub(crate) fn reload(&self, metrics: &Metrics, log: &Log) {
        let stamps = FileStamps::of(self.settings.file.iter());
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if *seen == stamps {
            return;
        }
        *seen = stamps;
        match read(&self.settings, log) {
            Ok(mut table) => {
                table.take_over(&self.table.read().unwrap_or_else(PoisonError::into_inner));
                *self.table.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(table);
                metrics.keys.reloaded(true);
                audit(log, true);
                log.event(LogLevel::Info, "the keys were read again");
            }
            Err(problem) => {
                metrics.keys.reloaded(false);
                audit(log, false);
                log.event(LogLevel::Error, &format!("the keys stay as they are: {problem}"));
            }
        }
    }
}

fn audit(log: &Log, ok: bool) {
    if let Some(audit) = log.audit() {
        audit.note(AuditEvent::of_operator("keys_reload", None, ok));
    }
}

fn read(settings: &KeySettings, log: &Log) -> Result<KeyTable, String> {
    let mut table = match &settings.file {
        None => KeyTable::default(),
        Some(path) => {
            let mode = path.metadata().map_or(0, |found| found.permissions().mode() & 0o777);
            if mode & TOO_OPEN != 0 {
                let text = format!("keys_file: '{}' has the mode {mode:04o}, expected 0600 or 0640", path.display());
                log.event(LogLevel::Warning, &text);
            }
            file::read(path)?
        }
    };
    if let Some(key) = &settings.api_key {
        if settings.file.is_none() {
            table.anonymous = Arc::new(Key::anonymous_by_default());
        }
        table.add_unlimited("api_key", key);
    }
    Ok(table)
}
