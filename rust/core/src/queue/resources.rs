//! What the instances of all models share: devices, memory, licences. An instance begins a batch only when there is all
//! that its model needs.
//!
//! All of it is taken in one step, so no two can hold what the other one waits for. Who has waited for its turn comes
//! first: a model's turn moves on by the inverse of its weight each time that it begins, as in stride scheduling, and
//! what a model waits for is kept from those whose turn is later. So one that needs much does not starve.

use super::{Queue, lane::Lane};
use crate::{Error, ResourceRequest, Result, batch::policy::Decision};
use std::{
    cmp::Ordering,
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicU64, Ordering as Atomic},
    },
};

/// What a server has.
#[derive(Debug, Default)]
pub struct Resources {
    names: Vec<(Arc<str>, u64)>,
    inner: Mutex<Inner>,
    next: AtomicU64,
}

#[derive(Debug, Default)]
struct Inner {
    free: Vec<u64>,
    /// Who could begin, by turn.
    waiting: Vec<Waiting>,
    /// The turn of the last one that began.
    turn: f64,
}

/// A lane of a model that could begin a batch, had it what it needs.
#[derive(Debug)]
struct Waiting {
    share: u64,
    lane: usize,
    turn: f64,
    needs: Arc<[(usize, u64)]>,
    queue: Weak<Queue>,
}

/// A model's claim to what it needs.
#[derive(Debug)]
pub struct ResourceShare {
    resources: Arc<Resources>,
    needs: Arc<[(usize, u64)]>,
    stride: f64,
    /// Which one it is.
    id: u64,
    /// Its next turn; changed under the resources' lock only.
    turn: Mutex<f64>,
}

/// What an instance holds while it computes a batch. It is given back when this is dropped.
#[must_use = "it is given back when it is dropped"]
pub(crate) struct ResourceGuard {
    resources: Arc<Resources>,
    needs: Arc<[(usize, u64)]>,
}

/// Lanes that may begin now.
#[must_use = "they wait to be rung"]
#[derive(Debug, Default)]
pub(crate) struct Wakeups(Vec<(Arc<Queue>, usize)>);

impl Wakeups {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Wakes them. No queue may be locked here.
    pub(crate) fn notify(self) {
        self.0.into_iter().for_each(|(queue, lane)| queue.notify_parked(lane));
    }
}

impl fmt::Debug for ResourceGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ResourceGuard").field(&self.needs).finish()
    }
}

impl Drop for ResourceGuard {
    fn drop(&mut self) {
        let mut inner = self.resources.lock();
        self.needs.iter().for_each(|&(index, amount)| inner.free[index] += amount);
        let wakeups = inner.who_may();
        drop(inner);
        wakeups.notify();
    }
}

impl Resources {
    /// So much of each.
    pub fn new(has: impl IntoIterator<Item = (Arc<str>, u64)>) -> Self {
        let names: Vec<_> = has.into_iter().collect();
        let free = names.iter().map(|(_, amount)| *amount).collect();
        Self { names, inner: Mutex::new(Inner { free, ..Inner::default() }), next: AtomicU64::new(0) }
    }

    /// A model's claim to what it needs for each batch.
    ///
    /// # Errors
    /// `InvalidInput` that names the resource which is not there, or of which there is too little.
    pub fn register(self: &Arc<Self>, model: &str, needs: &ResourceRequest) -> Result<ResourceShare> {
        let find = |(name, amount): &(Arc<str>, u64)| match self.names.iter().position(|(known, _)| known == name) {
            None => {
                let names: Vec<_> = self.names.iter().map(|(name, _)| format!("'{name}'")).collect();
                let has = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
                Err(Error::invalid(format!("model '{model}' needs resource '{name}', the server has {has}")))
            }
            Some(index) if self.names[index].1 < *amount => {
                let has = self.names[index].1;
                Err(Error::invalid(format!(
                    "model '{model}' needs {amount} of resource '{name}', the server has {has}"
                )))
            }
            Some(index) => Ok((index, *amount)),
        };
        Ok(ResourceShare {
            needs: needs.amounts.iter().map(find).collect::<Result<_>>()?,
            stride: 1.0 / needs.weight,
            id: self.next.fetch_add(1, Atomic::Relaxed),
            turn: Mutex::new(0.0),
            resources: Arc::clone(self),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    /// Those whose turn it is, and who have what they need.
    fn who_may(&mut self) -> Wakeups {
        self.waiting.sort_by(|one, other| one.turn.partial_cmp(&other.turn).unwrap_or(Ordering::Equal));
        let mut left = self.free.clone();
        let may = |one: &&Waiting| {
            let enough = one.needs.iter().all(|&(index, amount)| left[index] >= amount);
            // What is not enough is kept for it.
            one.needs.iter().for_each(|&(index, amount)| left[index] = left[index].saturating_sub(amount));
            enough
        };
        let chosen: Vec<_> = self.waiting.iter().filter(may).map(|one| (Weak::clone(&one.queue), one.lane)).collect();
        Wakeups(chosen.into_iter().filter_map(|(queue, lane)| Some((queue.upgrade()?, lane))).collect())
    }

    /// What is left for a turn, when those before it have theirs.
    fn left_for(&self, turn: f64, share: u64) -> Vec<u64> {
        let mut left = self.free.clone();
        for before in self.waiting.iter().filter(|one| one.turn < turn && one.share != share) {
            before.needs.iter().for_each(|&(index, amount)| left[index] = left[index].saturating_sub(amount));
        }
        left
    }
}

impl ResourceShare {
    /// Takes what a batch needs; or has this lane wait for its turn, which is when it is rung.
    pub(crate) fn take(&self, queue: &Arc<Queue>, lane: usize) -> Option<ResourceGuard> {
        let mut inner = self.resources.lock();
        let mut own = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let in_line = inner.waiting.iter().find(|one| one.share == self.id && one.lane == lane);
        // Who was away has saved up nothing.
        let turn = in_line.map_or(own.max(inner.turn), |one| one.turn);
        let left = inner.left_for(turn, self.id);
        if self.needs.iter().any(|&(index, amount)| left[index] < amount) {
            if !inner.waiting.iter().any(|one| one.share == self.id && one.lane == lane) {
                let needs = Arc::clone(&self.needs);
                inner.waiting.push(Waiting { share: self.id, lane, turn, needs, queue: Arc::downgrade(queue) });
            }
            return None;
        }
        self.needs.iter().for_each(|&(index, amount)| inner.free[index] -= amount);
        inner.waiting.retain(|one| one.share != self.id || one.lane != lane);
        (inner.turn, *own) = (inner.turn.max(turn), turn + self.stride);
        // Its other lanes have their turn later, too.
        inner.waiting.iter_mut().filter(|one| one.share == self.id).for_each(|one| one.turn = *own);
        Some(ResourceGuard { resources: Arc::clone(&self.resources), needs: Arc::clone(&self.needs) })
    }

    /// The lane has nothing to begin any more. Those who may begin in its place are to be rung.
    pub(crate) fn leave(&self, lane: usize) -> Wakeups {
        let mut inner = self.resources.lock();
        inner.waiting.retain(|one| one.share != self.id || one.lane != lane);
        inner.who_may()
    }
}

impl Drop for ResourceShare {
    fn drop(&mut self) {
        let mut inner = self.resources.lock();
        inner.waiting.retain(|one| one.share != self.id);
        let wakeups = inner.who_may();
        drop(inner);
        wakeups.notify();
    }
}

impl Queue {
    /// From now on a batch begins only when there is what this claims. Once, before the first batch.
    pub fn set_resources(&self, share: ResourceShare) {
        let _ = self.share.set(share);
    }

    /// Wakes an instance of a lane that another thread has seen to wait.
    pub(crate) fn notify_parked(&self, lane: usize) {
        // It holds the lock from when it gets in line until it sleeps.
        drop(self.lock());
        self.notify(lane);
    }

    /// It does not wait for its turn any more. Whom to ring in its place.
    pub(super) fn leave_line(&self, lane: &mut Lane, index: usize) -> Wakeups {
        let share = self.share.get().filter(|_| std::mem::take(&mut lane.in_line));
        share.map(|share| share.leave(index)).unwrap_or_default()
    }

    /// Takes what a batch needs, if one is to be cut. Without that it waits, which may be for nothing but its turn.
    ///
    /// # Errors
    /// Whom to ring before all is looked at again: the lane was in line, and there is nothing to cut any more.
    pub(super) fn take_resources(
        self: &Arc<Self>,
        lane: &mut Lane,
        index: usize,
        decision: Decision,
    ) -> std::result::Result<(Option<ResourceGuard>, Decision), Wakeups> {
        let Some(share) = self.share.get() else { return Ok((None, decision)) };
        if !matches!(decision, Decision::Cut(..)) {
            let wakeups = self.leave_line(lane, index);
            return if wakeups.is_empty() { Ok((None, decision)) } else { Err(wakeups) };
        }
        let grant = share.take(self, index);
        lane.in_line = grant.is_none();
        // What it waits for is no arrival.
        let wait = Decision::Wait { until_ns: None, requests: usize::MAX };
        Ok(if grant.is_some() { (grant, decision) } else { (None, wait) })
    }
}
