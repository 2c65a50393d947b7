//! Cost of a row as a formula of its dimensions. A limit on the cost of a batch complements the limit on its rows.
//!
//! A cost is a sum of products of dimensions. I/O threads evaluate it right after decoding. It never falls when a
//! dimension grows.

use crate::Inputs;

/// A dimension of an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dim {
    /// Index of the input.
    pub input: usize,
    /// Axis, not counting the batch axis.
    pub axis: usize,
}

/// A factor times some dimensions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Term {
    /// Factor.
    pub factor: u64,
    /// Dimensions; empty for a constant.
    pub dims: Vec<Dim>,
}

/// Cost formula of a row, and the limit for a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowCost {
    /// Terms of the sum.
    pub terms: Vec<Term>,
    /// Maximum cost of one batch.
    pub max_cost: u64,
}

/// Provider of dimensions.
pub(crate) trait Sizes {
    /// Size of a dimension; 0 if the input is absent.
    fn size(&self, dim: Dim) -> u64;
}

impl Sizes for Inputs {
    fn size(&self, dim: Dim) -> u64 {
        let tensor = self.get(dim.input).and_then(Option::as_ref);
        tensor.and_then(|tensor| tensor.shape().get(dim.axis + 1)).map_or(0, |&size| size as u64)
    }
}

impl RowCost {
    /// Cost of each row of a request. Saturates at `u64::MAX`.
    pub fn of_row(&self, inputs: &Inputs) -> u64 {
        self.of_sizes(inputs)
    }

    pub(crate) fn of_sizes(&self, sizes: &impl Sizes) -> u64 {
        let term = |term: &Term| term.dims.iter().fold(term.factor, |cost, dim| cost.saturating_mul(sizes.size(*dim)));
        self.terms.iter().map(term).fold(0, u64::saturating_add)
    }
}
