//! OpenAPI 3.1 document of a server, from its models' declarations, generated on request.

mod document;
mod example;
mod formats;
mod generate;
mod infer_schemas;
mod model;
mod model_routes;
mod names;
mod plain;
mod raw_model;
mod responses;
mod routes;
mod site;
mod tensor;
mod v1;

pub use document::document;
pub use routes::{Gives, Route, Tag, Takes};
pub use site::{RequestLimits, ServedModel, ServerDescription};
