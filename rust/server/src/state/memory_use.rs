//! Shedding by memory: above a share of the process's memory limit, new requests are refused.

use super::memory_group::MemoryGroup;
use crate::settings::Live;
use penstock_core::metrics::Metrics;
use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};
use tokio::time::sleep;

/// Interval between two readings.
const INTERVAL: Duration = Duration::from_millis(250);

/// Use of the memory that the process may have.
#[derive(Debug)]
pub(crate) struct MemoryUse {
    group: Option<MemoryGroup>,
    short: AtomicBool,
}

impl Default for MemoryUse {
    /// Finds the limit.
    fn default() -> Self {
        Self { group: MemoryGroup::of_process(), short: AtomicBool::new(false) }
    }
}

impl MemoryUse {
    /// Reports whether too much is used for new requests.
    pub(crate) fn is_short(&self) -> bool {
        self.short.load(Ordering::Relaxed)
    }

    /// Reads the use four times a second, for ever. Ends at once without a limit. `share` of it may be used; 0 for all.
    pub(crate) async fn watch(&self, share: &Live<f64>, metrics: &Metrics) {
        let Some(group) = &self.group else { return };
        metrics.memory_limit_bytes.set(i64::try_from(group.limit()).unwrap_or(i64::MAX));
        loop {
            if let Some(used) = group.used() {
                metrics.memory_used_bytes.set(i64::try_from(used).unwrap_or(i64::MAX));
                let most = match share.get() {
                    // A share is at most 1.
                    share if share > 0.0 => (group.limit() as f64 * share) as u64,
                    _ => u64::MAX,
                };
                let is_short = used > most;
                if self.short.swap(is_short, Ordering::Relaxed) != is_short {
                    let limit = group.limit();
                    match is_short {
                        true => tracing::warn!(used, limit, "new requests are refused: memory is short (memory_shed)"),
                        false => tracing::info!(used, limit, "requests are accepted again: memory is free"),
                    }
                }
            }
            sleep(INTERVAL).await;
        }
    }
}
