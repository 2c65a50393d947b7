//! Admission of a request before its body is read.

use crate::{
    body::{RequestBody, next_chunk},
    state::{Context, RequestGuard},
};
use penstock_core::{Model, Result};
use std::{sync::Arc, time::Duration};
use tokio::time::timeout;

/// Longest body of a refused request that is read and discarded, in bytes.
const MAX_DISCARDED_BYTES: u64 = 64 << 10;

/// Timeout of that.
const DISCARD_TIMEOUT: Duration = Duration::from_secs(1);

/// Finds a request's model, records it in `labels`, and admits the request.
///
/// Closing a connection with unread bytes resets it, and the client may lose the response. So a small body of
/// a refused request is read and discarded.
///
/// # Errors
/// Any refusal that does not depend on the body.
pub(crate) async fn admit<B: RequestBody>(
    context: &Context,
    body: &mut B,
    labels: &mut Option<Arc<Model>>,
    find: impl FnOnce() -> Result<Arc<Model>>,
    check: impl FnOnce(&Model) -> Result<()>,
) -> Result<(RequestGuard, Arc<Model>)> {
    let admitted = || {
        let guard = context.enter_sequence()?;
        let model = find()?;
        *labels = Some(Arc::clone(&model));
        guard.check(&model)?;
        check(&model)?;
        model.admit()?;
        Ok((guard, model))
    };
    let admitted = admitted();
    if admitted.is_err() && body.size_hint().exact().is_some_and(|length| length <= MAX_DISCARDED_BYTES) {
        // A client that is slower may lose the response. Boxed: the futures of admitted requests stay small.
        let _ = Box::pin(timeout(DISCARD_TIMEOUT, async { while let Ok(Some(_)) = next_chunk(body).await {} })).await;
    }
    admitted
}
