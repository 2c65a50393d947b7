//! Size of a request: its cost, its rows, and what one batch holds of it.

use super::InferRequest;
use crate::{Error, Inputs, ModelSpec, Oversize, Result, RowCost};
use smallvec::SmallVec;

/// Row lengths of a request: one number for each ragged input, in declaration order.
pub(crate) type Lengths = SmallVec<[usize; 2]>;

impl ModelSpec {
    /// Cost formula of the rows, if declared.
    pub fn row_cost(&self) -> Option<&RowCost> {
        self.batching.as_ref()?.cost.as_ref()
    }

    /// Cost of a request; 0 if rows have no cost.
    pub(crate) fn cost_of(&self, request: &InferRequest) -> u64 {
        self.row_cost().map_or(0, |cost| cost.of_row(&request.inputs).saturating_mul(request.rows as u64))
    }

    /// Maximum rows of such a request in one batch; 0 without a batch axis.
    ///
    /// # Errors
    /// `InvalidInput`: the request costs more than a batch may, and cannot be split.
    pub(crate) fn max_rows(&self, request: &InferRequest) -> Result<usize> {
        let (most_rows, model) = (self.max_batch_size(), &self.name);
        let Some(batching) = self.batching.as_ref().filter(|_| request.rows > 0) else { return Ok(most_rows) };
        let Some(RowCost { max_cost: most, .. }) = batching.cost else { return Ok(most_rows) };
        let whole = self.cost_of(request);
        if whole <= most {
            return Ok(most_rows);
        }
        let row = whole / request.rows as u64;
        if row > most {
            return Err(Error::invalid(format!(
                "a row of the request costs {row}, model '{model}' computes at most {most}"
            )));
        }
        if batching.oversize == Oversize::Refuse {
            let rows = request.rows;
            return Err(Error::invalid(format!(
                "the request costs {whole}, {row} for each of its {rows} rows, model '{model}' accepts at most {most}"
            )));
        }
        Ok(most_rows.min(usize::try_from(most / row).unwrap_or(usize::MAX)))
    }

    /// Refuses a request that does not fit into one batch and cannot be split.
    ///
    /// # Errors
    /// `InvalidInput`: the message has the numbers. `does` is the verb for the message, for example "computes".
    pub(crate) fn check_whole(&self, request: &InferRequest, does: &str) -> Result<()> {
        let most = self.max_rows(request)?;
        if most == 0 || request.rows <= most {
            return Ok(());
        }
        let Self { name, .. } = self;
        let rows = request.rows;
        Err(Error::invalid(format!("the request has a batch of {rows} rows, model '{name}' {does} at most {most}")))
    }
}

impl ModelSpec {
    /// Returns true if rows of different lengths may share a batch.
    pub fn is_ragged(&self) -> bool {
        self.inputs.iter().any(|input| input.ragged.is_some())
    }

    /// Row lengths of a request.
    pub(crate) fn lengths_of(&self, inputs: &Inputs) -> Lengths {
        let declared = self.inputs.iter().zip(inputs).filter(|(declared, _)| declared.ragged.is_some());
        declared.map(|(_, tensor)| tensor.as_ref().map_or(0, |tensor| tensor.shape()[1])).collect()
    }
}
