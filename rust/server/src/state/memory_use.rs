//! Shedding by memory: above a share of the process's memory limit, new requests are refused.

use super::memory_group::MemoryGroup;
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
    /// Bytes above which new requests are refused.
    most: u64,
    short: AtomicBool,
}

impl MemoryUse {
    /// Reads the limit. `share` of it may be used; 0 for all.
    pub(crate) fn new(share: f64) -> Self {
        let group = MemoryGroup::of_process();
        let most = match &group {
            // A share is at most 1.
            Some(group) if share > 0.0 => (group.limit() as f64 * share) as u64,
            _ => u64::MAX,
        };
        Self { group, most, short: AtomicBool::new(false) }
    }

    /// Reports whether too much is used for new requests.
    pub(crate) fn is_short(&self) -> bool {
        self.short.load(Ordering::Relaxed)
    }

    /// Reads the use four times a second, for ever. Ends at once without a limit.
    pub(crate) async fn watch(&self, metrics: &Metrics) {
        let Some(group) = &self.group else { return };
        metrics.memory_limit_bytes.set(i64::try_from(group.limit()).unwrap_or(i64::MAX));
        loop {
            if let Some(used) = group.used() {
                metrics.memory_used_bytes.set(i64::try_from(used).unwrap_or(i64::MAX));
                let is_short = used > self.most;
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
