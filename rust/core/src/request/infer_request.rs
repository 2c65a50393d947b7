//! Requests.

use super::{ClientIdentity, Headers, Parameters, RawRequest, RequestContext, Schedule};
use crate::{Error, Inputs, ModelSpec, Result, Tensor, bytes_tensor, names};
use std::{sync::Arc, time::Instant};

/// Protocol of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// REST, JSON or binary.
    Http,
    /// gRPC.
    Grpc,
    /// Call within this process, without a socket.
    InProcess,
}

impl Protocol {
    /// Label in metrics and logs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Grpc => "grpc",
            Self::InProcess => "inprocess",
        }
    }
}

/// Metadata of a request. Collected only for handlers that read it.
#[derive(Clone, Debug, Default)]
pub struct RequestMetadata {
    /// Request id; empty if there is none.
    pub id: String,
    /// Custom parameters, without the reserved ones.
    pub parameters: Parameters,
    /// Headers with names in lower case and text values.
    pub headers: Headers,
    /// The client; `None` for calls by handlers that have none.
    pub client: Option<Arc<ClientIdentity>>,
    /// Indices of the requested outputs; `None` for all.
    pub outputs: Option<Box<[usize]>>,
}

/// A decoded request, checked against the model's declaration.
#[derive(Debug)]
pub struct InferRequest {
    /// Inputs by index.
    pub inputs: Inputs,
    /// Size of the batch axis; 1 without one.
    pub rows: usize,
    /// Metadata; `None` unless the handler reads it.
    pub metadata: Option<Box<RequestMetadata>>,
    /// Time after which the response is useless.
    pub deadline: Option<Instant>,
    /// Protocol.
    pub protocol: Protocol,
    /// Priority, sequence, client.
    pub schedule: Schedule,
    /// Moves outputs to the client that have no other owner. Otherwise outputs are shared, to be sent.
    pub takes_ownership: bool,
    /// Id and trace for logs and spans; `None` unless enabled.
    pub context: Option<Box<RequestContext>>,
    /// Undeclared parts, for raw-request models.
    pub raw: Option<Box<RawRequest>>,
}

/// A decoded input: its index and its tensor.
pub type DecodedInput = (usize, Tensor);

impl InferRequest {
    /// Orders and checks decoded inputs.
    ///
    /// # Errors
    /// `InvalidInput`: a duplicate, a missing required input, or batch axes that disagree.
    pub fn assemble(
        spec: &ModelSpec,
        decoded: impl IntoIterator<Item = DecodedInput>,
        protocol: Protocol,
    ) -> Result<Self> {
        let mut request = Self::place(spec, decoded, protocol)?;
        request.check(spec)?;
        Ok(request)
    }

    /// Orders decoded inputs of which some are filled in later. [`InferRequest::check`] then checks all of them.
    ///
    /// # Errors
    /// `InvalidInput`: a duplicate.
    pub fn place(
        spec: &ModelSpec,
        decoded: impl IntoIterator<Item = DecodedInput>,
        protocol: Protocol,
    ) -> Result<Self> {
        let mut inputs: Inputs = std::iter::repeat_with(|| None).take(spec.inputs.len()).collect();
        for (index, tensor) in decoded {
            if inputs[index].replace(tensor).is_some() {
                return Err(Error::invalid(format!("input '{}' is given twice", spec.inputs[index].name)));
            }
        }
        Ok(Self {
            inputs,
            rows: 1,
            metadata: None,
            deadline: None,
            protocol,
            schedule: Schedule::default(),
            takes_ownership: false,
            context: None,
            raw: None,
        })
    }

    /// Checks the inputs together, and sets the number of rows.
    ///
    /// # Errors
    /// `InvalidInput`: a missing required input, or batch axes that disagree.
    pub fn check(&mut self, spec: &ModelSpec) -> Result<()> {
        let mut rows = None;
        for (declared, input) in spec.inputs.iter().zip(&self.inputs) {
            let Some(tensor) = input else {
                if declared.optional {
                    continue;
                }
                return Err(Error::invalid(format!(
                    "input '{}' is missing, model '{}' expects {}",
                    declared.name,
                    spec.name,
                    names(&spec.inputs)
                )));
            };
            if declared.text {
                check_text(&declared.name, tensor)?;
            }
            if spec.batching.is_none() {
                continue;
            }
            let first = tensor.shape()[0];
            if *rows.get_or_insert(first) != first {
                return Err(Error::invalid(format!(
                    "input '{}' has a batch of {first} rows, the inputs before it have {}",
                    declared.name,
                    rows.unwrap_or(0)
                )));
            }
        }
        self.rows = rows.unwrap_or(1);
        Ok(())
    }
}

/// Checks UTF-8 per request: in a batch, one client's mistake would fail all clients.
fn check_text(name: &str, tensor: &Tensor) -> Result<()> {
    match bytes_tensor::elements(tensor.as_slice()).position(|element| std::str::from_utf8(element).is_err()) {
        None => Ok(()),
        Some(index) => Err(Error::invalid(format!("input '{name}': element {index} is not valid UTF-8 text"))),
    }
}
