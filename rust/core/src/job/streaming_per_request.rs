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
        self.job.instance_state().step();
        self.job.check_response_count(results.len())?;
        let now = Instant::now();
        for (client, chunk) in results.into_iter().enumerate() {
            match chunk {
                RowChunk::Nothing => {}
                RowChunk::More(own) => self.send_own(client, own, parameters, false, now),
                RowChunk::Last(own) => self.send_own(client, own, parameters, true, now),
                RowChunk::End => self.close(client, Ok(())),
                RowChunk::Fail(error) => self.close(client, Err(error)),
            }
        }
        self.resumed = now;
        Ok(())
    }

    fn send_own(&mut self, client: usize, own: RequestOutput, parameters: &Parameters, last: bool, now: Instant) {
        match self.job.check_request_output(own, &self.job.parts()[client]) {
            Ok(own) => self.push_to(client, own, parameters, last, now),
            Err(error) => self.close(client, Err(error)),
        }
    }
}
