//! The server's description of itself as an OpenAPI 3.1 document, made from its models' declarations.
//!
//! Nothing here is on a request's way; a document is made when it is asked for.

mod document;
mod example;
mod formats;
mod generate;
mod infer_schemas;
mod model;
mod model_routes;
mod names;
mod raw_model;
mod responses;
mod routes;
mod site;
mod tensor;
mod v1;

pub use document::document;
pub use routes::{Gives, Route, Tag, Takes};
pub use site::{RequestLimits, ServedModel, ServerDescription};
