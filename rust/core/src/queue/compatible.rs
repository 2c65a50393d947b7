//! Compatibility of requests in one batch: the cost limit and the length window.

use super::pending::Pending;
use crate::{Dim, Inputs, ModelSpec, Ragged, RowCost, Window, request::Lengths, spec::Sizes};

/// Rules of a model.
#[derive(Debug)]
pub(crate) struct BatchRules {
    cost: Option<RowCost>,
    window: Option<Window>,
    /// Indices of the ragged inputs.
    inputs: Vec<usize>,
    /// An input is padded to its longest row.
    fills: bool,
}

/// A batch under construction.
#[derive(Debug)]
pub(crate) struct CandidateBatch<'a> {
    rules: &'a BatchRules,
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

    /// Returns true if the cost of a batch is limited.
    pub(crate) fn has_cost(&self) -> bool {
        self.cost.is_some()
    }

    /// An empty batch.
    pub(crate) fn none(&self) -> CandidateBatch<'_> {
        CandidateBatch { rules: self, rows: 0, cost: 0, first: None, longest: Lengths::new() }
    }
}

impl CandidateBatch<'_> {
    /// Returns true if the request's row lengths fit the first request's.
    pub(crate) fn in_window(&self, pending: &Pending) -> bool {
        let (Some(window), Some(first)) = (&self.rules.window, &self.first) else { return true };
        first.iter().zip(&pending.lengths).all(|(&first, &length)| window.admits(first, length))
    }

    /// Returns true if the batch would exceed the maximum cost with this request.
    pub(crate) fn is_full_for(&self, pending: &Pending) -> bool {
        self.rules.cost.as_ref().is_some_and(|cost| self.cost_with(cost, pending) > cost.max_cost)
    }

    /// Returns true if the batch has the maximum cost.
    pub(crate) fn is_full(&self) -> bool {
        self.rules.cost.as_ref().is_some_and(|cost| self.cost >= cost.max_cost)
    }

    /// Cost of the batch, if rows have a cost.
    pub(crate) fn cost(&self) -> Option<u64> {
        self.rules.cost.as_ref().map(|_| self.cost)
    }

    pub(crate) fn add(&mut self, pending: &Pending) {
        if let Some(cost) = &self.rules.cost {
            self.cost = self.cost_with(cost, pending);
        }
        if !pending.lengths.is_empty() {
            self.longest = self.longest_with(pending);
            self.first.get_or_insert_with(|| pending.lengths.clone());
        }
        self.rows += pending.request.rows as u64;
    }

    /// Cost with this request. Padded rows cost as much as the longest row.
    fn cost_with(&self, cost: &RowCost, pending: &Pending) -> u64 {
        if !self.rules.fills {
            return self.cost.saturating_add(pending.cost);
        }
        let longest = self.longest_with(pending);
        let row = cost.of_sizes(&Longest { rules: self.rules, inputs: &pending.request.inputs, longest: &longest });
        row.saturating_mul(self.rows + pending.request.rows as u64)
    }

    fn longest_with(&self, pending: &Pending) -> Lengths {
        let own = pending.lengths.iter().enumerate();
        own.map(|(index, &length)| self.longest.get(index).map_or(length, |&longest| longest.max(length))).collect()
    }
}

/// Dimensions of a request whose rows are padded to the longest of the batch.
struct Longest<'a> {
    rules: &'a BatchRules,
    inputs: &'a Inputs,
    longest: &'a Lengths,
}

impl Sizes for Longest<'_> {
    fn size(&self, dim: Dim) -> u64 {
        let place = self.rules.inputs.iter().position(|input| *input == dim.input).filter(|_| dim.axis == 0);
        place.and_then(|place| self.longest.get(place)).map_or_else(|| self.inputs.size(dim), |&length| length as u64)
    }
}
