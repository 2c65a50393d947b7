//! Answers that servers share, in one that speaks Redis' protocol. Whatever fails there is a miss: it is counted, and
//! said once in a while, and no caller hears of it.

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

/// The longest that a request waits for the other server.
const PATIENCE: Duration = Duration::from_millis(100);

/// For how long nobody asks again after a failure.
const PAUSE: Duration = Duration::from_secs(1);

/// How often failures are said.
const SAY_EVERY: Duration = Duration::from_secs(30);

/// Answers of one I/O thread on their way there; further ones are not sent.
const MOST_UNDER_WAY: usize = 64;

/// Answers that are larger are not sent.
const MOST_BYTES: usize = 16 << 20;

/// Before each key there.
const PREFIX: &[u8] = b"penstock:1:";

/// The way there of one listener on one I/O thread.
#[derive(Debug)]
pub(crate) struct Remote {
    app: Arc<App>,
    shared: SharedCache,
    state: Mutex<State>,
    under_way: AtomicUsize,
}

#[derive(Default)]
struct State {
    connection: Option<MultiplexedConnection>,
    /// Until then nobody asks.
    pause_until: Option<Instant>,
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("State").field("connected", &self.connection.is_some()).finish_non_exhaustive()
    }
}

impl Remote {
    /// The way there, if answers are shared.
    pub(crate) fn new(app: &Arc<App>) -> Option<Arc<Self>> {
        let shared = app.config.shared_cache.clone()?;
        let (app, state) = (Arc::clone(app), Mutex::default());
        Some(Arc::new(Self { app, shared, state, under_way: AtomicUsize::new(0) }))
    }

    /// What lies there under a key.
    pub(crate) async fn get(&self, key: &Key) -> Option<Bytes> {
        let mut command = redis::cmd("GET");
        command.arg(place(key));
        let found: Option<Vec<u8>> = self.run(&command).await?;
        found.map(Bytes::from)
    }

    /// Lays an answer there, without waiting for it.
    pub(crate) fn put(self: &Arc<Self>, key: Key, value: Vec<u8>, ttl: Option<Duration>) {
        if value.len() > MOST_BYTES || self.is_pausing() {
            return;
        }
        if self.under_way.fetch_add(1, Ordering::Relaxed) >= MOST_UNDER_WAY {
            self.under_way.fetch_sub(1, Ordering::Relaxed);
            return;
        }
        let remote = Arc::clone(self);
        tokio::spawn(async move {
            let mut command = redis::cmd("SET");
            command.arg(place(&key)).arg(value);
            if let Some(ttl) = ttl {
                command.arg("PX").arg(u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX / 2).max(1));
            }
            let _: Option<redis::Value> = remote.run(&command).await;
            remote.under_way.fetch_sub(1, Ordering::Relaxed);
        });
    }

    async fn run<T: redis::FromRedisValue>(&self, command: &redis::Cmd) -> Option<T> {
        if self.is_pausing() {
            return None;
        }
        let answer = async { command.query_async(&mut self.connection().await?).await };
        match tokio::time::timeout(PATIENCE, answer).await {
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
        let config = AsyncConnectionConfig::new().set_connection_timeout(Some(PATIENCE)).set_response_timeout(None);
        // Two that come at once make two; the last one stays.
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
        let mut said = self.app.cache_failure_said.lock().unwrap_or_else(PoisonError::into_inner);
        if said.is_none_or(|said| now.duration_since(said) >= SAY_EVERY) {
            *said = Some(now);
            drop(said);
            self.app.log.say(
                LogLevel::Warning,
                &format!("the shared cache fails ({why}): what is not kept here is computed meanwhile"),
            );
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn place(key: &Key) -> Vec<u8> {
    [PREFIX, key.as_bytes()].concat()
}
