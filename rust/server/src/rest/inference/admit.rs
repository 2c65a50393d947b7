//! What is refused before its body is read, and what becomes of that body.

use crate::{
    body::{RequestBody, next_chunk},
    state::{App, RequestGuard},
};
use penstock_core::{Model, Result};
use std::{sync::Arc, time::Duration};
use tokio::time::timeout;

/// The most bytes that are read of a body whose request is refused.
const MAX_DISCARDED_BYTES: u64 = 64 << 10;

/// How long is waited for them.
const DISCARD_TIMEOUT: Duration = Duration::from_secs(1);

/// Finds a request's model, which is noted in `labels`, and lets the request in.
///
/// A connection that is closed with bytes unread is reset, and its client may lose the answer. So a small body of
/// a request that is refused is read, and dropped.
///
/// # Errors
/// Whatever speaks against the request before its body is known.
pub(crate) async fn admit<B: RequestBody>(
    app: &Arc<App>,
    body: &mut B,
    labels: &mut Option<Arc<Model>>,
    find: impl FnOnce() -> Result<Arc<Model>>,
    check: impl FnOnce(&Model) -> Result<()>,
) -> Result<(RequestGuard, Arc<Model>)> {
    let admitted = || {
        let guard = app.enter_sequence()?;
        let model = find()?;
        *labels = Some(Arc::clone(&model));
        guard.check(&model)?;
        check(&model)?;
        model.admit()?;
        Ok((guard, model))
    };
    let admitted = admitted();
    if admitted.is_err() && body.size_hint().exact().is_some_and(|length| length <= MAX_DISCARDED_BYTES) {
        let read = async { while let Ok(Some(_)) = next_chunk(body).await {} };
        // Whoever does not send it in time has to do without the answer.
        let _ = timeout(DISCARD_TIMEOUT, read).await;
    }
    admitted
}
