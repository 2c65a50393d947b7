//! Decodes infer requests: the JSON at once, the tensors after it as they arrive.

use super::{
    request_input::{Input, Inputs},
    request_json::RequestJson,
};
use crate::{
    DecodedRequest, Limits,
    request_schema::{RequestSchema, refuse_raw_request_model},
    shared_memory::{self, SharedInput, SharedOutput},
};
use penstock_core::{
    Buffer, Datatype, Error, ModelSpec, Protocol, RequestMetadata, ResponsePlan, Result, Schedule, Shape, Tensor,
    TensorSpec, aligned_with_capacity, bytes_tensor,
    copies::{self, Step},
};
use smallvec::SmallVec;
use std::time::Duration;

/// A request whose JSON is read and whose tensors may still be on their way.
#[derive(Debug)]
pub struct Decoder<'s> {
    schema: RequestSchema<'s>,
    inputs: Inputs,
    /// The first input that may want bytes.
    current: usize,
    plan: ResponsePlan,
    caller: Option<Box<RequestMetadata>>,
    timeout: Option<Duration>,
    schedule: Schedule,
    /// The outputs that go to shared memory.
    outputs: Vec<SharedOutput>,
    /// Inputs follow the JSON.
    binary: bool,
}

/// Reads the JSON of an infer request, and allocates buffers for the `tail_len` bytes after it.
///
/// Elements in the JSON are written to their tensors now.
///
/// ```
/// use penstock_core::{Datatype, ModelSpec, TensorSpec};
/// use penstock_wire::{Limits, rest};
///
/// let tensor = TensorSpec::new("x", Datatype::Fp32, vec![None]);
/// let spec = ModelSpec { inputs: vec![tensor.clone()], outputs: vec![tensor], ..ModelSpec::default() };
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
    let mut head = RequestJson::new(spec, limits);
    head.read(json)?;
    check_tail(&head.inputs, tail_len)?;
    for input in head.inputs.iter_mut().filter(|input| input.missing > 0) {
        input.buffer = aligned_with_capacity(input.missing);
    }
    let caller = head.take_metadata();
    let (timeout, schedule) = (head.parameters.timeout, head.parameters.schedule.finish());
    let (schema, inputs, plan, outputs) = (head.schema, head.inputs, head.plan, head.shared);
    Ok(Decoder { schema, inputs, current: 0, plan, caller, timeout, schedule, outputs, binary: tail_len > 0 })
}

/// Starts a request whose `body_len` bytes are the only input's data, without JSON.
///
/// # Errors
/// `InvalidInput` for a model with more inputs, or one whose input's shape does not follow from
/// `body_len`.
pub fn begin_raw(spec: &ModelSpec, body_len: usize) -> Result<Decoder<'_>> {
    refuse_raw_request_model(spec, "a raw tensor body is not supported")?;
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
        // The element comes without its length prefix.
        buffer.extend_from_slice(&bytes_tensor::prefix(body_len)?);
    }
    let input = Input { index: 0, datatype, shape, buffer, missing: body_len, span: None };
    Ok(Decoder {
        schema: RequestSchema::Model(spec),
        inputs: Inputs::from_iter([input]),
        current: 0,
        plan: ResponsePlan { binary: true, ..ResponsePlan::default() },
        caller: spec.wants_context.then(Box::default),
        timeout: None,
        schedule: Schedule::default(),
        outputs: Vec::new(),
        binary: true,
    })
}

impl Decoder<'_> {
    /// Copies the next bytes after the JSON, in chunks of any size, to their final place.
    ///
    /// # Errors
    /// `InvalidInput` for more bytes than announced.
    pub fn write(&mut self, mut chunk: &[u8]) -> Result<()> {
        copies::count(Step::Receive, chunk.len());
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

    /// Returns the request, once all bytes have arrived.
    ///
    /// # Errors
    /// `InvalidInput` when bytes are missing, BYTES framing is broken, or the inputs do not fit the model.
    pub fn finish(self) -> Result<DecodedRequest> {
        let spec = &*self.schema;
        let mut tensors: SmallVec<[(usize, Tensor); 2]> = SmallVec::new();
        let mut inputs = Vec::new();
        for input in self.inputs {
            match input.span {
                None => tensors.push((input.index, input.finish(spec)?)),
                Some(span) => {
                    let Input { index, datatype, shape, .. } = input;
                    inputs.push(SharedInput { index, datatype, shape, span: *span });
                }
            }
        }
        let mut request = shared_memory::request(spec, tensors, &inputs, Protocol::Http)?;
        request.metadata = self.caller;
        request.schedule = self.schedule;
        request.raw = self.schema.into_raw_request(self.binary);
        let shared = shared_memory::boxed(inputs, self.outputs);
        Ok(DecodedRequest { request, plan: self.plan, timeout: self.timeout, shared })
    }
}

impl Input {
    fn finish(self, spec: &ModelSpec) -> Result<Tensor> {
        let name = &spec.inputs[self.index].name;
        if self.missing > 0 {
            return Err(Error::invalid(format!(
                "the body ends {} bytes before the end of input '{name}'",
                self.missing
            )));
        }
        Tensor::new(self.datatype, self.shape, Buffer::Aligned(self.buffer))
            .map_err(|error| Error::new(error.kind(), format!("input '{name}': {}", error.message())))
    }
}

/// Checks the announced sizes against the bytes after the JSON, before buffers are allocated.
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
        return Err(Error::invalid(format!("a raw request does not determine the shape of input '{name}'")));
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rest::testing::{add, identity, model, tensor};
    use penstock_core::{Datatype, Kind};

    const HEAD: &str = r#"{"inputs":[
        {"name":"a","datatype":"FP32","shape":[1,4],"parameters":{"binary_data_size":16}},
        {"name":"b","datatype":"FP32","shape":[1,4],"data":[1,2,3,4]}]}"#;

    fn refused<T: std::fmt::Debug>(result: Result<T>) -> String {
        let error = result.unwrap_err();
        assert_eq!(error.kind(), Kind::InvalidInput);
        error.message().to_owned()
    }

    fn head(datatype: &str, shape: &str, size: usize) -> String {
        let parameters = format!(r#"{{"binary_data_size":{size}}}"#);
        format!(r#"{{"inputs":[{{"name":"x","datatype":"{datatype}","shape":{shape},"parameters":{parameters}}}]}}"#)
    }

    #[test]
    fn json_and_binary_inputs_can_be_mixed() {
        let spec = add();
        let tail: Vec<u8> = (0..16).collect();
        let mut decoder = begin(&spec, HEAD.as_bytes(), 16, &Limits::default()).unwrap();
        decoder.write(&tail[..5]).unwrap();
        decoder.write(&[]).unwrap();
        decoder.write(&tail[5..]).unwrap();
        let request = decoder.finish().unwrap().request;
        assert_eq!(request.inputs[0].as_ref().unwrap().as_slice(), tail);
        assert_eq!(request.inputs[1].as_ref().unwrap().as_slice()[..4], 1_f32.to_le_bytes());
        assert_eq!((request.rows, request.protocol), (1, Protocol::Http));
        for input in request.inputs.iter().flatten() {
            assert_eq!(input.as_slice().as_ptr() as usize % 64, 0);
        }
    }

    #[test]
    fn tail_length_must_match_binary_data_size() {
        let spec = add();
        let start = |tail| begin(&spec, HEAD.as_bytes(), tail, &Limits::default());
        assert_eq!(refused(start(15)), "15 bytes follow the JSON, 'binary_data_size' announces 16");
        assert_eq!(refused(start(17)), "17 bytes follow the JSON, 'binary_data_size' announces 16");
        assert_eq!(refused(start(16).unwrap().finish()), "the body ends 16 bytes before the end of input 'a'");
        let mut decoder = start(16).unwrap();
        assert_eq!(refused(decoder.write(&[0; 20])), "4 bytes follow the last binary input");
        let bytes = identity(Datatype::Bytes, &[None]);
        let huge = head("BYTES", "[1]", usize::MAX);
        let message = format!("8 bytes follow the JSON, 'binary_data_size' announces {}", usize::MAX);
        assert_eq!(refused(begin(&bytes, huge.as_bytes(), 8, &Limits::default())), message);
        let inputs = vec![tensor("x", Datatype::Bytes, &[None]), tensor("y", Datatype::Bytes, &[None])];
        let second = huge.trim_start_matches(r#"{"inputs":["#).replace("\"x\"", "\"y\"");
        let both = format!("{},{second}", huge.trim_end_matches("]}"));
        assert_eq!(
            refused(begin(&model("m", inputs, Vec::new()), both.as_bytes(), 8, &Limits::default())),
            "the sum of 'binary_data_size' is more than can be addressed"
        );
    }

    #[test]
    fn empty_tensors_need_no_tail() {
        let spec = identity(Datatype::Fp32, &[None]);
        let decoded = begin(&spec, head("FP32", "[0]", 0).as_bytes(), 0, &Limits::default()).unwrap().finish().unwrap();
        assert!(decoded.request.inputs[0].as_ref().unwrap().as_slice().is_empty());
    }

    #[test]
    fn framing_of_binary_strings_is_checked() {
        let spec = identity(Datatype::Bytes, &[None]);
        let finish = |count: usize, tail: &[u8]| {
            let head = head("BYTES", &format!("[{count}]"), tail.len());
            let mut decoder = begin(&spec, head.as_bytes(), tail.len(), &Limits::default())?;
            decoder.write(tail)?;
            decoder.finish()
        };
        assert!(finish(2, b"\x01\0\0\0a\0\0\0\0").is_ok());
        for (count, tail, message) in [
            (2, &b"\x01\0\0\0a\0\0"[..], "input 'x': BYTES element 1 has a truncated length prefix"),
            (1, b"\x02\0\0\0a", "input 'x': BYTES element 0 runs past the end of the data"),
            (2, b"\0\0\0\0", "input 'x': BYTES data ends after 1 elements, expected 2"),
            (1, b"\0\0\0\0\0\0\0\0", "input 'x': BYTES data has 4 bytes after its 1 elements"),
        ] {
            assert_eq!(refused(finish(count, tail)), message);
        }
    }

    #[test]
    fn binary_booleans_become_zero_or_one() {
        let spec = identity(Datatype::Bool, &[None]);
        let mut decoder = begin(&spec, head("BOOL", "[3]", 3).as_bytes(), 3, &Limits::default()).unwrap();
        decoder.write(&[0, 1, 255]).unwrap();
        assert_eq!(decoder.finish().unwrap().request.inputs[0].as_ref().unwrap().as_slice(), [0, 1, 1]);
    }

    #[test]
    fn raw_body_is_the_only_input() {
        let raw = |spec: &ModelSpec, body: &[u8]| {
            let mut decoder = begin_raw(spec, body.len())?;
            decoder.write(body)?;
            let decoded = decoder.finish()?;
            assert!(decoded.plan.binary);
            let tensor = decoded.request.inputs[0].as_ref().unwrap();
            Ok((tensor.shape().to_vec(), tensor.as_slice().to_vec()))
        };
        let open = identity(Datatype::Fp32, &[None, Some(2)]);
        assert_eq!(raw(&open, &[7; 16]).unwrap(), (vec![2, 2], vec![7; 16]));
        let one = identity(Datatype::Bytes, &[Some(1)]);
        assert_eq!(raw(&one, b"ab").unwrap(), (vec![1], b"\x02\0\0\0ab".to_vec()));
        assert_eq!(raw(&one, b"").unwrap(), (vec![1], vec![0; 4]));
        let batched = ModelSpec { inputs: vec![tensor("x", Datatype::Int8, &[Some(3)])], ..add() };
        assert_eq!(raw(&batched, &[1, 2, 3]).unwrap(), (vec![1, 3], vec![1, 2, 3]));
        for (spec, body, message) in [
            (add(), &[0; 16][..], "a raw request is for models with one input, model 'add' has 2"),
            (open, &[0; 12], "the body has 12 bytes, input 'x' of datatype FP32 and shape [1, 2] takes 8"),
            (
                identity(Datatype::Fp32, &[Some(2)]),
                &[0; 12],
                "the body has 12 bytes, input 'x' of datatype FP32 and shape [2] takes 8",
            ),
            (
                identity(Datatype::Fp32, &[None, None]),
                &[0; 8],
                "a raw request does not determine the shape of input 'x'",
            ),
            (identity(Datatype::Bytes, &[None]), &[0; 8], "a raw BYTES request is one element, input 'x' takes more"),
            (
                identity(Datatype::Fp32, &[None, Some(0)]),
                &[0; 8],
                "the body has 8 bytes, input 'x' of datatype FP32 and shape [0, 0] takes 0",
            ),
        ] {
            assert_eq!(refused(raw(&spec, body)), message);
        }
    }
}
