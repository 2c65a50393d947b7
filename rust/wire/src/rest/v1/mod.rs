//! KServe's V1 protocol, which is TensorFlow Serving's: a list of instances, or the inputs as a whole.

mod column;
mod decode;
mod encode;
mod table;
#[cfg(test)]
mod tests;

pub use decode::{Form, PredictRequest, decode, has_instances};
pub use encode::encode;
