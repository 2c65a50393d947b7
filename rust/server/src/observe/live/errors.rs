//! The last errors, equal ones counted together.

use penstock_core::{Error, Kind, ModelSpec};
use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
    time::SystemTime,
};

/// Errors that are kept.
const KEPT: usize = 20;

/// Longest request id that is kept, in bytes.
const MAX_ID_BYTES: usize = 64;

/// One error, or several equal ones.
#[derive(Clone, Debug)]
pub(crate) struct ErrorRecord {
    /// Number of the record; later ones have larger numbers.
    pub(crate) serial: u64,
    /// Time of the last one.
    pub(crate) time: SystemTime,
    /// Number of equal errors.
    pub(crate) count: u64,
    /// `None` for a request of no known model.
    pub(crate) model: Option<Arc<ModelSpec>>,
    pub(crate) kind: Kind,
    pub(crate) protocol: &'static str,
    /// HTTP status or gRPC code.
    pub(crate) status: i32,
    /// Request id of the last one.
    pub(crate) id: String,
    pub(crate) error: Error,
}

/// A failed request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Failed<'a> {
    pub(crate) model: Option<&'a Arc<ModelSpec>>,
    pub(crate) protocol: &'static str,
    pub(crate) status: i32,
    pub(crate) id: &'a str,
    pub(crate) error: &'a Error,
}

/// The last errors. Failures of handlers and of the server have their own places, so that refusals do not displace
/// them.
#[derive(Debug, Default)]
pub(crate) struct ErrorLog(Mutex<Errors>);

#[derive(Debug, Default)]
struct Errors {
    serial: u64,
    failures: VecDeque<ErrorRecord>,
    refusals: VecDeque<ErrorRecord>,
}

/// Reports whether an error is the fault of a handler or of the server. Those are always kept.
pub(crate) fn is_failure(error: &Error) -> bool {
    matches!(error.kind(), Kind::Handler | Kind::Internal) || error.traceback().is_some()
}

impl ErrorLog {
    /// Adds an error.
    pub(crate) fn add(&self, failed: Failed<'_>) {
        let mut errors = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Errors { serial, failures, refusals } = &mut *errors;
        let kept = if is_failure(failed.error) { failures } else { refusals };
        let id = failed.id[..failed.id.floor_char_boundary(MAX_ID_BYTES)].to_owned();
        if let Some(same) = kept.iter_mut().find(|record| record.is_like(failed)) {
            (same.time, same.count, same.id) = (SystemTime::now(), same.count + 1, id);
            return;
        }
        if kept.len() == KEPT {
            let oldest = kept.iter().enumerate().min_by_key(|(_, record)| record.time).map_or(0, |(place, _)| place);
            kept.remove(oldest);
        }
        *serial += 1;
        let Failed { model, protocol, status, error, .. } = failed;
        kept.push_back(ErrorRecord {
            serial: *serial,
            time: SystemTime::now(),
            count: 1,
            model: model.cloned(),
            kind: error.kind(),
            protocol,
            status,
            id,
            error: error.clone(),
        });
    }

    /// Returns the errors: failures, then refusals.
    pub(crate) fn all(&self) -> Vec<ErrorRecord> {
        let errors = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        errors.failures.iter().chain(&errors.refusals).cloned().collect()
    }
}

impl ErrorRecord {
    fn is_like(&self, failed: Failed<'_>) -> bool {
        let names = |spec: &ModelSpec| (Arc::clone(&spec.name), Arc::clone(&spec.version));
        (self.kind, self.status, self.protocol) == (failed.error.kind(), failed.status, failed.protocol)
            && self.error.message() == failed.error.message()
            && self.error.traceback() == failed.error.traceback()
            && self.model.as_deref().map(names) == failed.model.map(|spec| names(spec))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(log: &ErrorLog, error: &Error) {
        log.add(Failed { model: None, protocol: "http", status: 500, id: "r", error });
    }

    #[test]
    fn equal_errors_are_counted_and_others_are_bounded() {
        let log = ErrorLog::default();
        let failure = Error::handler("failed").with_traceback("line 1");
        (0..3).for_each(|_| add(&log, &failure));
        add(&log, &Error::handler("failed").with_traceback("line 2"));
        assert_eq!(log.all().iter().map(|record| record.count).collect::<Vec<_>>(), [3, 1]);
        (0..100).for_each(|number| add(&log, &Error::invalid(format!("wrong {number}"))));
        let all = log.all();
        assert_eq!(all.len(), 2 + KEPT, "refusals do not displace failures");
        assert_eq!(all.last().unwrap().error.message(), "wrong 99");
        (0..100).for_each(|number| add(&log, &Error::handler(format!("failed {number}"))));
        assert_eq!(log.all().len(), 2 * KEPT);
    }
}
