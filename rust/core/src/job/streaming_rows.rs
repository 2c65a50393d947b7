//! Chunks of single rows, and streams of an iterative model, of one request each.

use super::{RowChunk, Streaming};
use crate::{InterpreterTimes, Parameters, Result};
use std::time::Duration;

impl Streaming {
    /// Sends one row its chunk, or ends it.
    ///
    /// # Errors
    /// `Handler`: the outputs do not match the declaration.
    pub(super) fn send_chunk(&mut self, place: usize, chunk: RowChunk, parameters: Parameters) -> Result<()> {
        let (outputs, ends) = match chunk {
            RowChunk::Nothing => return Ok(()),
            RowChunk::More(outputs) => (Some(outputs), false),
            RowChunk::Last(outputs) => (Some(outputs), true),
            RowChunk::End => (None, true),
            RowChunk::Fail(error) => {
                self.fail_row(place, &error);
                return Ok(());
            }
        };
        if let Some(outputs) = outputs.filter(|_| self.rows[place].open) {
            self.send_row(place, outputs, parameters, ends)?;
        }
        if ends {
            self.end_row(place);
        }
        Ok(())
    }

    /// Returns true until the row, or the stream of its request, has ended.
    pub(super) fn is_row_open(&self, place: usize) -> bool {
        self.rows.get(place).is_some_and(|row| row.open && self.open_rows[row.client] > 0)
    }

    /// Returns true once the streams of all requests have ended.
    pub(super) fn is_over(&self) -> bool {
        self.open_rows.iter().all(|&open| open == 0)
    }

    /// Ends a request of an iterative model, and its stream if that is open. `times` are those of its steps, `share` is
    /// its part of them.
    pub(super) fn leave(mut self, result: Result<()>, times: InterpreterTimes, share: Duration) {
        let failure = result.as_ref().err().or(self.failure.as_ref()).cloned();
        self.job.conclude_row(failure.as_ref(), times, share);
        for client in 0..self.open_rows.len() {
            self.close(client, result.clone());
        }
    }
}
