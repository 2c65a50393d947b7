//! What a row costs by its sizes, as a model's author declares it. Batches are then bounded by what they cost.
//!
//! A cost is a sum of products of sizes, so it is known on the I/O thread as soon as a request is decoded, before it
//! waits; and it never falls when a size grows.

use crate::Inputs;

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
    pub factor: u64,
    /// The sizes; none for a cost that every row has.
    pub dims: Vec<Dim>,
}

/// What a row costs, and how much a batch may.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowCost {
    /// What is added up.
    pub terms: Vec<Term>,
    /// The most that the rows of one batch cost together.
    pub max_cost: u64,
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
        let term = |term: &Term| term.dims.iter().fold(term.factor, |cost, dim| cost.saturating_mul(sizes.size(*dim)));
        self.terms.iter().map(term).fold(0, u64::saturating_add)
    }
}
