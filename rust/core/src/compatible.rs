//! Which requests may share a batch, beside its rows: by what they cost together, and by how long their rows are.

use crate::{
    Inputs, ModelSpec, Ragged, RowCost,
    lane::Pending,
    ragged::Lengths,
    row_cost::{Dim, Sizes},
};

/// Which lengths are near enough to share a batch.
#[derive(Clone, Debug, PartialEq)]
pub enum Window {
    /// Those between the same two of these, ascending; a boundary belongs to what is below it.
    Edges(Vec<usize>),
    /// Those that are at most so many times as long, or as short, as those of the request that goes first.
    Ratio(f64),
}

impl Window {
    fn admits(&self, first: usize, length: usize) -> bool {
        match self {
            Self::Edges(edges) => {
                let place = |length| edges.partition_point(|edge| *edge < length);
                place(first) == place(length)
            }
            // Of nothing, one step is as far away as from one.
            Self::Ratio(ratio) => first.max(length) as f64 <= ratio * first.min(length).max(1) as f64,
        }
    }
}

/// What a model says of it.
#[derive(Debug)]
pub(crate) struct BatchRules {
    cost: Option<RowCost>,
    window: Option<Window>,
    /// The inputs whose rows may differ in length.
    inputs: Vec<usize>,
    /// Whether one of them is filled up to its longest row.
    fills: bool,
}

/// Requests that are to share a batch.
#[derive(Debug)]
pub(crate) struct CandidateBatch<'a> {
    joining: &'a BatchRules,
    rows: u64,
    cost: u64,
    first: Option<Lengths>,
    longest: Lengths,
}

impl BatchRules {
    pub(crate) fn new(spec: &ModelSpec) -> Self {
        let inputs =
            || spec.inputs.iter().enumerate().filter_map(|(index, input)| Some((index, input.ragged.as_ref()?)));
        Self {
            cost: spec.row_cost().cloned(),
            window: spec.batching.as_ref().and_then(|batching| batching.window.clone()),
            inputs: inputs().map(|(index, _)| index).collect(),
            fills: inputs().any(|(_, ragged)| matches!(ragged, Ragged::Padded(_))),
        }
    }

    /// Whether batches are bounded by what they cost.
    pub(crate) fn has_cost(&self) -> bool {
        self.cost.is_some()
    }

    /// None yet.
    pub(crate) fn none(&self) -> CandidateBatch<'_> {
        CandidateBatch { joining: self, rows: 0, cost: 0, first: None, longest: Lengths::new() }
    }
}

impl CandidateBatch<'_> {
    /// Whether a request's rows are about as long as those of the first one.
    pub(crate) fn in_window(&self, pending: &Pending) -> bool {
        let (Some(window), Some(first)) = (&self.joining.window, &self.first) else { return true };
        first.iter().zip(&pending.lengths).all(|(&first, &length)| window.admits(first, length))
    }

    /// Whether they would cost too much with one more.
    pub(crate) fn is_full_for(&self, pending: &Pending) -> bool {
        self.joining.cost.as_ref().is_some_and(|cost| self.cost_with(cost, pending) > cost.most)
    }

    /// Whether they cost all that they may.
    pub(crate) fn is_full(&self) -> bool {
        self.joining.cost.as_ref().is_some_and(|cost| self.cost >= cost.most)
    }

    /// What they cost, where rows have a cost.
    pub(crate) fn cost(&self) -> Option<u64> {
        self.joining.cost.as_ref().map(|_| self.cost)
    }

    pub(crate) fn add(&mut self, pending: &Pending) {
        if let Some(cost) = &self.joining.cost {
            self.cost = self.cost_with(cost, pending);
        }
        if !pending.lengths.is_empty() {
            self.longest = self.longest_with(pending);
            self.first.get_or_insert_with(|| pending.lengths.clone());
        }
        self.rows += pending.request.rows as u64;
    }

    /// What is filled up costs as much as the longest row, for all rows.
    fn cost_with(&self, cost: &RowCost, pending: &Pending) -> u64 {
        if !self.joining.fills {
            return self.cost.saturating_add(pending.cost);
        }
        let longest = self.longest_with(pending);
        let row = cost.of_sizes(&Longest { joining: self.joining, inputs: &pending.request.inputs, longest: &longest });
        row.saturating_mul(self.rows + pending.request.rows as u64)
    }

    fn longest_with(&self, pending: &Pending) -> Lengths {
        let own = pending.lengths.iter().enumerate();
        own.map(|(index, &length)| self.longest.get(index).map_or(length, |&longest| longest.max(length))).collect()
    }
}

/// The sizes of a request whose rows are as long as the longest of its batch.
struct Longest<'a> {
    joining: &'a BatchRules,
    inputs: &'a Inputs,
    longest: &'a Lengths,
}

impl Sizes for Longest<'_> {
    fn size(&self, dim: Dim) -> u64 {
        let place = self.joining.inputs.iter().position(|input| *input == dim.input).filter(|_| dim.axis == 0);
        place.and_then(|place| self.longest.get(place)).map_or_else(|| self.inputs.size(dim), |&length| length as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::Window;

    #[test]
    fn a_window_is_bounded_by_edges_or_by_a_ratio() {
        let edges = Window::Edges(vec![4, 8]);
        let near = |window: &Window, first, lengths: &[usize]| -> Vec<usize> {
            lengths.iter().copied().filter(|&length| window.admits(first, length)).collect()
        };
        assert_eq!(near(&edges, 4, &[0, 1, 4, 5]), [0, 1, 4]);
        assert_eq!(near(&edges, 5, &[4, 5, 8, 9]), [5, 8]);
        assert_eq!(near(&edges, 9, &[8, 9, 1000]), [9, 1000]);
        let ratio = Window::Ratio(1.5);
        assert_eq!(near(&ratio, 6, &[3, 4, 6, 9, 10]), [4, 6, 9]);
        assert_eq!(near(&ratio, 0, &[0, 1, 2]), [0, 1]);
    }
}
