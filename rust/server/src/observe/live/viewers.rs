//! Viewers of the live page: at most a few, who share one sampler.
//!
//! The first viewer starts the sampler, which ends after the last one.

use super::Live;
use bytes::Bytes;
use serde_json::Value;
use std::sync::{Arc, MutexGuard, PoisonError, atomic::Ordering};
use tokio::sync::watch;

/// Viewers at the same time.
pub(crate) const MAX_VIEWERS: usize = 8;

/// Updates of the sampler; `None` before the first one.
type Updates = watch::Receiver<Option<Arc<Update>>>;

/// One sample.
#[derive(Debug)]
pub(crate) struct Update {
    /// Number of the sample. A viewer that missed one needs the whole state.
    pub(crate) number: u64,
    /// The whole state.
    pub(crate) state: Arc<Value>,
    /// Changes since the sample before, as JSON.
    pub(crate) delta: Bytes,
}

#[derive(Debug, Default)]
pub(super) struct Viewers {
    count: usize,
    /// Set while a sampler runs.
    updates: Option<Updates>,
}

/// A viewer, until it is dropped.
#[derive(Debug)]
pub(crate) struct Viewer {
    live: Arc<Live>,
    pub(crate) updates: Updates,
}

/// The sampler's end: it runs while [`Feed::is_watched`].
#[derive(Debug)]
pub(crate) struct Feed {
    live: Arc<Live>,
    sender: watch::Sender<Option<Arc<Update>>>,
    ended: bool,
}

impl Live {
    /// Adds a viewer, with the sampler's end if the sampler is to be started. `None` if there are too many.
    pub(crate) fn join(self: &Arc<Self>) -> Option<(Viewer, Option<Feed>)> {
        let mut viewers = self.viewers();
        if viewers.count >= MAX_VIEWERS {
            return None;
        }
        viewers.count += 1;
        self.watched.store(true, Ordering::Relaxed);
        let (updates, feed) = match &viewers.updates {
            Some(updates) => (updates.clone(), None),
            None => {
                self.requests.clear();
                let (sender, updates) = watch::channel(None);
                viewers.updates = Some(updates.clone());
                (updates, Some(Feed { live: Arc::clone(self), sender, ended: false }))
            }
        };
        Some((Viewer { live: Arc::clone(self), updates }, feed))
    }

    /// Returns the number of viewers.
    pub(crate) fn viewer_count(&self) -> usize {
        self.viewers().count
    }

    fn viewers(&self) -> MutexGuard<'_, Viewers> {
        self.viewers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Viewer {
    fn drop(&mut self) {
        let mut viewers = self.live.viewers();
        viewers.count = viewers.count.saturating_sub(1);
        self.live.watched.store(viewers.count > 0, Ordering::Relaxed);
    }
}

impl Feed {
    /// Reports whether the sampler is needed. Once it is not, the next viewer starts another.
    pub(crate) fn is_watched(&mut self) -> bool {
        let mut viewers = self.live.viewers();
        if viewers.count == 0 && !self.ended {
            (viewers.updates, self.ended) = (None, true);
        }
        !self.ended
    }

    /// Sends a sample to all viewers.
    pub(crate) fn send(&self, update: Update) {
        self.sender.send_replace(Some(Arc::new(update)));
    }
}

impl Drop for Feed {
    /// Ends the viewers' streams, where the sampler ends before them: their pages connect again.
    fn drop(&mut self) {
        if !self.ended {
            self.live.viewers().updates = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn viewers_share_a_sampler_and_are_limited() {
        let live = Arc::new(Live::default());
        let (first, feed) = live.join().unwrap();
        let mut feed = feed.expect("the first viewer starts the sampler");
        let others: Vec<_> = (1..MAX_VIEWERS).map(|_| live.join().unwrap()).collect();
        assert!(others.iter().all(|(_, feed)| feed.is_none()));
        assert!(live.join().is_none() && live.is_watched() && live.viewer_count() == MAX_VIEWERS);
        drop(others);
        assert!(live.is_watched() && feed.is_watched());
        drop(first);
        assert!(!live.is_watched(), "at once, not only with the next sample");
        let (_second, none) = live.join().unwrap();
        assert!(none.is_none() && feed.is_watched(), "the sampler goes on for the next viewer");
    }

    #[test]
    fn sampler_that_ends_is_replaced_by_the_next_viewer() {
        let live = Arc::new(Live::default());
        let (viewer, feed) = live.join().unwrap();
        drop(viewer);
        let mut old = feed.unwrap();
        assert!(!old.is_watched());
        let (viewer, feed) = live.join().unwrap();
        assert!(feed.is_some());
        drop(old);
        assert!(live.join().unwrap().1.is_none(), "the old sampler does not end the new one");
        drop(feed);
        assert!(viewer.updates.has_changed().is_err(), "the viewer's stream ends");
        assert!(live.join().unwrap().1.is_some());
    }
}
