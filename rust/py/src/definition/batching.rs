//! `penstock.Batching` read into core's.

use penstock_core::{Batching, Dim, Oversize, Padding, RowCost, TensorSpec, Term, Window};
use pyo3::prelude::*;

/// The fields of `Batching`.
#[derive(Debug, FromPyObject)]
pub(crate) struct DeclaredBatching {
    max_size: usize,
    dynamic: bool,
    max_delay: f64,
    preferred_sizes: Vec<usize>,
    oversize: String,
    hold: bool,
    sizes: Vec<usize>,
    pad: String,
    retry_on_oom: bool,
    cost: Option<DeclaredCost>,
    window: Option<DeclaredWindow>,
    target_p99: Option<f64>,
    reject_late: bool,
    max_duration: Option<f64>,
    max_cost: Option<u64>,
}

/// Boundaries, or a ratio.
#[derive(Debug, FromPyObject)]
enum DeclaredWindow {
    Edges(Vec<usize>),
    Ratio(f64),
}

/// The field of `Cost`: for each term a number, and inputs with their axes.
#[derive(Debug, FromPyObject)]
struct DeclaredCost {
    terms: Vec<(u64, Vec<(String, usize)>)>,
}

impl DeclaredBatching {
    /// As the server keeps it. Python has checked it against the inputs.
    pub(crate) fn read(self, inputs: &[TensorSpec]) -> Batching {
        let declared = self;
        let cost = declared.cost.map(|cost| row_cost(cost, declared.max_cost.unwrap_or(u64::MAX), inputs));
        Batching {
            max_size: declared.max_size.max(1),
            dynamic: declared.dynamic,
            max_delay_ns: (declared.max_delay.max(0.0) * 1e9) as u64,
            preferred_sizes: declared.preferred_sizes,
            hold: declared.hold,
            oversize: if declared.oversize == "split" { Oversize::Split } else { Oversize::Refuse },
            sizes: declared.sizes,
            padding: if declared.pad == "zeros" { Padding::Zeros } else { Padding::Repeat },
            retry_on_oom: declared.retry_on_oom,
            cost,
            target_ns: declared.target_p99.map(|target| (target * 1e9) as u64),
            reject_late: declared.reject_late,
            max_duration_ns: declared.max_duration.map(|duration| (duration * 1e9) as u64),
            window: declared.window.map(|window| match window {
                DeclaredWindow::Edges(edges) => Window::Edges(edges),
                DeclaredWindow::Ratio(ratio) => Window::Ratio(ratio),
            }),
        }
    }
}

/// Python has checked that the inputs are there.
fn row_cost(declared: DeclaredCost, most: u64, inputs: &[TensorSpec]) -> RowCost {
    let dim = |(name, axis): (String, usize)| {
        Some(Dim { input: inputs.iter().position(|input| *input.name == *name)?, axis })
    };
    let term = |(times, axes): (u64, Vec<_>)| Term { factor: times, dims: axes.into_iter().filter_map(dim).collect() };
    RowCost { terms: declared.terms.into_iter().map(term).collect(), max_cost: most }
}
