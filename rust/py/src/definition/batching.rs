//! `penstock.Batching` read into core's.

use crate::convert::record::{attribute, read_record};
use penstock_core::{Batching, Dim, Oversize, Padding, RowCost, TensorSpec, Term, Window};
use pyo3::prelude::*;

/// Boundaries, or a ratio.
#[derive(FromPyObject)]
enum DeclaredWindow {
    Edges(Vec<usize>),
    Ratio(f64),
}

/// The terms of a `Cost`: for each a factor, and names of inputs with axes.
#[derive(FromPyObject)]
struct DeclaredCost {
    terms: Vec<(u64, Vec<(String, usize)>)>,
}

/// Reads a `Batching`. Python has checked it against the inputs.
pub(super) fn read(object: &Bound<'_, PyAny>, inputs: &[TensorSpec]) -> PyResult<Batching> {
    let max_cost: Option<u64> = attribute(object, "max_cost")?;
    let cost = |declared: Option<DeclaredCost>| {
        declared.map(|declared| row_cost(declared, max_cost.unwrap_or(u64::MAX), inputs))
    };
    let window = |declared: Option<DeclaredWindow>| {
        declared.map(|window| match window {
            DeclaredWindow::Edges(edges) => Window::Edges(edges),
            DeclaredWindow::Ratio(ratio) => Window::Ratio(ratio),
        })
    };
    let nanoseconds = |seconds: f64| (seconds.max(0.0) * 1e9) as u64;
    let optional_nanoseconds = |seconds: Option<f64>| seconds.map(nanoseconds);
    Ok(read_record!(object, Batching {
        max_size => |size: usize| size.max(1),
        dynamic,
        max_delay_ns: "max_delay" => nanoseconds,
        preferred_sizes,
        hold,
        oversize => |mode: String| if mode == "split" { Oversize::Split } else { Oversize::Refuse },
        sizes,
        padding: "pad" => |mode: String| if mode == "zeros" { Padding::Zeros } else { Padding::Repeat },
        retry_on_oom,
        cost => cost,
        target_ns: "target_p99" => optional_nanoseconds,
        reject_late,
        max_duration_ns: "max_duration" => optional_nanoseconds,
        window => window
    }))
}

/// The cost of a row by its terms. Python has checked that the inputs exist.
fn row_cost(declared: DeclaredCost, max_cost: u64, inputs: &[TensorSpec]) -> RowCost {
    let dim = |(name, axis): (String, usize)| {
        Some(Dim { input: inputs.iter().position(|input| *input.name == *name)?, axis })
    };
    let term = |(factor, axes): (u64, Vec<_>)| Term { factor, dims: axes.into_iter().filter_map(dim).collect() };
    RowCost { terms: declared.terms.into_iter().map(term).collect(), max_cost }
}
