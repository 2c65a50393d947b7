//! Response cache that servers share, over Redis' protocol. A failure is a miss: it is counted, and logged from time to
//! time, but fails no request.

use super::app::App;
use crate::settings::{LogLevel, SharedCache};
use bytes::Bytes;
use penstock_core::cache::Key;
use redis::{AsyncConnectionConfig, RedisResult, aio::MultiplexedConnection};
use std::{
    fmt,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

/// Timeout of one command.
const TIMEOUT: Duration = Duration::from_millis(100);

/// Time without commands after a failure.
const PAUSE: Duration = Duration::from_secs(1);

/// Interval between log lines about failures.
const LOG_INTERVAL: Duration = Duration::from_secs(30);

/// Concurrent writes of one I/O thread; further ones are skipped.
const MAX_IN_FLIGHT: usize = 64;

/// Largest value that is written, in bytes.
const MAX_VALUE_BYTES: usize = 16 << 20;

/// Prefix of each key.
const PREFIX: &[u8] = b"penstock:1:";

/// Client of one listener on one I/O thread.
#[derive(Debug)]
pub(crate) struct RemoteCache {
    app: Arc<App>,
    shared: SharedCache,
    state: Mutex<State>,
    in_flight: AtomicUsize,
}

#[derive(Default)]
struct State {
    connection: Option<MultiplexedConnection>,
    /// End of the pause after a failure.
    pause_until: Option<Instant>,
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("State").field("connected", &self.connection.is_some()).finish_non_exhaustive()
    }
}

impl RemoteCache {
    /// Creates a client, if a cache is configured.
    pub(crate) fn new(app: &Arc<App>) -> Option<Arc<Self>> {
        let shared = app.config.shared_cache.clone()?;
        let (app, state) = (Arc::clone(app), Mutex::default());
        Some(Arc::new(Self { app, shared, state, in_flight: AtomicUsize::new(0) }))
    }

    /// Reads the value of a key.
    pub(crate) async fn get(&self, key: &Key) -> Option<Bytes> {
        let mut command = redis::cmd("GET");
        command.arg(redis_key(key));
        let found: Option<Vec<u8>> = self.run(&command).await?;
        found.map(Bytes::from)
    }

    /// Writes a value without waiting.
    pub(crate) fn put(self: &Arc<Self>, key: Key, value: Vec<u8>, ttl: Option<Duration>) {
        if value.len() > MAX_VALUE_BYTES || self.is_pausing() {
            return;
        }
        if self.in_flight.fetch_add(1, Ordering::Relaxed) >= MAX_IN_FLIGHT {
            self.in_flight.fetch_sub(1, Ordering::Relaxed);
            return;
        }
        let remote = Arc::clone(self);
        tokio::spawn(async move {
            let mut command = redis::cmd("SET");
            command.arg(redis_key(&key)).arg(value);
            if let Some(ttl) = ttl {
                command.arg("PX").arg(u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX / 2).max(1));
            }
            let _: Option<redis::Value> = remote.run(&command).await;
            remote.in_flight.fetch_sub(1, Ordering::Relaxed);
        });
    }

    async fn run<T: redis::FromRedisValue>(&self, command: &redis::Cmd) -> Option<T> {
        if self.is_pausing() {
            return None;
        }
        let response = async { command.query_async(&mut self.connection().await?).await };
        match tokio::time::timeout(TIMEOUT, response).await {
            Ok(Ok(value)) => Some(value),
            Ok(Err(error)) => {
                self.failed(error.code().unwrap_or_else(|| error.category()));
                None
            }
            Err(_) => {
                self.failed("no answer in time");
                None
            }
        }
    }

    async fn connection(&self) -> RedisResult<MultiplexedConnection> {
        if let Some(connection) = &self.lock().connection {
            return Ok(connection.clone());
        }
        let config = AsyncConnectionConfig::new().set_connection_timeout(Some(TIMEOUT)).set_response_timeout(None);
        // Two concurrent callers open two; the last one stays.
        let made = self.shared.0.get_multiplexed_async_connection_with_config(&config).await?;
        self.lock().connection = Some(made.clone());
        Ok(made)
    }

    fn is_pausing(&self) -> bool {
        self.lock().pause_until.is_some_and(|until| Instant::now() < until)
    }

    fn failed(&self, why: &str) {
        let now = Instant::now();
        *self.lock() = State { connection: None, pause_until: Some(now + PAUSE) };
        self.app.metrics.cache_failures.inc();
        let mut logged = self.app.cache_failure_logged.lock().unwrap_or_else(PoisonError::into_inner);
        if logged.is_none_or(|logged| now.duration_since(logged) >= LOG_INTERVAL) {
            *logged = Some(now);
            drop(logged);
            self.app.log.event(
                LogLevel::Warning,
                &format!("the shared cache fails ({why}): misses of the local cache are computed"),
            );
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn redis_key(key: &Key) -> Vec<u8> {
    [PREFIX, key.as_bytes()].concat()
}
