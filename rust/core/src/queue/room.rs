//! Who may wait: the bounds, and the dead who make room.

use super::{Inner, Queue};
use crate::{Error, Kind, Result, admission::Candidate};
use std::time::Duration;

impl Queue {
    /// Refuses what is sure to be refused. RawRequest before a body is read.
    ///
    /// # Errors
    /// `Overloaded`, with a hint when to retry.
    pub fn check_room(&self) -> Result<()> {
        self.admit(&mut self.lock(), None)
    }

    /// Answers those who have waited for too long, without waiting for an instance to come by.
    pub fn expire(&self) {
        self.sweep(&mut self.lock());
    }

    /// Drops the dead.
    fn sweep(&self, inner: &mut Inner) {
        let now_ns = self.now_ns();
        for lane in 0..inner.lanes.len() {
            let dropped = inner.lanes[lane].sweep(now_ns);
            self.reject_dropped(inner, dropped, now_ns);
        }
    }

    /// Refuses what the bounds do not allow: anything more, or this newcomer. The dead make room first.
    pub(super) fn admit(&self, inner: &mut Inner, newcomer: Option<Candidate>) -> Result<()> {
        if self.why_not(inner, newcomer).is_none() {
            return Ok(());
        }
        self.sweep(inner);
        self.why_not(inner, newcomer).map_or(Ok(()), |why| Err(self.overloaded(inner, &why)))
    }

    fn why_not(&self, inner: &Inner, newcomer: Option<Candidate>) -> Option<String> {
        let whole = inner.bounds.refusal(inner.waiting(), newcomer.map(|newcomer| newcomer.load));
        whole
            .or_else(|| self.late(inner, newcomer))
            .or_else(|| {
                let level = newcomer?.level;
                let most = self.spec.queueing.policy(level).max_size?;
                let waiting: usize = inner.lanes.iter().map(|lane| lane.waiting.len_of(level)).sum();
                (waiting >= most)
                    .then(|| format!("has its maximum of {most} requests of priority {} waiting", level + 1))
            })
            .or_else(|| {
                let (newcomer, most) = (newcomer?, self.spec.queueing.fair.as_ref()?.max_rows?);
                let waiting: usize = inner.lanes.iter().map(|lane| lane.rows_of(newcomer.client)).sum();
                // As for the model's bound, one that is larger may wait alone.
                (waiting > 0 && waiting + newcomer.load.rows > most).then(|| {
                    let rows = newcomer.load.rows;
                    format!(
                        "has {waiting} of its maximum of {most} rows of one client waiting, and the request has {rows}"
                    )
                })
            })
    }

    /// Why this newcomer cannot be answered within the model's target, if that is to be refused. Anyone may wait alone.
    fn late(&self, inner: &Inner, newcomer: Option<Candidate>) -> Option<String> {
        let batching = self.spec.batching.as_ref().filter(|batching| batching.reject_late)?;
        let (target, waiting) = (batching.target_ns?, inner.waiting().rows);
        let rows = waiting + newcomer.map_or(1, |newcomer| newcomer.load.rows);
        let takes = inner.lanes[0].policy.at_best_ns(rows);
        (waiting > 0 && takes > target).then(|| {
            let [takes, target] = [takes, target].map(|time| Duration::from_micros(time / 1000));
            format!("would answer after {takes:?} at best, its target is {target:?}")
        })
    }

    fn overloaded(&self, inner: &Inner, why: &str) -> Error {
        let waiting = inner.waiting();
        let retry = inner.drain.retry_after(self.now_ns(), waiting.rows.max(waiting.requests));
        Error::new(Kind::Overloaded, format!("model '{}' {why}", self.spec.name)).retry_after(retry)
    }
}
