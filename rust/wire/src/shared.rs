//! Tensors in shared memory. A request only names them: who has the memory reads the inputs, calls
//! [`Decoded::fill`], and writes the outputs once they are computed.

use crate::Decoded;
use penstock_core::{
    AlignedBuffer, Buffer, Datatype, DecodedInput, Error, InferRequest, Kind, ModelSpec, Parameter, Protocol, Result,
    Shape, Tensor, TensorSpec, byte_size,
};

/// A part of a region that a client has registered. Nothing is known of the region here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// The region's name.
    pub region: String,
    /// Where in the region it begins.
    pub offset: u64,
    /// Its bytes: those of an input, or the most that an output may have.
    pub size: usize,
}

/// An input whose elements are in shared memory. Its shape fits its model, and its bytes its shape.
#[derive(Clone, Debug)]
pub struct SharedInput {
    /// Its declaration index.
    pub index: usize,
    /// The type of its elements.
    pub datatype: Datatype,
    /// Its shape.
    pub shape: Shape,
    /// Where its elements are.
    pub span: Span,
}

/// An output whose elements go to shared memory.
#[derive(Clone, Debug)]
pub struct SharedOutput {
    /// Its declaration index.
    pub index: usize,
    /// Where its elements go.
    pub span: Span,
}

/// The tensors of a request that are in shared memory.
#[derive(Clone, Debug, Default)]
pub struct Shared {
    /// Those to read before the request is whole.
    pub inputs: Vec<SharedInput>,
    /// Those to write before it is answered.
    pub outputs: Vec<SharedOutput>,
}

impl Decoded {
    /// Puts the inputs in shared memory into the request, and checks it as a whole. `read` gets the
    /// bytes of one: exactly as many as its span has.
    ///
    /// # Errors
    /// What `read` returns, with the input's name before it; `InvalidInput` for broken BYTES framing and
    /// for inputs that are not what the model takes together.
    pub fn fill(
        &mut self,
        spec: &ModelSpec,
        mut read: impl FnMut(&SharedInput) -> Result<AlignedBuffer>,
    ) -> Result<()> {
        let Some(shared) = self.shared.as_mut().filter(|shared| !shared.inputs.is_empty()) else { return Ok(()) };
        for input in std::mem::take(&mut shared.inputs) {
            let named = |error: Error| {
                Error::new(error.kind(), format!("input '{}': {}", spec.inputs[input.index].name, error.message()))
            };
            let buffer = Buffer::Aligned(read(&input).map_err(named)?);
            let tensor = Tensor::new(input.datatype, input.shape, buffer).map_err(named)?;
            self.request.inputs[input.index] = Some(tensor);
        }
        self.request.check(spec)
    }
}

/// A request of those inputs; one with inputs in shared memory is checked as a whole when they are there.
pub(crate) fn request(
    spec: &ModelSpec,
    own: impl IntoIterator<Item = DecodedInput>,
    shared: &[SharedInput],
    protocol: Protocol,
) -> Result<InferRequest> {
    if shared.is_empty() {
        return InferRequest::assemble(spec, own, protocol);
    }
    let request = InferRequest::place(spec, own, protocol)?;
    for (position, input) in shared.iter().enumerate() {
        // Before any is read: a region may be named many times by a small request.
        let earlier = shared[..position].iter().any(|earlier| earlier.index == input.index);
        if earlier || request.inputs[input.index].is_some() {
            return Err(Error::invalid(format!("input '{}' is given twice", spec.inputs[input.index].name)));
        }
    }
    Ok(request)
}

/// What a request has of shared memory, boxed; `None` for most.
pub(crate) fn boxed(inputs: Vec<SharedInput>, outputs: Vec<SharedOutput>) -> Option<Box<Shared>> {
    (!inputs.is_empty() || !outputs.is_empty()).then(|| Box::new(Shared { inputs, outputs }))
}

/// The size that `parameter` gives must be what the shape takes; of BYTES any will do.
pub(crate) fn check_size(
    input: &TensorSpec,
    datatype: Datatype,
    shape: &[usize],
    (parameter, size): (&str, usize),
) -> Result<()> {
    match byte_size(datatype, shape)? {
        Some(expected) if expected != size => Err(Error::invalid(format!(
            "input '{}' has '{parameter}' {size}, datatype {datatype} and shape {shape:?} take {expected}",
            input.name
        ))),
        _ => Ok(()),
    }
}

/// The name of the parameter that gives a span's size.
pub(crate) const SIZE: &str = "shared_memory_byte_size";

/// The parameters of a span, in whatever order they come.
#[derive(Clone, Debug, Default)]
pub(crate) struct SpanParameters {
    region: Option<String>,
    offset: Option<u64>,
    size: Option<u64>,
}

impl SpanParameters {
    /// Whether a parameter is one of these.
    pub(crate) fn has(name: &str) -> bool {
        name.starts_with("shared_memory_")
    }

    /// Takes the parameter of that name.
    ///
    /// # Errors
    /// `InvalidInput` for a value of the wrong type; `Unsupported` if shared memory is not `allowed`.
    pub(crate) fn take(&mut self, name: &str, value: Parameter, allowed: bool) -> Result<()> {
        if !allowed {
            return Err(Error::new(
                Kind::Unsupported,
                format!(
                    "parameter '{name}': shared memory is for inference without server-sent events, where the server allows it"
                ),
            ));
        }
        match (name, value) {
            ("shared_memory_region", Parameter::String(region)) => self.region = Some(region),
            ("shared_memory_region", _) => {
                return Err(Error::invalid(format!("parameter '{name}' must be a string, a region's name")));
            }
            ("shared_memory_offset", value) => self.offset = Some(unsigned(name, &value)?),
            (SIZE, value) => self.size = Some(unsigned(name, &value)?),
            _ => {}
        }
        Ok(())
    }

    /// The span of these parameters; `None` without any.
    ///
    /// # Errors
    /// `InvalidInput` when only some of them are there.
    pub(crate) fn finish(self) -> Result<Option<Span>> {
        let (region, size) = match (self.region, self.size) {
            (Some(region), Some(size)) => (region, size),
            (None, None) if self.offset.is_none() => return Ok(None),
            (Some(_), None) => return Err(alone("shared_memory_region", SIZE)),
            (None, Some(_)) => return Err(alone(SIZE, "shared_memory_region")),
            (None, None) => return Err(alone("shared_memory_offset", "shared_memory_region")),
        };
        let size = usize::try_from(size).map_err(|_| Error::invalid(format!("'{SIZE}' is too large")))?;
        Ok(Some(Span { region, offset: self.offset.unwrap_or(0), size }))
    }
}

fn alone(given: &str, missing: &str) -> Error {
    Error::invalid(format!("'{given}' is given without '{missing}'"))
}

fn unsigned(name: &str, value: &Parameter) -> Result<u64> {
    match *value {
        Parameter::Uint(value) => Some(value),
        Parameter::Int(value) => u64::try_from(value).ok(),
        _ => None,
    }
    .ok_or_else(|| Error::invalid(format!("parameter '{name}' must be an integer of 0 or more")))
}
