//! ResponseStream that a handler makes for each request by itself.

use super::{RowChunk, streaming::Streaming};
use crate::{Parameters, RequestOutput, Result};
use std::time::Instant;

impl Streaming {
    /// Gives every caller whose stream is not over the chunk that was made for it alone, or ends it with the error.
    ///
    /// # Errors
    /// `Handler` for another number of chunks than of callers.
    pub fn send_per_request(&mut self, apart: Vec<RowChunk<RequestOutput>>, parameters: &Parameters) -> Result<()> {
        self.job.check_response_count(apart.len())?;
        let now = Instant::now();
        for (caller, chunk) in apart.into_iter().enumerate() {
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
