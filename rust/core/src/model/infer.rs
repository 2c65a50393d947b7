//! Inference on a model: one response, a stream, or a request that is split over batches.

use super::Model;
use crate::{
    CompletionQueue, Error, InferRequest, InferResponse, Kind, ResponseFuture, ResponseStream, Result, Ticket,
    batch::gather::{concatenate_outputs, split},
};

impl Model {
    /// Streams the responses to a request. Dropping the stream abandons the request.
    ///
    /// # Errors
    /// `InvalidInput`: more rows than a batch holds. Otherwise errors of
    /// [`Queue::submit`](crate::queue::Queue::submit).
    pub fn stream(&self, request: InferRequest, completions: Option<&CompletionQueue>) -> Result<ResponseStream> {
        self.spec.check_whole(&request, "streams")?;
        match self.spec.sequences.is_some().then(|| self.sequence_owner(&request)).transpose()?.flatten() {
            Some(holder) => holder.queue.submit_stream(request, completions),
            None => self.queue.submit_stream(request, completions),
        }
    }

    /// Computes a response. A model that streams must send exactly one. Dropping the future abandons the request.
    ///
    /// # Errors
    /// Errors of the queue, the batch or the handler. `Handler`: a stream of no or several responses.
    pub async fn infer(&self, request: InferRequest, completions: Option<&CompletionQueue>) -> Result<InferResponse> {
        self.begin(request, completions)?.await
    }

    /// Submits a request; its response is awaited later. The request is in the queue when this returns.
    ///
    /// # Errors
    /// As [`Queue::submit`](crate::queue::Queue::submit).
    pub fn begin(&self, request: InferRequest, completions: Option<&CompletionQueue>) -> Result<ResponseFuture<'_>> {
        if self.spec.streams {
            let chunks = self.stream(request, completions)?;
            return Ok(ResponseFuture::Other(Box::pin(self.single_response(chunks))));
        }
        // A sequence's step is never split; the queue refuses one with several rows.
        if self.spec.sequences.is_some() {
            if self.spec.row_cost().is_some() {
                self.spec.check_whole(&request, "computes")?;
            }
            let Some(holder) = self.sequence_owner(&request)? else {
                return self.queue.submit(request, completions).map(ResponseFuture::Ticket);
            };
            let ticket = holder.queue.submit(request, completions)?;
            // Keeps the replaced model alive: dropping it would end its instances.
            return Ok(ResponseFuture::Other(Box::pin(async move { (ticket.await, holder).0 })));
        }
        let max_rows = self.spec.max_rows(&request)?;
        if max_rows == 0 || request.rows <= max_rows {
            return self.queue.submit(request, completions).map(ResponseFuture::Ticket);
        }
        let tickets = self.submit_parts(request, max_rows, completions)?;
        Ok(ResponseFuture::Other(Box::pin(self.join_parts(tickets))))
    }

    /// Splits a request that is larger than a batch, and submits the parts.
    fn submit_parts(
        &self,
        request: InferRequest,
        max_rows: usize,
        completions: Option<&CompletionQueue>,
    ) -> Result<Vec<Ticket>> {
        let most = self.spec.max_queue.saturating_mul(max_rows).min(self.spec.queueing.max_rows.unwrap_or(usize::MAX));
        if request.rows > most {
            return Err(Error::invalid(format!(
                "the request has a batch of {} rows, model '{}' accepts at most {most}",
                request.rows, self.spec.name
            )));
        }
        let InferRequest {
            inputs,
            rows,
            metadata,
            deadline,
            protocol,
            schedule,
            takes_ownership: takes_memory,
            context,
            ..
        } = request;
        split(inputs, rows, max_rows)
            .into_iter()
            .zip((0..).step_by(max_rows))
            .map(|((inputs, rows), before)| {
                let (metadata, mut schedule, context) = (metadata.clone(), schedule.clone(), context.clone());
                schedule.rows_before = Some(before);
                let part = InferRequest {
                    inputs,
                    rows,
                    metadata,
                    deadline,
                    protocol,
                    schedule,
                    takes_ownership: takes_memory,
                    context,
                    raw: None,
                };
                self.queue.submit(part, completions)
            })
            .collect()
    }

    /// Joins the responses to the parts of a request.
    async fn join_parts(&self, tickets: Vec<Ticket>) -> Result<InferResponse> {
        let batches = tickets.len();
        let mut response: Option<InferResponse> = None;
        let mut outputs = Vec::with_capacity(tickets.len());
        for ticket in tickets {
            let mut part = ticket.await?;
            outputs.push(std::mem::take(&mut part.outputs));
            response.get_or_insert(part);
        }
        self.metrics().statistics.merge_parts(batches);
        let mut response = response.ok_or_else(|| Error::new(Kind::Internal, "a split request has no parts"))?;
        response.outputs = concatenate_outputs(outputs)?;
        Ok(response)
    }

    async fn single_response(&self, mut chunks: ResponseStream) -> Result<InferResponse> {
        let wrong = |count: &str| {
            Error::handler(format!(
                "exactly 1 answer is expected here, model '{}' gave {count}: call generate_stream",
                self.spec.name
            ))
        };
        let only = chunks.next().await.ok_or_else(|| wrong("none"))??;
        match chunks.next().await {
            None => Ok(only.response),
            Some(second) => second.and_then(|_| Err(wrong("more"))),
        }
    }
}
