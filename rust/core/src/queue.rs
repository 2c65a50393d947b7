//! One bounded queue per model. Instances pull batches from it; nothing pushes to them.

use crate::{
    Desk, Error, InferRequest, Inputs, Kind, ModelSpec, Result,
    batch::{
        gather::{RowKey, row_key},
        policy::{Decision, State, View, decide},
    },
    job::{Job, Part},
    metrics::ModelMetrics,
    reply::{Reply, Ticket, replies, reply},
    stream::Pieces,
};
use std::{
    collections::VecDeque,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

/// How long an instance of a brisk model watches for work before it sleeps.
const WATCH: Duration = Duration::from_micros(50);

/// The waiting requests of one model.
#[derive(Debug)]
pub struct Queue {
    spec: Arc<ModelSpec>,
    metrics: Arc<ModelMetrics>,
    /// Times inside are nanoseconds since then, so that the policy needs no clock.
    epoch: Instant,
    fixed_rows: bool,
    inner: Mutex<Inner>,
    work: Condvar,
    /// Counts rings, for an instance that watches for them instead of sleeping.
    rings: AtomicUsize,
}

#[derive(Debug)]
struct Inner {
    waiting: VecDeque<Pending>,
    policy: State,
    busy: usize,
    parked: usize,
    /// The number of waiting requests from which on a parked instance wants to look again.
    ring_at: usize,
    draining: bool,
    closed: bool,
}

#[derive(Debug)]
struct Pending {
    request: InferRequest,
    reply: Reply,
    key: RowKey,
    arrived_ns: u64,
}

impl Queue {
    /// An empty queue.
    pub fn new(spec: Arc<ModelSpec>, metrics: Arc<ModelMetrics>) -> Self {
        let policy = State::new(spec.batching.as_ref(), spec.instances);
        Self {
            fixed_rows: spec.has_fixed_rows(),
            spec,
            metrics,
            epoch: Instant::now(),
            inner: Mutex::new(Inner {
                waiting: VecDeque::new(),
                policy,
                busy: 0,
                parked: 0,
                ring_at: 1,
                draining: false,
                closed: false,
            }),
            work: Condvar::new(),
            rings: AtomicUsize::new(0),
        }
    }

    /// The model that it feeds.
    pub fn spec(&self) -> &Arc<ModelSpec> {
        &self.spec
    }

    /// That model's metrics.
    pub fn metrics(&self) -> &Arc<ModelMetrics> {
        &self.metrics
    }

    /// Whether a request is sure to be refused. Asked before its body is read.
    pub fn is_full(&self) -> bool {
        let mut inner = self.lock();
        inner.waiting.len() >= self.spec.max_queue && !self.make_room(&mut inner)
    }

    /// Puts a request in the queue.
    ///
    /// With a `desk`, an idle instance is rung when that desk's thread has queued all that is ready.
    ///
    /// # Errors
    /// `Overloaded` with a hint when to retry if the queue is full; `Unavailable` if it is closed.
    pub fn submit(self: &Arc<Self>, request: InferRequest, desk: Option<&Desk>) -> Result<Ticket> {
        let (reply, ticket) = reply(desk.cloned());
        self.enqueue(request, reply, desk)?;
        Ok(ticket)
    }

    /// As [`Queue::submit`], for a model that gives any number of answers.
    ///
    /// # Errors
    /// As [`Queue::submit`].
    pub fn submit_stream(self: &Arc<Self>, request: InferRequest, desk: Option<&Desk>) -> Result<Pieces> {
        let (reply, pieces) = replies(desk.cloned());
        self.enqueue(request, reply, desk)?;
        Ok(pieces)
    }

    fn enqueue(self: &Arc<Self>, request: InferRequest, reply: Reply, desk: Option<&Desk>) -> Result<()> {
        let key = if self.fixed_rows { RowKey::new() } else { row_key(&self.spec, &request.inputs) };
        let now_ns = self.now_ns();
        let mut inner = self.lock();
        if inner.closed {
            return Err(Error::new(Kind::Unavailable, format!("model '{}' is shutting down", self.spec.name)));
        }
        if inner.waiting.len() >= self.spec.max_queue && !self.make_room(&mut inner) {
            return Err(self.overloaded(&inner));
        }
        inner.policy.arrival(now_ns);
        inner.waiting.push_back(Pending { request, reply, key, arrived_ns: now_ns });
        self.metrics.queue_depth.inc();
        let ring = inner.parked > 0 && inner.waiting.len() >= inner.ring_at;
        drop(inner);
        if ring {
            match desk {
                Some(desk) => desk.ring_later(self),
                None => self.ring(),
            }
        }
        Ok(())
    }

    /// Wakes an idle instance.
    pub(crate) fn ring(&self) {
        self.rings.fetch_add(1, Ordering::Release);
        self.work.notify_one();
    }

    /// The next batch, as soon as the policy says so. Blocks. `None` when the queue is closed and empty.
    pub fn pull(self: &Arc<Self>) -> Option<Job> {
        let mut inner = self.lock();
        let mut watched = false;
        loop {
            let now_ns = self.now_ns();
            let view = self.view(&inner);
            match decide(now_ns, &inner.policy, &view) {
                Decision::Cut(rows, reason) => {
                    let parts = self.take(&mut inner, rows, now_ns, None);
                    if parts.is_empty() {
                        continue;
                    }
                    inner.busy += 1;
                    inner.policy.started(now_ns);
                    // What was left may be enough for another idle instance.
                    let ring = !inner.waiting.is_empty() && inner.parked > 0;
                    drop(inner);
                    if ring {
                        self.ring();
                    }
                    return Some(Job::new(Arc::clone(self), parts, reason));
                }
                Decision::Wait { .. } if inner.closed && view.requests == 0 => return None,
                Decision::Wait { until_ns, requests } => {
                    inner.ring_at = requests;
                    inner.parked += 1;
                    if until_ns.is_none() && !watched && inner.policy.is_brisk() {
                        // Asleep it would be back in tens of microseconds, many times what a brisk batch takes.
                        let seen = self.rings.load(Ordering::Acquire);
                        drop(inner);
                        self.watch(seen);
                        watched = true;
                        inner = self.lock();
                        inner.parked -= 1;
                        continue;
                    }
                    inner = match until_ns {
                        None => self.work.wait(inner).unwrap_or_else(PoisonError::into_inner),
                        Some(until_ns) => {
                            let wait = Duration::from_nanos(until_ns.saturating_sub(now_ns));
                            self.work.wait_timeout(inner, wait).unwrap_or_else(PoisonError::into_inner).0
                        }
                    };
                    inner.parked -= 1;
                }
            }
        }
    }

    /// Waits for a ring, awake and not for long. Gives the core to any other thread that wants it.
    fn watch(&self, seen: usize) {
        let end = Instant::now() + WATCH;
        while self.rings.load(Ordering::Acquire) == seen && Instant::now() < end {
            for _ in 0..32 {
                std::hint::spin_loop();
            }
            std::thread::yield_now();
        }
    }

    /// Waiting requests that fit beside `inputs`.
    pub(crate) fn late_joiners(&self, inputs: &Inputs, room: usize) -> Vec<Part> {
        let mut inner = self.lock();
        if inner.waiting.is_empty() || room == 0 {
            return Vec::new();
        }
        let key = if self.fixed_rows { RowKey::new() } else { row_key(&self.spec, inputs) };
        self.take(&mut inner, room, self.now_ns(), Some(key))
    }

    /// A batch was answered: the policy learns from it, and its instance is free again.
    pub(crate) fn answered(&self, requests: usize, rows: usize, duration: Duration) {
        let now_ns = self.now_ns();
        let mut inner = self.lock();
        inner.busy = inner.busy.saturating_sub(1);
        inner.policy.answered(now_ns, requests, rows, u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX));
    }

    /// From now on nothing waits for company.
    pub fn drain(&self) {
        self.lock().draining = true;
        self.work.notify_all();
    }

    /// Refuses new requests; instances end when what waits is computed.
    pub fn close(&self) {
        let mut inner = self.lock();
        (inner.draining, inner.closed) = (true, true);
        drop(inner);
        self.work.notify_all();
    }

    /// Answers everything that waits with `error`, and closes. Returns how many there were.
    pub fn cut_off(&self, error: &Error) -> usize {
        self.close();
        let waiting = std::mem::take(&mut self.lock().waiting);
        self.metrics.queue_depth.dec_by(waiting.len() as i64);
        let count = waiting.len();
        for pending in waiting {
            pending.reply.send(Err(error.clone()));
        }
        count
    }

    /// What the policy has learned so far: fixed cost, cost a row (both in nanoseconds), returning share.
    pub fn learned(&self) -> (u64, u64, f64) {
        let inner = self.lock();
        (inner.policy.cost.fixed_ns(), inner.policy.cost.per_row_ns(), inner.policy.returns.share())
    }

    fn view(&self, inner: &Inner) -> View {
        let Some(first) = inner.waiting.front() else { return View { draining: inner.draining, ..View::default() } };
        let max_size = self.spec.batching.as_ref().map_or(1, |batching| batching.max_size);
        let (mut rows, mut deadline_ns) = (0, None);
        // Beyond a full batch nothing changes the decision.
        for pending in inner.waiting.iter().filter(|pending| pending.key == first.key).take(max_size) {
            rows += pending.request.rows;
            if let Some(deadline) = pending.request.deadline {
                let at_ns = self.to_ns(deadline);
                deadline_ns = Some(deadline_ns.map_or(at_ns, |earliest: u64| earliest.min(at_ns)));
            }
        }
        View {
            rows,
            requests: inner.waiting.len(),
            oldest_ns: first.arrived_ns,
            deadline_ns,
            busy: inner.busy,
            draining: inner.draining,
        }
    }

    /// Takes the oldest requests that fit together, in order. Who has left, or is too late, is dropped here.
    fn take(&self, inner: &mut Inner, max_rows: usize, now_ns: u64, mut key: Option<RowKey>) -> Vec<Part> {
        let mut parts = Vec::with_capacity(max_rows.min(inner.waiting.len()));
        let (mut rows, mut index) = (0, 0);
        while rows < max_rows && index < inner.waiting.len() {
            let next = &inner.waiting[index];
            if self.is_dead(next, now_ns) {
                if let Some(dead) = inner.waiting.remove(index) {
                    self.bury(dead);
                }
                continue;
            }
            if key.as_ref().is_some_and(|key| *key != next.key) {
                index += 1;
                continue;
            }
            // A request goes whole; the next ones may not overtake it.
            if rows + next.request.rows > max_rows && !parts.is_empty() {
                break;
            }
            let Some(pending) = inner.waiting.remove(index) else { break };
            self.metrics.queue_depth.dec();
            rows += pending.request.rows;
            let Pending { request, reply, key: own, arrived_ns } = pending;
            let waited = Duration::from_nanos(now_ns.saturating_sub(arrived_ns));
            parts.push(Part { request, reply, waited });
            if !self.joins() {
                break;
            }
            key.get_or_insert(own);
        }
        parts
    }

    fn joins(&self) -> bool {
        self.spec.batching.as_ref().is_some_and(|batching| batching.dynamic)
    }

    fn is_dead(&self, pending: &Pending, now_ns: u64) -> bool {
        pending.reply.is_abandoned() || pending.request.deadline.is_some_and(|deadline| self.to_ns(deadline) <= now_ns)
    }

    fn bury(&self, dead: Pending) {
        self.metrics.queue_depth.dec();
        self.metrics.abandoned.inc();
        dead.reply.send(Err(Error::new(Kind::Timeout, "the deadline passed while the request waited in the queue")));
    }

    /// Drops the dead of a full queue. Whether there is room now.
    fn make_room(&self, inner: &mut Inner) -> bool {
        let now_ns = self.now_ns();
        let (dead, alive): (VecDeque<_>, VecDeque<_>) =
            std::mem::take(&mut inner.waiting).into_iter().partition(|pending| self.is_dead(pending, now_ns));
        inner.waiting = alive;
        dead.into_iter().for_each(|pending| self.bury(pending));
        inner.waiting.len() < self.spec.max_queue
    }

    /// The answer to a request that [`Queue::is_full`] turns away.
    pub fn refusal(&self) -> Error {
        self.overloaded(&self.lock())
    }

    fn overloaded(&self, inner: &Inner) -> Error {
        let rows: usize = inner.waiting.iter().map(|pending| pending.request.rows).sum();
        let max_size = self.spec.batching.as_ref().map_or(1, |batching| batching.max_size);
        let batches = rows.div_ceil(max_size) as u64 / self.spec.instances.max(1) as u64;
        let wait = Duration::from_nanos(inner.policy.cost.batch_ns(max_size).saturating_mul(batches));
        Error::new(
            Kind::Overloaded,
            format!("model '{}' has its maximum of {} requests waiting", self.spec.name, self.spec.max_queue),
        )
        .retry_after(wait.max(Duration::from_secs(1)))
    }

    fn now_ns(&self) -> u64 {
        self.to_ns(Instant::now())
    }

    fn to_ns(&self, time: Instant) -> u64 {
        u64::try_from(time.saturating_duration_since(self.epoch).as_nanos()).unwrap_or(u64::MAX)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
