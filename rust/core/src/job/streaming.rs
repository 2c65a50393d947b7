//! A batch whose answers come in chunks, while it is computed. Rows end independently.

use super::{Job, row_chunk::RowChunk};
use crate::{
    Error, InterpreterTimes, Outputs, Parameter, Parameters, Reply, RequestOutput, ResponseChunk, Result, RowFailures,
    Timings,
    batch::gather::scatter_padded,
    metrics::statistics::ResponseOutcome,
    reply::{Channel, stalled},
};

use std::time::{Duration, Instant};

/// How long a handler is paused for one caller that does not read, before that caller is let go.
pub const SLOW_READER_TIMEOUT: Duration = Duration::from_secs(30);

/// A batch that is being answered in chunks.
#[must_use = "a stream that is dropped fails its callers"]
#[derive(Debug)]
pub struct Streaming {
    pub(super) job: Job,
    rows: Vec<Row>,
    /// The rows of each caller that have not ended; none once its stream is over.
    open_rows: Vec<usize>,
    /// The answers that each caller has got.
    answers: Vec<usize>,
    /// When the handler went on after its last chunk.
    pub(super) resumed: Instant,
}

#[derive(Clone, Copy, Debug)]
struct Row {
    caller: usize,
    /// Its place among the caller's rows.
    index: usize,
    open: bool,
}

impl Job {
    /// Begins to answer in chunks.
    pub fn stream(self) -> Streaming {
        let sizes = self.parts().iter().map(|part| part.request.rows).enumerate();
        let rows = sizes.flat_map(|(caller, size)| (0..size).map(move |index| Row { caller, index, open: true }));
        let rows = rows.collect();
        // A request without rows is one caller all the same.
        let open_rows = self.parts().iter().map(|part| part.request.rows.max(1)).collect();
        let answers = vec![0; self.parts().len()];
        Streaming { job: self, rows, open_rows, answers, resumed: Instant::now() }
    }
}

impl Streaming {
    /// The batch.
    pub fn job(&self) -> &Job {
        &self.job
    }

    /// Whether anybody still reads.
    pub fn is_wanted(&self) -> bool {
        self.open().any(|(_, reply)| !reply.is_abandoned())
    }

    /// Whether some caller has to read before the handler goes on.
    pub fn is_full(&self) -> bool {
        self.open().any(|(_, reply)| !reply.is_abandoned() && reply.channel().is_some_and(Channel::is_full))
    }

    /// Blocks until every caller has room. One that does not read for half a minute is let go, so that it
    /// holds up neither the rows beside it nor the instance.
    pub fn wait_for_room(&mut self) {
        for caller in 0..self.open_rows.len() {
            if self.open_rows[caller] == 0 {
                continue;
            }
            let has_room =
                self.reply(caller).channel().is_none_or(|channel| channel.wait_for_room(SLOW_READER_TIMEOUT));
            if !has_room {
                let error = stalled(&self.job.spec().name, SLOW_READER_TIMEOUT);
                self.close(caller, Err(error));
            }
        }
        self.resumed = Instant::now();
    }

    /// Lets go of the callers that have no room, for a handler that has waited for them long enough.
    pub fn drop_slow_clients(&mut self) {
        for caller in 0..self.open_rows.len() {
            if self.open_rows[caller] > 0 && self.reply(caller).channel().is_some_and(Channel::is_full) {
                let error = stalled(&self.job.spec().name, SLOW_READER_TIMEOUT);
                self.close(caller, Err(error));
            }
        }
        self.resumed = Instant::now();
    }

    /// Gives every caller whose stream is not over its rows of `outputs`, which are those of the whole
    /// batch; with `last`, that was all.
    ///
    /// # Errors
    /// `Handler` for outputs that are not as declared.
    pub fn send(&mut self, outputs: Outputs, parameters: &Parameters, last: bool) -> Result<()> {
        self.job.check(&outputs, self.job.padded())?;
        let now = Instant::now();
        if self.job.parts().len() == 1 && self.job.padded() == self.job.rows() {
            self.push_to(0, outputs.into(), parameters, last, now);
            self.resumed = now;
            return Ok(());
        }
        let sizes: Vec<usize> = self.job.parts().iter().map(|part| part.request.rows).collect();
        for (caller, outputs) in scatter_padded(outputs, sizes, self.job.padded(), false).into_iter().enumerate() {
            self.push_to(caller, outputs.into(), parameters, last, now);
        }
        self.resumed = now;
        Ok(())
    }

    /// One chunk for a caller, unless its stream is over.
    pub(super) fn push_to(
        &mut self,
        caller: usize,
        own: RequestOutput,
        parameters: &Parameters,
        last: bool,
        now: Instant,
    ) {
        if self.open_rows[caller] > 0 {
            self.push(caller, own, parameters, last, now);
            if last {
                self.close(caller, Ok(()));
            }
        }
    }

    /// Gives each row its own chunk. A caller with several rows gets each as an answer of its own, with
    /// the parameter `row` that says which.
    ///
    /// # Errors
    /// `Handler` for outputs that are not as declared, or for another number of chunks than of rows.
    pub fn send_rows(&mut self, chunks: Vec<RowChunk>, parameters: &Parameters) -> Result<()> {
        if chunks.len() != self.job.padded() {
            return Err(Error::handler(format!(
                "model '{}' yielded a list of {} pieces for a batch of {} rows",
                self.job.spec().name,
                chunks.len(),
                self.job.padded()
            )));
        }
        for (place, chunk) in chunks.into_iter().take(self.rows.len()).enumerate() {
            let (outputs, ends) = match chunk {
                RowChunk::Nothing => continue,
                RowChunk::More(outputs) => (Some(outputs), false),
                RowChunk::Last(outputs) => (Some(outputs), true),
                RowChunk::End => (None, true),
                RowChunk::Fail(error) => {
                    self.fail_row(place, &error);
                    continue;
                }
            };
            if let Some(outputs) = outputs.filter(|_| self.rows[place].open) {
                self.send_row(place, outputs, parameters.clone(), ends)?;
            }
            if ends {
                self.end_row(place);
            }
        }
        self.resumed = Instant::now();
        Ok(())
    }

    /// Ends the streams of the callers whose rows failed, with their errors.
    ///
    /// # Errors
    /// `Handler` for a row that the batch does not have.
    pub fn fail_rows(&mut self, failed: &RowFailures) -> Result<()> {
        failed.check(&self.job.spec().name, self.job.padded())?;
        let real = failed.iter().filter(|(place, _)| *place < self.rows.len()).cloned().collect::<Vec<_>>();
        real.iter().for_each(|(place, error)| self.fail_row(*place, error));
        Ok(())
    }

    fn fail_row(&mut self, place: usize, error: &Error) {
        let Row { caller, index, open } = self.rows[place];
        if open {
            let alone = self.job.parts()[caller].request.rows == 1;
            self.close(caller, Err(if alone { error.clone() } else { error.in_row(index) }));
        }
    }

    /// Ends all streams, well; what the handler yields after that goes nowhere.
    pub fn end_all(&mut self) {
        for caller in 0..self.open_rows.len() {
            self.close(caller, Ok(()));
        }
    }

    /// Ends every stream that is still open: well, or with the error.
    pub fn finish(mut self, result: Result<InterpreterTimes>) {
        self.job.conclude(&result);
        for caller in 0..self.open_rows.len() {
            self.close(caller, result.as_ref().map(|_| ()).map_err(Clone::clone));
        }
    }

    /// The callers whose streams are not over.
    fn open(&self) -> impl Iterator<Item = (usize, &Reply)> {
        let replies = self.job.parts().iter().map(|part| &part.reply).enumerate();
        replies.filter(|(caller, _)| self.open_rows[*caller] > 0)
    }

    fn reply(&self, caller: usize) -> &Reply {
        &self.job.parts()[caller].reply
    }

    fn send_row(&mut self, place: usize, outputs: Outputs, mut parameters: Parameters, ends: bool) -> Result<()> {
        self.job.check(&outputs, 1)?;
        let Row { caller, index, .. } = self.rows[place];
        let alone = self.job.parts()[caller].request.rows == 1;
        if !alone {
            parameters.push(("row".to_owned(), Parameter::Int(i64::try_from(index).unwrap_or(i64::MAX))));
        }
        let outputs: Outputs = outputs.into_iter().map(crate::Tensor::into_shared).collect();
        self.push(caller, RequestOutput::from(outputs), &parameters, ends && alone, Instant::now());
        Ok(())
    }

    fn push(&mut self, caller: usize, own: RequestOutput, parameters: &Parameters, last: bool, now: Instant) {
        let left = self.reply(caller).is_abandoned();
        self.count(caller, if left { ResponseOutcome::Cancel } else { ResponseOutcome::Success }, now);
        let part = &self.job.parts()[caller];
        let timings = Timings { queue: part.waited, compute: self.job.running_until(now), batch_rows: self.job.rows() };
        if let Some(channel) = part.reply.channel() {
            let response = own.response(parameters, timings);
            channel.push(Ok(ResponseChunk { response, last }), part.reply.completions());
        }
    }

    fn end_row(&mut self, place: usize) {
        let row = &mut self.rows[place];
        if std::mem::replace(&mut row.open, false) {
            let caller = row.caller;
            match self.open_rows[caller] {
                1 => self.close(caller, Ok(())),
                open => self.open_rows[caller] = open.saturating_sub(1),
            }
        }
    }

    /// For the protocol's statistics: one more answer of a caller, and what became of it.
    fn count(&mut self, caller: usize, outcome: ResponseOutcome, now: Instant) {
        let place = self.answers[caller];
        self.answers[caller] += 1;
        self.job.metrics().statistics.responded(place, now - self.resumed, Duration::ZERO, outcome);
    }

    /// Ends a caller's stream, if it is not over.
    pub(super) fn close(&mut self, caller: usize, result: Result<()>) {
        if std::mem::take(&mut self.open_rows[caller]) == 0 {
            return;
        }
        match result {
            Err(_) => self.count(caller, ResponseOutcome::Fail, Instant::now()),
            Ok(()) if self.reply(caller).channel().is_some_and(Channel::has_ended) => {}
            Ok(()) => self.count(caller, ResponseOutcome::Empty, Instant::now()),
        }
        let reply = self.reply(caller);
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
        for caller in 0..self.open_rows.len() {
            self.close(caller, Err(error.clone()));
        }
    }
}
