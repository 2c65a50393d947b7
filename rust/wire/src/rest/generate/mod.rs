//! The generate extension: one flat JSON object each way, in which a model's tensors and a request's
//! parameters are members.

mod decode;
mod encode;

pub use decode::{GenerateRequest, decode, is_infer};
pub use encode::{Form, Writer, error_event};
