//! Address of a response cache that several servers share.

use redis::Client;
use std::fmt;

/// Address of the cache. It may hold a password and is never shown.
#[derive(Clone)]
pub struct SharedCache(pub(crate) Client);

impl SharedCache {
    /// Parses a URL: `redis://[user:password@]host[:port][/database]`, or `redis+unix:///path`.
    ///
    /// # Errors
    /// The expected form, without the URL.
    pub fn new(url: &str) -> Result<Self, String> {
        let wrong = || "expected redis://[user:password@]host[:port][/database] or redis+unix:///path".to_owned();
        Client::open(url).map(Self).map_err(|_| wrong())
    }
}

impl fmt::Debug for SharedCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedCache").finish_non_exhaustive()
    }
}
