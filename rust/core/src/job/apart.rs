//! Outputs that a handler made for each request by itself.

use super::Job;
use crate::{
    Error, Result, RowFailures, Tensor,
    batch::gather::{Outputs, check_absent, check_datatype, check_output},
};

impl Job {
    /// Checks what a handler made of each request. One whose outputs are not as declared fails alone.
    ///
    /// # Errors
    /// `Handler` for another number of answers than of requests.
    pub(crate) fn checked_apart(&self, apart: Vec<Result<Outputs>>) -> Result<(Vec<Result<Outputs>>, RowFailures)> {
        if apart.len() != self.parts.len() {
            return Err(Error::handler(format!(
                "model '{}' returned answers to {} requests, the batch has {}",
                self.spec().name,
                apart.len(),
                self.parts.len()
            )));
        }
        let (mut first, mut failures) = (0, Vec::new());
        let mut check = |(outputs, part): (Result<Outputs>, &super::Part)| {
            let rows = part.request.rows;
            let checked = outputs.and_then(|outputs| self.checked_own(outputs, rows, part.request.takes_memory));
            if let Err(error) = &checked
                && rows > 0
            {
                failures.push((first, error.clone()));
            }
            first += rows;
            checked
        };
        let checked = apart.into_iter().zip(&self.parts).map(&mut check).collect();
        Ok((checked, RowFailures::new(failures)))
    }

    /// Checks the outputs of a request of `rows` rows.
    fn checked_own(&self, outputs: Outputs, rows: usize, takes: bool) -> Result<Outputs> {
        let spec = self.spec();
        self.check_count(&outputs)?;
        for (index, tensor) in outputs.iter().enumerate() {
            if tensor.lengths().is_some() {
                let (model, output) = (&spec.name, &spec.outputs[index].name);
                let problem = format!("model '{model}' returned output '{output}' ragged, in an answer to one request");
                return Err(Error::handler(problem));
            }
            match spec.any_shape {
                _ if tensor.is_absent() => check_absent(spec, index)?,
                true => check_datatype(spec, index, tensor.datatype())?,
                false => check_output(spec, index, tensor.datatype(), tensor.shape(), rows)?,
            }
        }
        Ok(if takes { outputs } else { outputs.into_iter().map(Tensor::into_shared).collect() })
    }
}
