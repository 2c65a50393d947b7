//! What a row costs by its sizes, as a model's author declares it. Batches are then bounded by what they cost.
//!
//! A cost is a sum of products of sizes, so it is known on the I/O thread as soon as a request is decoded, before it
//! waits; and it never falls when a size grows.

use crate::{Error, InferRequest, Inputs, ModelSpec, Oversize, Result};

/// A size of an input's rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dim {
    /// The input, by declaration index.
    pub input: usize,
    /// The axis, without the batch axis.
    pub axis: usize,
}

/// A number times some sizes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Term {
    /// The number.
    pub times: u64,
    /// The sizes; none for a cost that every row has.
    pub dims: Vec<Dim>,
}

/// What a row costs, and how much a batch may.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowCost {
    /// What is added up.
    pub terms: Vec<Term>,
    /// The most that the rows of one batch cost together.
    pub most: u64,
}

/// What has sizes.
pub(crate) trait Sizes {
    /// How large that one is; 0 if the input is not there.
    fn size(&self, dim: Dim) -> u64;
}

impl Sizes for Inputs {
    fn size(&self, dim: Dim) -> u64 {
        let tensor = self.get(dim.input).and_then(Option::as_ref);
        tensor.and_then(|tensor| tensor.shape().get(dim.axis + 1)).map_or(0, |&size| size as u64)
    }
}

impl RowCost {
    /// What each row of a request costs. A sum that is too large to count is the largest that can be.
    pub fn of_row(&self, inputs: &Inputs) -> u64 {
        self.of_sizes(inputs)
    }

    pub(crate) fn of_sizes(&self, sizes: &impl Sizes) -> u64 {
        let term = |term: &Term| term.dims.iter().fold(term.times, |cost, dim| cost.saturating_mul(sizes.size(*dim)));
        self.terms.iter().map(term).fold(0, u64::saturating_add)
    }
}

impl ModelSpec {
    /// What rows cost, if that is declared.
    pub fn row_cost(&self) -> Option<&RowCost> {
        self.batching.as_ref()?.cost.as_ref()
    }

    /// What a request costs; 0 for a model whose rows have no cost.
    pub(crate) fn cost_of(&self, request: &InferRequest) -> u64 {
        self.row_cost().map_or(0, |cost| cost.of_row(&request.inputs).saturating_mul(request.rows as u64))
    }

    /// The most rows of such a request that one batch holds; 0 without a batch axis.
    ///
    /// # Errors
    /// `InvalidInput` with the numbers if the request costs more than a batch may, and is not to be parted or
    /// cannot be.
    pub(crate) fn most_rows(&self, request: &InferRequest) -> Result<usize> {
        let (most_rows, model) = (self.max_batch_size(), &self.name);
        let Some(batching) = self.batching.as_ref().filter(|_| request.rows > 0) else { return Ok(most_rows) };
        let Some(RowCost { most, .. }) = batching.cost else { return Ok(most_rows) };
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

    /// Refuses a request that has to be computed at once, and is too large for that.
    ///
    /// # Errors
    /// `InvalidInput` with the numbers; `does` is what the model does with a batch, for the text.
    pub(crate) fn check_whole(&self, request: &InferRequest, does: &str) -> Result<()> {
        let most = self.most_rows(request)?;
        if most == 0 || request.rows <= most {
            return Ok(());
        }
        let Self { name, .. } = self;
        let rows = request.rows;
        Err(Error::invalid(format!("the request has a batch of {rows} rows, model '{name}' {does} at most {most}")))
    }
}
