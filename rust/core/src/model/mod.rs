//! Models, and the table of all of them.

mod changes;
mod dialect;
mod handover;
mod index;
mod infer;
mod model;
mod registry;
mod routes;

pub use self::{
    changes::Changes,
    dialect::Dialect,
    index::{IndexEntry, VersionState, VersionStatus},
    model::{Model, Readiness},
    registry::Registry,
    routes::RouteMatch,
};
