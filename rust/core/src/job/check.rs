//! Checks of a batch's outputs.

use super::{BatchOutput, Job};
use crate::{
    Error, Outputs, Result,
    batch::{
        gather::{check_absent, check_output},
        ragged,
    },
};

impl Job {
    /// Checks the handler's output. Requests that cannot be answered with it fail alone.
    pub(super) fn checked(&self, output: BatchOutput) -> Result<BatchOutput> {
        if let Some(results) = output.per_request {
            let (results, failed) = self.check_per_request(results)?;
            return Ok(BatchOutput { per_request: Some(results), failed, ..output });
        }
        output.failed.check(&self.spec().name, self.padded())?;
        if output.outputs.is_empty() && output.failed.covers_all(self.rows) {
            return Ok(output);
        }
        self.check(&output.outputs, self.padded())?;
        let requests = self.parts.iter().map(|part| &part.request);
        let failed = ragged::unequal(self.spec(), &output.outputs, requests, output.failed);
        Ok(BatchOutput { failed, ..output })
    }

    /// Checks outputs of `rows` rows against the declaration.
    pub(crate) fn check(&self, outputs: &Outputs, rows: usize) -> Result<()> {
        let spec = self.spec();
        self.check_count(outputs)?;
        let mut outputs = outputs.iter().enumerate();
        outputs.try_for_each(|(index, tensor)| match tensor.lengths() {
            _ if tensor.is_absent() => check_absent(spec, index),
            Some(_) => ragged::check_output(spec, index, tensor, rows),
            None => check_output(spec, index, tensor.datatype(), tensor.shape(), rows),
        })
    }

    /// Checks that there is a tensor for each declared output.
    pub(super) fn check_count(&self, outputs: &Outputs) -> Result<()> {
        let spec = self.spec();
        if outputs.len() == spec.outputs.len() {
            return Ok(());
        }
        Err(Error::handler(format!(
            "model '{}' returned {} outputs, declared {}",
            spec.name,
            outputs.len(),
            spec.outputs.len()
        )))
    }
}
