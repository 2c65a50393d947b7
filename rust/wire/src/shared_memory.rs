//! Tensors in shared memory. A request only names them: the server reads the inputs and calls
//! [`crate::DecodedRequest::fill`], and writes the outputs once they are computed.

use penstock_core::{
    Datatype, DecodedInput, Error, InferRequest, ModelSpec, Protocol, Result, Shape, TensorSpec, byte_size,
};

/// A part of a region that a client has registered. Nothing is known of the region here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegionSlice {
    /// The region's name.
    pub region: String,
    /// Start in the region, in bytes.
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
    /// Location of the elements.
    pub span: RegionSlice,
}

/// An output whose elements go to shared memory.
#[derive(Clone, Debug)]
pub struct SharedOutput {
    /// Its declaration index.
    pub index: usize,
    /// Destination of the elements.
    pub span: RegionSlice,
}

/// The tensors of a request that are in shared memory.
#[derive(Clone, Debug, Default)]
pub struct SharedTensors {
    /// Those to read before the request is whole.
    pub inputs: Vec<SharedInput>,
    /// Outputs to write before the response.
    pub outputs: Vec<SharedOutput>,
}

/// Assembles a request. One with inputs in shared memory is checked as a whole when they are read.
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

/// Boxes the shared tensors of a request; `None` for most.
pub(crate) fn boxed(inputs: Vec<SharedInput>, outputs: Vec<SharedOutput>) -> Option<Box<SharedTensors>> {
    (!inputs.is_empty() || !outputs.is_empty()).then(|| Box::new(SharedTensors { inputs, outputs }))
}

/// Checks that the size in `parameter` is the shape's; BYTES have any size.
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
