//! Submission of requests.

use super::{
    Queue,
    bounds::{Candidate, Load},
    pending::Pending,
    turns::Share,
};
use crate::{
    CompletionQueue, Error, InferRequest, Kind, Level, Overdue, Reply, ResponseStream, Result, Ticket,
    batch::gather::{RowKey, row_key},
    replies, reply,
};
use std::sync::Arc;

impl Queue {
    /// Submits a request.
    ///
    /// With `completions`, an idle instance is notified after that I/O thread has queued all requests of one socket
    /// poll.
    ///
    /// # Errors
    /// `Overloaded`: the queue is full; the error has a retry hint. `Unavailable`: the queue is closed. `InvalidInput`:
    /// the
    /// request is not a step of an active sequence, for models with sequences.
    pub fn submit(self: &Arc<Self>, request: InferRequest, completions: Option<&CompletionQueue>) -> Result<Ticket> {
        let (reply, ticket) = reply(completions.cloned());
        self.enqueue(request, reply, completions)?;
        Ok(ticket)
    }

    /// Submits a request to a model that streams.
    ///
    /// # Errors
    /// As [`Queue::submit`].
    pub fn submit_stream(
        self: &Arc<Self>,
        request: InferRequest,
        completions: Option<&CompletionQueue>,
    ) -> Result<ResponseStream> {
        let (reply, pieces) = replies(completions.cloned());
        self.enqueue(request, reply, completions)?;
        Ok(pieces)
    }

    fn enqueue(
        self: &Arc<Self>,
        request: InferRequest,
        reply: Reply,
        completions: Option<&CompletionQueue>,
    ) -> Result<()> {
        let key = if self.fixed_rows { RowKey::new() } else { row_key(&self.spec, &request.inputs) };
        let now_ns = self.now_ns();
        let mut inner = self.lock();
        if inner.closed {
            return Err(Error::new(Kind::Unavailable, format!("model '{}' is shutting down", self.spec.name)));
        }
        let level = self.spec.queueing.level(request.schedule.priority);
        let candidate = Candidate { load: Load::of(&request), level, client: request.schedule.client };
        self.admit(&mut inner, Some(candidate))?;
        inner.drain.began(now_ns);
        let index = self.route(&mut inner, &request, now_ns)?;
        let lane = &mut inner.lanes[index];
        lane.policy.arrival(now_ns);
        lane.push(self.pending(request, reply, (key, candidate), now_ns));
        self.metrics.queue_depth.inc();
        let notify = lane.wants_notify();
        self.note_load(&inner);
        drop(inner);
        if notify {
            match completions {
                Some(completions) => completions.notify_deferred(&self.notifiers[index]),
                None => self.notify(index),
            }
        }
        Ok(())
    }

    pub(super) fn pending(
        &self,
        request: InferRequest,
        reply: Reply,
        (key, Candidate { load, level, client }): (RowKey, Candidate),
        arrived_ns: u64,
    ) -> Pending {
        let deadline_ns = request.deadline.map_or(u64::MAX, |deadline| self.to_ns(deadline));
        let Level { timeout, overdue, .. } = self.spec.queueing.policy(level);
        let limit_ns =
            timeout.map_or(u64::MAX, |limit| arrived_ns.saturating_add(super::model_queue::nanoseconds(limit)));
        let (expires_ns, demote_ns) = match overdue {
            Overdue::Reject => (limit_ns, u64::MAX),
            Overdue::Delay => (u64::MAX, limit_ns),
        };
        let share = Share { client, rows: request.rows, level };
        let (cost, lengths) = (self.spec.cost_of(&request), self.spec.lengths_of(&request.inputs));
        Pending {
            request,
            reply,
            key,
            arrived_ns,
            deadline_ns,
            expires_ns,
            demote_ns,
            load,
            share,
            turn: 0,
            cost,
            lengths,
        }
    }
}
