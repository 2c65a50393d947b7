//! One inference request, as plain data of no protocol.

use super::{Headers, Parameters, RawRequest, RequestContext, Schedule};
use crate::{Error, Inputs, ModelSpec, Result, Tensor, bytes_tensor, names};
use std::time::Instant;

/// Which door a request came through.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// REST, JSON or binary.
    Http,
    /// gRPC.
    Grpc,
    /// A call in this process, without a socket.
    InProcess,
}

impl Protocol {
    /// The label in metrics and logs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Grpc => "grpc",
            Self::InProcess => "inprocess",
        }
    }
}

/// What the caller sent beside tensors. Collected only for handlers that ask for it.
#[derive(Clone, Debug, Default)]
pub struct RequestMetadata {
    /// The request's id, empty if it has none.
    pub id: String,
    /// Custom parameters; the reserved ones are taken out.
    pub parameters: Parameters,
    /// Header names in lower case, and values that are text.
    pub headers: Headers,
    /// The outputs that it asked for, by declaration index; `None` for all.
    pub outputs: Option<Box<[usize]>>,
}

/// A decoded request, checked against its model.
#[derive(Debug)]
pub struct InferRequest {
    /// The inputs, by declaration index.
    pub inputs: Inputs,
    /// The size of the batch axis; 1 for models without one.
    pub rows: usize,
    /// What else the caller sent; `None` when the handler does not ask.
    pub metadata: Option<Box<RequestMetadata>>,
    /// When the answer is worth nothing any more.
    pub deadline: Option<Instant>,
    /// Which door it came through.
    pub protocol: Protocol,
    /// Its priority, and its place in a sequence.
    pub schedule: Schedule,
    /// Its caller takes over the memory of outputs that are its own alone; others are shared, so that they can be sent.
    pub takes_ownership: bool,
    /// Who it is; `None` when nobody asks.
    pub context: Option<Box<RequestContext>>,
    /// What an open model is told; `None` for any other.
    pub raw: Option<Box<RawRequest>>,
}

/// An input as a protocol hands it over, once its bytes are in place.
pub type DecodedInput = (usize, Tensor);

impl InferRequest {
    /// Puts decoded inputs in declaration order and checks them together.
    ///
    /// # Errors
    /// `InvalidInput` for a duplicate, a missing required input, or batch axes that disagree.
    pub fn assemble(
        spec: &ModelSpec,
        decoded: impl IntoIterator<Item = DecodedInput>,
        protocol: Protocol,
    ) -> Result<Self> {
        let mut request = Self::place(spec, decoded, protocol)?;
        request.check(spec)?;
        Ok(request)
    }

    /// As [`InferRequest::assemble`], for inputs of which some are put in later. What may be missing is
    /// for [`InferRequest::check`] to say, once they are all there.
    ///
    /// # Errors
    /// `InvalidInput` for a duplicate.
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

    /// Checks the inputs together, and counts their rows.
    ///
    /// # Errors
    /// `InvalidInput` for a missing required input, or batch axes that disagree.
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

/// Text is checked here, where the mistake is still one caller's and not a whole batch's.
fn check_text(name: &str, tensor: &Tensor) -> Result<()> {
    match bytes_tensor::elements(tensor.as_slice()).position(|element| std::str::from_utf8(element).is_err()) {
        None => Ok(()),
        Some(index) => Err(Error::invalid(format!("input '{name}': element {index} is not valid UTF-8 text"))),
    }
}
