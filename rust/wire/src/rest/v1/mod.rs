//! KServe's V1 protocol, which is TensorFlow Serving's: a list of instances, or the inputs as a whole.

mod decode;
mod encode;
#[cfg(test)]
mod tests;

pub use decode::{Form, PredictRequest, decode, has_instances};
pub use encode::encode;
