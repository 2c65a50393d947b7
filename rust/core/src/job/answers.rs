//! The answers of one batch on their way to the desks that hand them out.

use crate::{CompletionQueue, InferResponse, Result, completions::Delivery, reply::Reply};

/// Answers of one batch, sorted by the desk that hands them out.
#[derive(Default)]
pub(super) struct Answers {
    by_desk: Vec<(CompletionQueue, Vec<Delivery>)>,
}

impl Answers {
    pub(super) fn push(&mut self, reply: Reply, result: Result<InferResponse>) {
        let Some(desk) = reply.desk() else { return reply.send(result) };
        match self.by_desk.iter_mut().find(|(known, _)| known.is(desk)) {
            Some((_, deliveries)) => deliveries.push((reply, result)),
            None => self.by_desk.push((desk.clone(), vec![(reply, result)])),
        }
    }

    pub(super) fn send(self) {
        for (desk, deliveries) in self.by_desk {
            desk.deliver(deliveries);
        }
    }
}
