//! Dispatchers of the clients of one connection, by their keys.

use super::Dispatcher;
use crate::{keys::Authenticated, state::Context};
use http::HeaderMap;
use penstock_core::{ClientIdentity, Result};
use std::sync::{Arc, Mutex, PoisonError};

/// The dispatcher of the last key of a connection. Most connections have requests of one client only.
#[derive(Debug, Default)]
pub(super) struct Keyed(Mutex<Option<(Authenticated, Arc<Dispatcher>)>>);

impl Keyed {
    /// Checks the key of a request, and returns the dispatcher in the context of its client.
    ///
    /// # Errors
    /// `Unauthenticated` for a key that is unknown or expired, `InvalidInput` for two keys.
    pub(super) fn find(
        &self,
        context: &Context,
        headers: &HeaderMap,
        make: impl FnOnce(Context) -> Dispatcher,
    ) -> Result<Arc<Dispatcher>> {
        // A dispatcher without keys does not ask.
        let Some(keys) = &context.app.keys else { return Ok(Arc::new(make(context.clone()))) };
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((before, dispatcher)) = &*last
            && keys.is_still(before, headers)
        {
            return Ok(Arc::clone(dispatcher));
        }
        let found = keys.authenticate(headers, &context.client).map_err(|denied| context.refuse(denied))?;
        let client = ClientIdentity {
            key: found.key.name.clone(),
            models: found.key.models.clone(),
            ..ClientIdentity::clone(&context.client)
        };
        let key = Some(Arc::clone(&found.key));
        let dispatcher = Arc::new(make(Context { client: Arc::new(client), key, ..context.clone() }));
        *last = Some((found, Arc::clone(&dispatcher)));
        Ok(dispatcher)
    }
}
