//! Jobs that stream: responses are sent during the computation. Rows end independently.

use super::{Job, row_chunk::RowChunk};
use crate::{
    Error, InterpreterTimes, Outputs, Parameter, Parameters, Reply, RequestOutput, ResponseChunk, Result, RowFailures,
    Timings,
    batch::gather::scatter_padded,
    metrics::statistics::ResponseOutcome,
    reply::{Channel, stalled},
};

use std::time::{Duration, Instant};

/// Maximum pause of a handler for one client that does not read; then that client's stream ends.
pub const SLOW_READER_TIMEOUT: Duration = Duration::from_secs(30);

/// A batch that is answered by streams.
#[must_use = "a stream that is dropped fails its callers"]
#[derive(Debug)]
pub struct Streaming {
    pub(super) job: Job,
    pub(super) rows: Vec<Row>,
    /// Open rows of each request; 0 after the end of its stream.
    pub(super) open_rows: Vec<usize>,
    /// Responses sent to each request.
    responses: Vec<usize>,
    /// Time at which the handler continued after its last chunk.
    pub(super) resumed: Instant,
    /// Error that ended a stream.
    pub(super) failure: Option<Error>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    pub(super) client: usize,
    /// Index among the request's rows.
    index: usize,
    pub(super) open: bool,
}

impl Job {
    /// Starts streaming.
    pub fn stream(self) -> Streaming {
        let sizes = self.parts().iter().map(|part| part.request.rows).enumerate();
        let rows = sizes.flat_map(|(client, size)| (0..size).map(move |index| Row { client, index, open: true }));
        let rows = rows.collect();
        // A request without rows is open until the end, too.
        let open_rows = self.parts().iter().map(|part| part.request.rows.max(1)).collect();
        let responses = vec![0; self.parts().len()];
        Streaming { job: self, rows, open_rows, responses, resumed: Instant::now(), failure: None }
    }
}

impl Streaming {
    /// The batch.
    pub fn job(&self) -> &Job {
        &self.job
    }

    /// Returns true if any client still reads.
    pub fn is_wanted(&self) -> bool {
        self.open().any(|(_, reply)| !reply.is_abandoned())
    }

    /// Returns true if the handler has to wait for a client.
    pub fn is_full(&self) -> bool {
        self.open().any(|(_, reply)| !reply.is_abandoned() && reply.channel().is_some_and(Channel::is_full))
    }

    /// Blocks until all clients have room. The stream of a client that does not read for [`SLOW_READER_TIMEOUT`] ends,
    /// so
    /// that it does not block the other rows and the instance.
    pub fn wait_for_room(&mut self) {
        // The time of a slow client is not a standstill of the handler.
        self.job.instance_state().set_waits_for_client(true);
        for client in 0..self.open_rows.len() {
            if self.open_rows[client] == 0 {
                continue;
            }
            let has_room =
                self.reply(client).channel().is_none_or(|channel| channel.wait_for_room(SLOW_READER_TIMEOUT));
            if !has_room {
                let error = stalled(&self.job.spec().name, SLOW_READER_TIMEOUT);
                self.close(client, Err(error));
            }
        }
        self.job.instance_state().step();
        self.job.instance_state().set_waits_for_client(false);
        self.resumed = Instant::now();
    }

    /// Ends the streams of the clients without room, after the handler has waited for them.
    pub fn drop_slow_clients(&mut self) {
        for client in 0..self.open_rows.len() {
            if self.open_rows[client] > 0 && self.reply(client).channel().is_some_and(Channel::is_full) {
                let error = stalled(&self.job.spec().name, SLOW_READER_TIMEOUT);
                self.close(client, Err(error));
            }
        }
        self.resumed = Instant::now();
    }

    /// Sends each open stream its rows of `outputs`, which are those of the whole batch. `last` ends the streams.
    ///
    /// # Errors
    /// `Handler`: the outputs do not match the declaration.
    pub fn send(&mut self, outputs: Outputs, parameters: &Parameters, last: bool) -> Result<()> {
        self.job.instance_state().step();
        self.job.check(&outputs, self.job.padded())?;
        let now = Instant::now();
        if self.job.parts().len() == 1 && self.job.padded() == self.job.rows() {
            self.push_to(0, outputs.into(), parameters, last, now);
            self.resumed = now;
            return Ok(());
        }
        let sizes: Vec<usize> = self.job.parts().iter().map(|part| part.request.rows).collect();
        for (client, outputs) in scatter_padded(outputs, sizes, self.job.padded(), false).into_iter().enumerate() {
            self.push_to(client, outputs.into(), parameters, last, now);
        }
        self.resumed = now;
        Ok(())
    }

    /// Sends a chunk to a request, unless its stream is over.
    pub(super) fn push_to(
        &mut self,
        client: usize,
        own: RequestOutput,
        parameters: &Parameters,
        last: bool,
        now: Instant,
    ) {
        if self.open_rows[client] > 0 {
            self.push(client, own, parameters, last, now);
            if last {
                self.close(client, Ok(()));
            }
        }
    }

    /// Sends a chunk for each row. A request with several rows gets a response per row, with the parameter `row`.
    ///
    /// # Errors
    /// `Handler`: the outputs do not match the declaration, or the numbers of chunks and rows differ.
    pub fn send_rows(&mut self, chunks: Vec<RowChunk>, parameters: &Parameters) -> Result<()> {
        self.job.instance_state().step();
        if chunks.len() != self.job.padded() {
            return Err(Error::handler(format!(
                "model '{}' yielded a list of {} pieces for a batch of {} rows",
                self.job.spec().name,
                chunks.len(),
                self.job.padded()
            )));
        }
        for (place, chunk) in chunks.into_iter().take(self.rows.len()).enumerate() {
            self.send_chunk(place, chunk, parameters.clone())?;
        }
        self.resumed = Instant::now();
        Ok(())
    }

    /// Ends the streams of requests with failed rows, with their errors.
    ///
    /// # Errors
    /// `Handler`: a row is out of range.
    pub fn fail_rows(&mut self, failed: &RowFailures) -> Result<()> {
        failed.check(&self.job.spec().name, self.job.padded())?;
        let real = failed.iter().filter(|(place, _)| *place < self.rows.len()).cloned().collect::<Vec<_>>();
        real.iter().for_each(|(place, error)| self.fail_row(*place, error));
        Ok(())
    }

    pub(super) fn fail_row(&mut self, place: usize, error: &Error) {
        let Row { client, index, open } = self.rows[place];
        if open {
            let alone = self.job.parts()[client].request.rows == 1;
            self.close(client, Err(if alone { error.clone() } else { error.in_row(index) }));
        }
    }

    /// Ends all streams without an error. Later results are ignored.
    pub fn end_all(&mut self) {
        for client in 0..self.open_rows.len() {
            self.close(client, Ok(()));
        }
    }

    /// Ends the open streams, with an error if there is one.
    pub fn finish(mut self, result: Result<InterpreterTimes>) {
        self.job.conclude(&result);
        for client in 0..self.open_rows.len() {
            self.close(client, result.as_ref().map(|_| ()).map_err(Clone::clone));
        }
    }

    /// Requests with open streams.
    fn open(&self) -> impl Iterator<Item = (usize, &Reply)> {
        let replies = self.job.parts().iter().map(|part| &part.reply).enumerate();
        replies.filter(|(client, _)| self.open_rows[*client] > 0)
    }

    fn reply(&self, client: usize) -> &Reply {
        &self.job.parts()[client].reply
    }

    pub(super) fn send_row(
        &mut self,
        place: usize,
        outputs: Outputs,
        mut parameters: Parameters,
        ends: bool,
    ) -> Result<()> {
        self.job.check(&outputs, 1)?;
        let Row { client, index, .. } = self.rows[place];
        let alone = self.job.parts()[client].request.rows == 1;
        if !alone {
            parameters.push(("row".to_owned(), Parameter::Int(i64::try_from(index).unwrap_or(i64::MAX))));
        }
        let outputs: Outputs = outputs.into_iter().map(crate::Tensor::into_shared).collect();
        self.push(client, RequestOutput::from(outputs), &parameters, ends && alone, Instant::now());
        Ok(())
    }

    fn push(&mut self, client: usize, own: RequestOutput, parameters: &Parameters, last: bool, now: Instant) {
        let part = &self.job.parts()[client];
        if own.announces_events() {
            // It is not a response, so it is not counted.
            let takes_it = part.request.raw.as_ref().is_some_and(|raw| raw.takes_events);
            if let Some(channel) = part.reply.channel().filter(|_| takes_it) {
                let response = own.response(&Parameters::new(), Timings::default());
                channel.push(Ok(ResponseChunk { response, last: false }), part.reply.completions());
            }
            return;
        }
        let left = self.reply(client).is_abandoned();
        self.count(client, if left { ResponseOutcome::Cancel } else { ResponseOutcome::Success }, now);
        let part = &self.job.parts()[client];
        let timings = self.job.timings(part, self.job.running_until(now));
        if let Some(channel) = part.reply.channel() {
            let response = own.response(parameters, timings);
            channel.push(Ok(ResponseChunk { response, last }), part.reply.completions());
        }
    }

    pub(super) fn end_row(&mut self, place: usize) {
        let row = &mut self.rows[place];
        if std::mem::replace(&mut row.open, false) {
            let client = row.client;
            match self.open_rows[client] {
                1 => self.close(client, Ok(())),
                open => self.open_rows[client] = open.saturating_sub(1),
            }
        }
    }

    /// Updates the protocol's statistics with one response.
    fn count(&mut self, client: usize, outcome: ResponseOutcome, now: Instant) {
        let place = self.responses[client];
        self.responses[client] += 1;
        self.job.metrics().statistics.responded(place, now - self.resumed, Duration::ZERO, outcome);
    }

    /// Ends the stream of a request, unless it is over.
    pub(super) fn close(&mut self, client: usize, result: Result<()>) {
        if std::mem::take(&mut self.open_rows[client]) == 0 {
            return;
        }
        match result {
            Err(ref error) => {
                self.failure = Some(error.clone());
                self.count(client, ResponseOutcome::Fail, Instant::now());
            }
            Ok(()) if self.reply(client).channel().is_some_and(Channel::has_ended) => {}
            Ok(()) => self.count(client, ResponseOutcome::Empty, Instant::now()),
        }
        let reply = self.reply(client);
        if let Some(channel) = reply.channel() {
            match result {
                Ok(()) => channel.end(reply.completions()),
                Err(error) => channel.push(Err(error), reply.completions()),
            }
        }
    }
}

impl Drop for Streaming {
    fn drop(&mut self) {
        let error = self.job.lost_error();
        for client in 0..self.open_rows.len() {
            self.close(client, Err(error.clone()));
        }
    }
}
