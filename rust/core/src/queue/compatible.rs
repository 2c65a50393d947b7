//! Which requests may share a batch, beside its rows: by what they cost together, and by how long their rows are.

use super::pending::Pending;
use crate::{Dim, Inputs, ModelSpec, Ragged, RowCost, Window, request::Lengths, spec::Sizes};

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
        self.joining.cost.as_ref().is_some_and(|cost| self.cost_with(cost, pending) > cost.max_cost)
    }

    /// Whether they cost all that they may.
    pub(crate) fn is_full(&self) -> bool {
        self.joining.cost.as_ref().is_some_and(|cost| self.cost >= cost.max_cost)
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
