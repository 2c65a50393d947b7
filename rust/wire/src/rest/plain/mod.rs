//! Requests and responses in the types of a model's handler: JSON values, form fields and files, without datatypes and
//! shapes.

mod json;
mod parts;

pub(crate) use json::append;
pub use json::{decode, encode};
pub use parts::{Part, bytes_input, decode_parts};

use crate::DecodedRequest;
use penstock_core::{InferRequest, ModelSpec, RequestMetadata, ResponsePlan};

/// Returns a request without id and parameters.
fn decoded(spec: &ModelSpec, mut request: InferRequest) -> DecodedRequest {
    request.metadata = spec.wants_context.then(Box::<RequestMetadata>::default);
    DecodedRequest { request, plan: ResponsePlan::default(), timeout: None, shared: None }
}
