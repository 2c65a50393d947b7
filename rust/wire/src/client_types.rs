//! Inference request and response as a client has them.

use penstock_core::{Error, Kind, Parameters, Tensor};
use smallvec::SmallVec;

/// Parameter of a tensor that names the form of its elements.
pub(crate) const CONTENT_TYPE: &str = "content_type";
/// Its value for JSON documents.
pub(crate) const JSON: &str = "application/json";

/// A tensor and its name.
#[derive(Clone, Debug)]
pub struct NamedTensor {
    /// The input's or output's name.
    pub name: String,
    /// Its elements.
    pub tensor: Tensor,
}

/// An inference request of a client.
#[derive(Clone, Debug, Default)]
pub struct ClientRequest {
    /// The model's name.
    pub model: String,
    /// One version; empty lets the server choose.
    pub version: String,
    /// The request's id, empty for none.
    pub id: String,
    /// The inputs, in any order.
    pub inputs: SmallVec<[NamedTensor; 2]>,
    /// The names of the outputs wanted; none means all.
    pub outputs: Vec<String>,
    /// The request's parameters.
    pub parameters: Parameters,
}

/// A server's response.
#[derive(Clone, Debug, Default)]
pub struct ClientResponse {
    /// The model's name.
    pub model: String,
    /// Version that computed it; empty if the server does not report it.
    pub version: String,
    /// The request's id, empty for none.
    pub id: String,
    /// Parameters of the response.
    pub parameters: Parameters,
    /// The outputs, in the server's order.
    pub outputs: SmallVec<[NamedTensor; 2]>,
    /// Names of the outputs whose elements are JSON documents: their parameter `content_type` says so.
    pub documents: Vec<String>,
}

impl ClientResponse {
    /// The value of a parameter of type bool.
    pub fn flag(&self, name: &str) -> Option<bool> {
        self.parameters.iter().find_map(|(known, value)| match value {
            penstock_core::Parameter::Bool(value) if known == name => Some(*value),
            _ => None,
        })
    }
}

/// Turns an error of the decoders, whose texts are about requests, into one about a server's response.
#[cold]
pub(crate) fn response_error(error: &Error) -> Error {
    let text = error
        .message()
        .replace("request JSON", "its JSON")
        .replace("input '", "output '")
        .replace("the request has", "it has")
        .replace("raw_input_contents", "raw_output_contents");
    Error::new(Kind::Internal, format!("the server's answer does not follow the protocol: {text}"))
}
