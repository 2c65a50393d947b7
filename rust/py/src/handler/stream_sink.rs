//! Sink of a stream's chunks.

use super::outputs::Outputs;
use penstock_core::{Job, Parameters, RequestOutput, Result, RowChunk, RowFailures, Streaming};

/// Sink of a stream's chunks: the clients, or the server that has them.
pub(crate) trait StreamSink: Send {
    /// The batch.
    fn job(&self) -> &Job;
    /// Returns whether any client still reads.
    fn is_wanted(&self) -> bool;
    /// Returns whether a client has to read before the handler may continue.
    fn is_full(&mut self) -> bool;
    /// Blocks until no client has to read first.
    fn wait_for_room(&mut self);
    /// Ends the streams of rows that failed.
    fn fail_rows(&mut self, failed: &RowFailures) -> Result<()>;
    /// Sends all clients their rows of `outputs`; with `last`, that was all.
    fn send(&mut self, outputs: Outputs, parameters: &Parameters, last: bool) -> Result<()>;
    /// Sends each client its own chunk, or ends its stream with the error.
    fn send_apart(&mut self, apart: Vec<RowChunk<RequestOutput>>, parameters: &Parameters) -> Result<()>;
    /// Sends each row its own chunk.
    fn send_rows(&mut self, rows: Vec<RowChunk>, parameters: &Parameters) -> Result<()>;
    /// Ends all streams without an error.
    fn end_all(&mut self);
}

impl StreamSink for Streaming {
    fn job(&self) -> &Job {
        self.job()
    }

    fn is_wanted(&self) -> bool {
        self.is_wanted()
    }

    fn is_full(&mut self) -> bool {
        (*self).is_full()
    }

    fn wait_for_room(&mut self) {
        self.wait_for_room();
    }

    fn send(&mut self, outputs: Outputs, parameters: &Parameters, last: bool) -> Result<()> {
        self.send(outputs, parameters, last)
    }

    fn send_rows(&mut self, rows: Vec<RowChunk>, parameters: &Parameters) -> Result<()> {
        self.send_rows(rows, parameters)
    }

    fn send_apart(&mut self, apart: Vec<RowChunk<RequestOutput>>, parameters: &Parameters) -> Result<()> {
        self.send_per_request(apart, parameters)
    }

    fn fail_rows(&mut self, failed: &RowFailures) -> Result<()> {
        self.fail_rows(failed)
    }

    fn end_all(&mut self) {
        self.end_all();
    }
}
