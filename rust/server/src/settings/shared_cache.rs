//! Address of a response cache that several servers share.

use redis::Client;
use std::fmt;

/// Where answers are shared. Its address may hold a password and is never shown.
#[derive(Clone)]
pub struct SharedCache(pub(crate) Client);

impl SharedCache {
    /// The server at a URL: `redis://[user:password@]host[:port][/database]`, or `redis+unix:///path`.
    ///
    /// # Errors
    /// What is wrong with it, without repeating it.
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
