//! Inference on models with a response cache.

use crate::{
    body::offload,
    state::{Context, RemoteCache},
};
use http::HeaderMap;
use penstock_core::{
    InferRequest, InferResponse, Model, Result,
    cache::{Cache, Identity, Key, Lead, Lookup},
};
use penstock_wire::cache_entry as wire;
use std::{
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

/// Headers with credentials of a client, for this server or for a proxy.
const CREDENTIALS: [&str; 4] = ["authorization", "cookie", "proxy-authorization", "x-api-key"];

/// Returns a cached response, or computes one. Concurrent equal requests share one computation.
pub(crate) async fn infer(
    context: &Context,
    (model, cache): (&Model, &Arc<Cache>),
    request: InferRequest,
    headers: &HeaderMap,
) -> Result<InferResponse> {
    let start = Instant::now();
    let metrics = model.metrics();
    let hit = |response| {
        cache.metrics().hits.inc();
        metrics.statistics.cache_hit(start.elapsed());
        Ok(response)
    };
    let level = model.spec().queueing.level(request.schedule.priority);
    let (request, key) = key(model, request, identity(context, model, headers)).await?;
    let lead = match cache.lookup(key, level, start) {
        Lookup::Hit(response) => return hit(response),
        Lookup::Lead(lead) => Some(lead),
        Lookup::Follow(other) => match other.await {
            Ok(response) => return hit(response),
            // A separate computation may succeed.
            Err(_) => None,
        },
        Lookup::Bypass => None,
    };
    let shared = SharedEntry::of(context, model, &key);
    if let Some(shared) = &shared
        && let Some((response, since)) = shared.find(model, request.rows).await
    {
        store(cache, lead, key, &response, since);
        cache.metrics().shared_hits.inc();
        return hit(response);
    }
    cache.metrics().misses.inc();
    metrics.statistics.cache_miss(start.elapsed());
    let response = model.infer(request, context.completions.as_ref()).await?;
    let computed = Instant::now();
    store(cache, lead, key, &response, computed);
    if let Some(shared) = shared {
        shared.put(&response);
    }
    metrics.statistics.cache_stored(computed.elapsed());
    Ok(response)
}

fn store(cache: &Cache, lead: Option<Lead>, key: Key, response: &InferResponse, since: Instant) {
    match lead {
        Some(lead) => lead.complete(response, since),
        None => drop(cache.store(key, response, since)),
    }
}

/// Entry of the cache that servers share.
struct SharedEntry<'a> {
    remote: &'a Arc<RemoteCache>,
    key: Key,
    ttl: Option<Duration>,
}

impl<'a> SharedEntry<'a> {
    fn of(context: &'a Context, model: &Model, key: &Key) -> Option<Self> {
        let (remote, caching) = (context.remote.as_ref()?, model.spec().cache.as_ref()?);
        let key = key.shared(model.spec(), caching.revision.as_ref()?);
        Some(Self { remote, key, ttl: caching.ttl })
    }

    /// Returns a response that is not expired, and the time of its computation.
    async fn find(&self, model: &Model, rows: usize) -> Option<(InferResponse, Instant)> {
        let bytes = self.remote.get(&self.key).await?;
        let (response, age) = wire::decode(model.spec(), rows, &self.key, bytes, SystemTime::now())?;
        let since = Instant::now().checked_sub(age).filter(|_| self.ttl.is_none_or(|ttl| age < ttl))?;
        Some((response, since))
    }

    fn put(self, response: &InferResponse) {
        if let Some(bytes) = wire::encode(&self.key, response, SystemTime::now()) {
            self.remote.put(self.key, bytes, self.ttl);
        }
    }
}

/// Returns the request and its key. Large inputs are hashed on a blocking thread.
async fn key(model: &Model, request: InferRequest, identity: Identity) -> Result<(InferRequest, Key)> {
    let bytes = request.inputs.iter().flatten().map(|tensor| tensor.as_slice().len()).sum();
    let spec = Arc::clone(model.spec());
    offload::run(bytes, move || {
        let key = Key::new(&spec, &request, &identity);
        Ok((request, key))
    })
    .await
}

/// Returns what distinguishes clients: credentials, certificates, the headers of access rules, and those that the
/// model names.
fn identity(context: &Context, model: &Model, headers: &HeaderMap) -> Identity {
    let access = &context.app.config.access;
    let vary = model.spec().cache.iter().flat_map(|caching| &caching.vary);
    let names = CREDENTIALS.into_iter().chain(access.headers()).chain(vary.map(String::as_str));
    let mut identity = Identity::new();
    if let Some(certificate) = &context.client.certificate {
        identity.push((":certificate".to_owned(), certificate.fingerprint.clone().into_bytes()));
    }
    for name in names {
        identity.extend(headers.get_all(name).iter().map(|value| (name.to_owned(), value.as_bytes().to_vec())));
    }
    identity
}
