//! Results of a handler by request.

use super::Job;
use crate::{
    Error, Outputs, Part, RequestOutput, Result, RowFailures, Tensor,
    batch::gather::{check_absent, check_datatype, check_output},
};

impl Job {
    /// Checks the results. A result that does not match the declaration fails its request only.
    ///
    /// # Errors
    /// `Handler`: the numbers of results and requests differ.
    pub(crate) fn check_per_request(
        &self,
        results: Vec<Result<RequestOutput>>,
    ) -> Result<(Vec<Result<RequestOutput>>, RowFailures)> {
        self.check_response_count(results.len())?;
        let (mut first, mut failures) = (0, Vec::new());
        let mut check = |(own, part): (Result<RequestOutput>, &Part)| {
            let rows = part.request.rows;
            let checked = own.and_then(|own| self.check_request_output(own, part));
            if let Err(error) = &checked
                && rows > 0
            {
                failures.push((first, error.clone()));
            }
            first += rows;
            checked
        };
        let checked = results.into_iter().zip(&self.parts).map(&mut check).collect();
        Ok((checked, RowFailures::new(failures)))
    }

    /// Checks that there is a result for each request.
    ///
    /// # Errors
    /// `Handler`: the numbers differ.
    pub(crate) fn check_response_count(&self, count: usize) -> Result<()> {
        if count == self.parts.len() {
            return Ok(());
        }
        let (model, expected) = (&self.spec().name, self.parts.len());
        Err(Error::handler(format!("model '{model}' returned answers to {count} requests, the batch has {expected}")))
    }

    /// Checks the result for one request.
    pub(crate) fn check_request_output(&self, own: RequestOutput, part: &Part) -> Result<RequestOutput> {
        let own = match self.spec().raw_requests {
            true => own.select_outputs(&self.spec().name, part.request.raw.as_deref())?,
            false => {
                self.check_declared(&own.outputs, part.request.rows)?;
                own
            }
        };
        if part.request.takes_ownership {
            return Ok(own);
        }
        Ok(RequestOutput { outputs: own.outputs.into_iter().map(Tensor::into_shared).collect(), ..own })
    }

    /// Checks the outputs of a request of `rows` rows against the declaration.
    fn check_declared(&self, outputs: &Outputs, rows: usize) -> Result<()> {
        let spec = self.spec();
        self.check_count(outputs)?;
        for (index, tensor) in outputs.iter().enumerate() {
            if tensor.lengths().is_some() {
                let (model, output) = (&spec.name, &spec.outputs[index].name);
                let problem = format!("model '{model}' returned output '{output}' ragged, in an answer to one request");
                return Err(Error::handler(problem));
            }
            match spec.check_shapes {
                _ if tensor.is_absent() => check_absent(spec, index)?,
                false => check_datatype(spec, index, tensor.datatype())?,
                true => check_output(spec, index, tensor.datatype(), tensor.shape(), rows)?,
            }
        }
        Ok(())
    }
}
