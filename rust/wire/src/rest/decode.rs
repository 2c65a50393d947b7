//! Decodes infer requests: the JSON at once, the tensors after it as they arrive.

use super::{
    head::Head,
    input::{Input, Inputs},
};
use crate::{Decoded, Limits};
use penstock_core::{
    AnswerPlan, Buffer, CallerInfo, Datatype, Error, InferRequest, ModelSpec, Protocol, Result, Shape,
    Tensor, TensorSpec, aligned_with_capacity, bytes_tensor,
};
use smallvec::SmallVec;
use std::time::Duration;

/// A request whose JSON is read and whose tensors may still be on their way.
#[derive(Debug)]
pub struct Decoder<'s> {
    spec: &'s ModelSpec,
    inputs: Inputs,
    /// The first input that may want bytes.
    current: usize,
    plan: AnswerPlan,
    caller: Option<Box<CallerInfo>>,
    timeout: Option<Duration>,
}

/// Reads the JSON of an infer request, and makes room for the `tail_len` bytes after it.
///
/// Elements in the JSON are written to their tensors now.
///
/// ```
/// use penstock_core::{Datatype, ModelSpec, TensorSpec};
/// use penstock_wire::{Limits, rest};
///
/// let tensor = TensorSpec { name: "x".into(), datatype: Datatype::Fp32, dims: vec![None], optional: false, text: false };
/// let spec = ModelSpec {
///     name: "m".into(), version: "1".into(), platform: "".into(), inputs: vec![tensor.clone()], outputs: vec![tensor],
///     batching: None, max_queue: 1, instances: 1, wants_context: false,
/// };
/// let json = br#"{"inputs":[{"name":"x","datatype":"FP32","shape":[2],"data":[1,2.5]}]}"#;
/// let decoded = rest::begin(&spec, json, 0, &Limits::default())?.finish()?;
/// let tensor = decoded.request.inputs[0].as_ref().unwrap();
/// assert_eq!(tensor.as_slice(), [1_f32.to_le_bytes(), 2.5_f32.to_le_bytes()].concat());
/// # Ok::<(), penstock_core::Error>(())
/// ```
///
/// # Errors
/// `InvalidInput` that names the tensor, or the byte where the JSON is wrong; `Unsupported` for an
/// extension that this server does not have.
pub fn begin<'s>(spec: &'s ModelSpec, json: &[u8], tail_len: usize, limits: &Limits) -> Result<Decoder<'s>> {
    let mut head = Head::new(spec, limits);
    head.read(json)?;
    check_tail(&head.inputs, tail_len)?;
    for input in head.inputs.iter_mut().filter(|input| input.missing > 0) {
        input.buffer = aligned_with_capacity(input.missing);
    }
    let caller = head.take_caller();
    Ok(Decoder { spec, inputs: head.inputs, current: 0, plan: head.plan, caller, timeout: head.parameters.timeout })
}

/// Makes room for a request whose `body_len` bytes are the only input's data, with no JSON.
///
/// # Errors
/// `InvalidInput` for a model with more inputs, or one whose input's shape does not follow from
/// `body_len`.
pub fn begin_raw(spec: &ModelSpec, body_len: usize) -> Result<Decoder<'_>> {
    let [declared] = spec.inputs.as_slice() else {
        return Err(Error::invalid(format!(
            "a raw request is for models with one input, model '{}' has {}",
            spec.name,
            spec.inputs.len()
        )));
    };
    let mut shape = Shape::new();
    if spec.batching.is_some() {
        shape.push(1);
    }
    shape.extend(raw_row(declared, body_len)?);
    spec.check_input(0, declared.datatype, &shape)?;
    let datatype = declared.datatype;
    let mut buffer = aligned_with_capacity(bytes_tensor::PREFIX + body_len);
    if datatype == Datatype::Bytes {
        // The one element comes without the length that lies before elements everywhere else.
        buffer.extend_from_slice(&bytes_tensor::prefix(body_len)?);
    }
    let input = Input { index: 0, datatype, shape, buffer, missing: body_len };
    Ok(Decoder {
        spec,
        inputs: Inputs::from_iter([input]),
        current: 0,
        plan: AnswerPlan { binary: true, ..AnswerPlan::default() },
        caller: spec.wants_context.then(Box::default),
        timeout: None,
    })
}

impl Decoder<'_> {
    /// Takes the next bytes after the JSON, in pieces of any size. They are copied once, to where
    /// they stay.
    ///
    /// # Errors
    /// `InvalidInput` when there are more than were announced.
    pub fn write(&mut self, mut chunk: &[u8]) -> Result<()> {
        while !chunk.is_empty() {
            let Some(input) = self.inputs.get_mut(self.current) else {
                return Err(Error::invalid(format!("{} bytes follow the last binary input", chunk.len())));
            };
            let (own, rest) = chunk.split_at(chunk.len().min(input.missing));
            input.buffer.extend_from_slice(own);
            input.missing -= own.len();
            chunk = rest;
            self.current += usize::from(input.missing == 0);
        }
        Ok(())
    }

    /// The request, once all bytes are there.
    ///
    /// # Errors
    /// `InvalidInput` when bytes are missing, BYTES framing is broken, or the inputs are not what the
    /// model takes.
    pub fn finish(self) -> Result<Decoded> {
        let spec = self.spec;
        let mut tensors: SmallVec<[(usize, Tensor); 2]> = SmallVec::new();
        for input in self.inputs {
            tensors.push((input.index, input.finish(spec)?));
        }
        let mut request = InferRequest::assemble(spec, tensors, Protocol::Http)?;
        request.caller = self.caller;
        Ok(Decoded { request, plan: self.plan, timeout: self.timeout })
    }
}

impl Input {
    fn finish(mut self, spec: &ModelSpec) -> Result<Tensor> {
        let name = &spec.inputs[self.index].name;
        if self.missing > 0 {
            return Err(Error::invalid(format!("the body ends {} bytes before the end of input '{name}'", self.missing)));
        }
        if self.datatype == Datatype::Bool {
            // Any other byte is not a bool to those who read it in place.
            self.buffer.iter_mut().for_each(|byte| *byte = u8::from(*byte != 0));
        }
        Tensor::new(self.datatype, self.shape, Buffer::Aligned(self.buffer))
            .map_err(|error| Error::new(error.kind(), format!("input '{name}': {}", error.message())))
    }
}

/// Checks that the announced sizes are the bytes after the JSON, before room is made for them.
fn check_tail(inputs: &[Input], tail_len: usize) -> Result<()> {
    let mut announced = 0_usize;
    for input in inputs {
        announced = announced
            .checked_add(input.missing)
            .ok_or_else(|| Error::invalid("the sum of 'binary_data_size' is more than can be addressed"))?;
    }
    if announced == tail_len {
        return Ok(());
    }
    Err(Error::invalid(format!("{tail_len} bytes follow the JSON, 'binary_data_size' announces {announced}")))
}

/// The sizes of the axes but the batch's, for a raw body of that length.
fn raw_row(input: &TensorSpec, body_len: usize) -> Result<Shape> {
    let name = &input.name;
    let Some(size) = input.datatype.size() else {
        if input.dims.iter().all(|dim| *dim == Some(1)) {
            return Ok(input.dims.iter().map(|_| 1).collect());
        }
        return Err(Error::invalid(format!("a raw BYTES request is one element, input '{name}' takes more")));
    };
    if input.dims.iter().filter(|dim| dim.is_none()).count() > 1 {
        return Err(Error::invalid(format!("a raw request leaves the shape of input '{name}' open")));
    }
    let known = input.dims.iter().flatten().try_fold(size, |product, &dim| product.checked_mul(dim));
    let row: Shape = match known {
        Some(known) if known > 0 => input.dims.iter().map(|dim| dim.unwrap_or(body_len / known)).collect(),
        _ => input.dims.iter().map(|dim| dim.unwrap_or(0)).collect(),
    };
    match penstock_core::byte_size(input.datatype, &row)? {
        Some(expected) if expected != body_len => Err(Error::invalid(format!(
            "the body has {body_len} bytes, input '{name}' of datatype {} and shape {:?} takes {expected}",
            input.datatype,
            row.as_slice()
        ))),
        _ => Ok(row),
    }
}
