//! Models, and the table of all of them.

mod changes;
mod error_texts;
mod handover;
mod index;
mod infer;
mod model;
mod registry;
mod routes;

pub use self::{
    changes::Changes,
    error_texts::ErrorTexts,
    index::{IndexEntry, VersionState, VersionStatus},
    model::{Model, Readiness},
    registry::Registry,
    routes::RouteMatch,
};
