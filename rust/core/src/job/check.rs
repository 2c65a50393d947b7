//! What a handler made of a batch, checked against the declaration.

use super::{BatchOutput, Job};
use crate::{
    Error, Result,
    batch::gather::{Outputs, check_output},
    ragged,
};

impl Job {
    /// Checks what a handler made of the batch. Requests that cannot be answered with it fail alone.
    pub(super) fn checked(&self, output: BatchOutput) -> Result<BatchOutput> {
        output.failed.check(&self.spec().name, self.padded())?;
        if output.outputs.is_empty() && output.failed.are_all(self.rows) {
            return Ok(output);
        }
        self.check(&output.outputs, self.padded())?;
        let requests = self.parts.iter().map(|part| &part.request);
        let failed = ragged::unequal(self.spec(), &output.outputs, requests, output.failed);
        Ok(BatchOutput { failed, ..output })
    }

    /// Checks the outputs for `rows` rows against the declaration.
    pub(crate) fn check(&self, outputs: &Outputs, rows: usize) -> Result<()> {
        let spec = self.spec();
        if outputs.len() != spec.outputs.len() {
            return Err(Error::handler(format!(
                "model '{}' returned {} outputs, declared {}",
                spec.name,
                outputs.len(),
                spec.outputs.len()
            )));
        }
        let mut outputs = outputs.iter().enumerate();
        outputs.try_for_each(|(index, tensor)| match tensor.lengths() {
            Some(_) => ragged::check_output(spec, index, tensor, rows),
            None => check_output(spec, index, tensor.datatype(), tensor.shape(), rows),
        })
    }
}
