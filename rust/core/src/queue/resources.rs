//! Resources that the instances of all models share: devices, memory, licences. A batch begins only if all that its
//! model needs is free.
//!
//! All amounts are taken in one step, so there is no deadlock. Stride scheduling decides who is next: each start moves
//! a
//! model's turn by the inverse of its weight. Free amounts are reserved for waiting lanes in the order of their turns,
//! so a model with large needs does not starve.

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

/// Resources of a server.
#[derive(Debug, Default)]
pub struct Resources {
    names: Vec<(Arc<str>, u64)>,
    inner: Mutex<Inner>,
    next: AtomicU64,
}

#[derive(Debug, Default)]
struct Inner {
    free: Vec<u64>,
    /// Lanes that wait, by turn.
    waiting: Vec<Waiting>,
    /// Turn of the last start.
    turn: f64,
}

/// A lane that could start a batch if its resources were free.
#[derive(Debug)]
struct Waiting {
    share: u64,
    lane: usize,
    turn: f64,
    needs: Arc<[(usize, u64)]>,
    queue: Weak<Queue>,
}

/// Registration of a model for resources.
#[derive(Debug)]
pub struct ResourceShare {
    resources: Arc<Resources>,
    needs: Arc<[(usize, u64)]>,
    stride: f64,
    /// Identity of the registration.
    id: u64,
    /// Next turn; changed under the resources' lock only.
    turn: Mutex<f64>,
}

/// Resources of a running batch. Dropping it releases them.
#[must_use = "it is given back when it is dropped"]
pub(crate) struct ResourceGuard {
    resources: Arc<Resources>,
    needs: Arc<[(usize, u64)]>,
}

/// Lanes to notify.
#[must_use = "they wait to be rung"]
#[derive(Debug, Default)]
pub(crate) struct Wakeups(Vec<(Arc<Queue>, usize)>);

impl Wakeups {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Notifies the lanes. The thread must not hold a queue's lock.
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
        let wakeups = inner.startable();
        drop(inner);
        wakeups.notify();
    }
}

impl Resources {
    /// Creates resources from names and amounts.
    pub fn new(has: impl IntoIterator<Item = (Arc<str>, u64)>) -> Self {
        let names: Vec<_> = has.into_iter().collect();
        let free = names.iter().map(|(_, amount)| *amount).collect();
        Self { names, inner: Mutex::new(Inner { free, ..Inner::default() }), next: AtomicU64::new(0) }
    }

    /// Registers a model.
    ///
    /// # Errors
    /// `InvalidInput`: an unknown resource, or a larger amount than the server has.
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
    /// Lanes whose turn it is, and whose resources are free.
    fn startable(&mut self) -> Wakeups {
        self.waiting.sort_by(|one, other| one.turn.partial_cmp(&other.turn).unwrap_or(Ordering::Equal));
        let mut left = self.free.clone();
        let may = |one: &&Waiting| {
            let enough = one.needs.iter().all(|&(index, amount)| left[index] >= amount);
            // What is free is reserved for it.
            one.needs.iter().for_each(|&(index, amount)| left[index] = left[index].saturating_sub(amount));
            enough
        };
        let chosen: Vec<_> = self.waiting.iter().filter(may).map(|one| (Weak::clone(&one.queue), one.lane)).collect();
        Wakeups(chosen.into_iter().filter_map(|(queue, lane)| Some((queue.upgrade()?, lane))).collect())
    }

    /// Amounts that are left for a turn, after the reservations of earlier turns.
    fn available_for(&self, turn: f64, share: u64) -> Vec<u64> {
        let mut left = self.free.clone();
        for before in self.waiting.iter().filter(|one| one.turn < turn && one.share != share) {
            before.needs.iter().for_each(|&(index, amount)| left[index] = left[index].saturating_sub(amount));
        }
        left
    }
}

impl ResourceShare {
    /// Takes the resources of a batch, or registers the lane to be notified at its turn.
    pub(crate) fn take(&self, queue: &Arc<Queue>, lane: usize) -> Option<ResourceGuard> {
        let mut inner = self.resources.lock();
        let mut own = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let waits_for_resources = inner.waiting.iter().find(|one| one.share == self.id && one.lane == lane);
        // Idle time earns no credit.
        let turn = waits_for_resources.map_or(own.max(inner.turn), |one| one.turn);
        let left = inner.available_for(turn, self.id);
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
        // The other lanes of the model move back, too.
        inner.waiting.iter_mut().filter(|one| one.share == self.id).for_each(|one| one.turn = *own);
        Some(ResourceGuard { resources: Arc::clone(&self.resources), needs: Arc::clone(&self.needs) })
    }

    /// Removes a lane that has nothing to start. The returned lanes may start instead.
    pub(crate) fn leave(&self, lane: usize) -> Wakeups {
        let mut inner = self.resources.lock();
        inner.waiting.retain(|one| one.share != self.id || one.lane != lane);
        inner.startable()
    }
}

impl Drop for ResourceShare {
    fn drop(&mut self) {
        let mut inner = self.resources.lock();
        inner.waiting.retain(|one| one.share != self.id);
        let wakeups = inner.startable();
        drop(inner);
        wakeups.notify();
    }
}

impl Queue {
    /// Sets the resources that each batch needs. Call once, before the first batch.
    pub fn set_resources(&self, share: ResourceShare) {
        let _ = self.share.set(share);
    }

    /// Notifies a lane that another thread has found waiting for resources.
    pub(crate) fn notify_parked(&self, lane: usize) {
        // The lane registers itself and begins to sleep without releasing the queue's lock in between. With the lock
        // taken here, it sleeps, and the notification is not lost.
        drop(self.lock());
        self.notify(lane);
    }

    /// Ends the wait for resources. The returned lanes may start instead.
    pub(super) fn leave_resources(&self, lane: &mut Lane, index: usize) -> Wakeups {
        let share = self.share.get().filter(|_| std::mem::take(&mut lane.waits_for_resources));
        share.map(|share| share.leave(index)).unwrap_or_default()
    }

    /// Takes resources if the decision is to cut; without them the lane waits for its turn only.
    ///
    /// # Errors
    /// Lanes to notify before the instance checks again: the lane waited for resources, and has nothing to cut now.
    pub(super) fn take_resources(
        self: &Arc<Self>,
        lane: &mut Lane,
        index: usize,
        decision: Decision,
    ) -> std::result::Result<(Option<ResourceGuard>, Decision), Wakeups> {
        let Some(share) = self.share.get() else { return Ok((None, decision)) };
        if !matches!(decision, Decision::Cut(..)) {
            let wakeups = self.leave_resources(lane, index);
            return if wakeups.is_empty() { Ok((None, decision)) } else { Err(wakeups) };
        }
        let guard = share.take(self, index);
        lane.waits_for_resources = guard.is_none();
        // Arrivals do not end this wait.
        let wait = Decision::Wait { until_ns: None, requests: usize::MAX };
        Ok(if guard.is_some() { (guard, decision) } else { (None, wait) })
    }
}
