//! Declarations of models. Records only: created once at load, and read by all layers above.

mod batching;
mod model;
mod options;
mod queueing;
mod row_cost;
mod tensor;

pub(crate) use self::row_cost::Sizes;
pub use self::{
    batching::{Batching, Oversize, Padding, Window},
    model::{ModelSpec, VersionPolicy},
    options::{Caching, Fallback, Iterative, ResourceRequest, Sequences},
    queueing::{FairBy, Fairness, Level, Overdue, Queueing},
    row_cost::{Dim, RowCost, Term},
    tensor::{Document, Ragged, TensorSpec, names, shape_text},
};
