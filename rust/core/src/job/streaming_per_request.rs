//! Streams of results by request.

use super::{RowChunk, streaming::Streaming};
use crate::{Parameters, RequestOutput, Result};
use std::time::Instant;

impl Streaming {
    /// Sends each open stream its chunk, or ends it with the error.
    ///
    /// # Errors
    /// `Handler`: the numbers of chunks and requests differ.
    pub fn send_per_request(&mut self, results: Vec<RowChunk<RequestOutput>>, parameters: &Parameters) -> Result<()> {
        self.job.check_response_count(results.len())?;
        let now = Instant::now();
        for (caller, chunk) in results.into_iter().enumerate() {
            match chunk {
                RowChunk::Nothing => {}
                RowChunk::More(own) => self.send_own(caller, own, parameters, false, now),
                RowChunk::Last(own) => self.send_own(caller, own, parameters, true, now),
                RowChunk::End => self.close(caller, Ok(())),
                RowChunk::Fail(error) => self.close(caller, Err(error)),
            }
        }
        self.resumed = now;
        Ok(())
    }

    fn send_own(&mut self, caller: usize, own: RequestOutput, parameters: &Parameters, last: bool, now: Instant) {
        match self.job.check_request_output(own, &self.job.parts()[caller]) {
            Ok(own) => self.push_to(caller, own, parameters, last, now),
            Err(error) => self.close(caller, Err(error)),
        }
    }
}
