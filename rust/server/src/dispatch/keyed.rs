//! Clients of requests: the one that a trusted proxy names, and that of the key.

use super::{Dispatcher, forwarded};
use crate::{
    body::{Body, RequestBody},
    keys::Authenticated,
    rest,
    settings::Serves,
    state::Context,
};
use http::{HeaderMap, Response, Version, request::Parts};
use penstock_core::{ClientIdentity, Protocol, Result};
use std::{
    borrow::Cow,
    sync::{Arc, Mutex, PoisonError},
};

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

impl Dispatcher {
    /// Returns the routes for the client of a request: the one that a trusted proxy names, and that of the key.
    ///
    /// # Errors
    /// `Unauthenticated` for a key that is unknown or expired, `InvalidInput` for two keys.
    pub(super) fn for_client(&self, headers: &HeaderMap) -> Result<Arc<Self>> {
        if let Some(context) = self.forwarded(headers) {
            let forwarded = self.in_context(context);
            return if forwarded.finds_client { forwarded.for_client(headers) } else { Ok(Arc::new(forwarded)) };
        }
        self.keyed.find(&self.context, headers, |context| self.in_context(context))
    }

    /// Returns the context of the client that a trusted proxy names; `None` where none does.
    fn forwarded(&self, headers: &HeaderMap) -> Option<Context> {
        let proxies = &self.context.app.config.trusted_proxies;
        let client = self.is_forwarded.then(|| forwarded::client(proxies, &self.context.client, headers)).flatten()?;
        // Whatever address it has: the proxy is between.
        Some(Context { local: false, local_peer: false, client: Arc::new(client), ..self.context.clone() })
    }

    /// Returns the context of a refused request, with its client.
    pub(super) fn for_audit(&self, headers: &HeaderMap) -> Cow<'_, Context> {
        let audit = self.context.app.log.audit();
        audit.and_then(|_| self.forwarded(headers)).map_or(Cow::Borrowed(&self.context), Cow::Owned)
    }

    /// Answers a request after its client is found.
    pub(super) async fn respond_to_client<B: RequestBody>(
        &self,
        head: &Parts,
        body: &mut B,
        protocol: Protocol,
    ) -> Response<Body> {
        match self.for_client(&head.headers) {
            Ok(found) => found.respond(head, body, protocol).await,
            Err(error) => self.close_if_draining(
                head.version < Version::HTTP_2,
                rest::refusal(self.count_refused(head, &error), &error),
            ),
        }
    }
}

/// Reports whether a request's key is to be checked. A listener for metrics only needs none.
pub(super) fn wants_key(context: &Context, serves: Serves) -> bool {
    context.app.keys.is_some() && context.key.is_none() && (serves.rest || serves.grpc)
}
