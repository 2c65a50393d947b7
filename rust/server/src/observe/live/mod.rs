//! Records of single requests and errors for the page at `/live`, and its viewers.
//!
//! Errors with a cause are always kept, for they are rare. Requests are kept only while someone watches: without a
//! viewer a request reads one flag.

mod errors;
mod requests;
mod viewers;

pub(crate) use errors::{ErrorRecord, Failed, is_failure};
pub(crate) use requests::RequestRecord;
pub(crate) use viewers::{Feed, MAX_VIEWERS, Update, Viewer};

use errors::ErrorLog;
use requests::RequestLog;
use std::{
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::SystemTime,
};
use viewers::Viewers;

/// Recent requests and errors of a server, and its viewers.
#[derive(Debug)]
pub(crate) struct Live {
    started: SystemTime,
    /// Set while someone watches; read for every request.
    watched: AtomicBool,
    pub(crate) errors: ErrorLog,
    pub(crate) requests: RequestLog,
    viewers: Mutex<Viewers>,
}

impl Default for Live {
    fn default() -> Self {
        Self {
            started: SystemTime::now(),
            watched: AtomicBool::new(false),
            errors: ErrorLog::default(),
            requests: RequestLog::default(),
            viewers: Mutex::default(),
        }
    }
}

impl Live {
    /// Returns the start of the server.
    pub(crate) fn started(&self) -> SystemTime {
        self.started
    }

    /// Reports whether someone watches.
    pub(crate) fn is_watched(&self) -> bool {
        self.watched.load(Ordering::Relaxed)
    }
}
