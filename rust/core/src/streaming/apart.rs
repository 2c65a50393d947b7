//! Pieces that a handler makes for each request by itself.

use super::Streaming;
use crate::{Parameters, Result, batch::gather::Outputs};
use std::time::Instant;

impl Streaming {
    /// Gives every caller whose stream is not over the piece that was made for it alone, or ends it with the error.
    ///
    /// # Errors
    /// `Handler` for another number of pieces than of callers.
    pub fn send_apart(&mut self, apart: Vec<Result<Outputs>>, parameters: &Parameters) -> Result<()> {
        let (apart, _) = self.job.checked_apart(apart)?;
        let now = Instant::now();
        for (caller, outputs) in apart.into_iter().enumerate() {
            match outputs {
                Ok(outputs) => self.push_to(caller, outputs, parameters, false, now),
                Err(error) => self.close(caller, Err(error)),
            }
        }
        self.resumed = now;
        Ok(())
    }
}
