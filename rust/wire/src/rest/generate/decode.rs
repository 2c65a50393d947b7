//! Reads generate requests. A member that names an input is that tensor, any other is a parameter.

use crate::{DecodedRequest, Limits, request_schema::refuse_raw_request_model};
use crate::{
    json::{
        array,
        reader::{Reader, Skip},
        target::Target,
    },
    rest::{parameters::RequestParameters, values::Column},
};
use penstock_core::{
    Buffer, Error, InferRequest, ModelSpec, Protocol, RequestMetadata, ResponsePlan, Result, Shape, Tensor, TensorSpec,
};
use smallvec::SmallVec;

/// A decoded generate request.
#[derive(Debug)]
pub struct GenerateRequest {
    /// The request, as any other.
    pub decoded: DecodedRequest,
    /// The response's parameters are requested in an object named `details`.
    pub details: bool,
}

/// Reads a generate request for a model.
///
/// Shapes follow from the signature: fixed axes must divide the number of elements, the innermost
/// variable one takes what is left, every other is 1. A scalar is one element. A JSON document is itself, or its text
/// in a string.
///
/// ```
/// use penstock_core::{Datatype, ModelSpec, TensorSpec};
/// use penstock_wire::{Limits, rest::generate};
///
/// let input = TensorSpec::new("text_input", Datatype::Bytes, vec![Some(1)]);
/// let spec = ModelSpec { inputs: vec![input], ..ModelSpec::default() };
/// let json = br#"{"text_input":"Hi","parameters":{"temperature":0.5,"stop":["\n"]}}"#;
/// let request = generate::decode(&spec, json, &Limits::default())?.decoded.request;
/// assert_eq!(request.inputs[0].as_ref().unwrap().shape(), [1]);
/// # Ok::<(), penstock_core::Error>(())
/// ```
///
/// # Errors
/// `InvalidInput` that names the tensor or parameter, or the byte where the JSON is wrong.
pub fn decode(spec: &ModelSpec, json: &[u8], limits: &Limits) -> Result<GenerateRequest> {
    refuse_raw_request_model(spec, "generate is not supported")?;
    let mut builder = Builder {
        spec,
        limits,
        tensors: SmallVec::new(),
        id: String::new(),
        parameters: RequestParameters::default(),
        details: false,
    };
    let mut reader = Reader::new(json);
    builder.object(&mut reader, Level::Top)?;
    if reader.peek().is_some() {
        return Err(reader.fault("nothing after the request's object").into());
    }
    builder.finish()
}

/// Returns whether a body is an infer request: its `inputs` are a list of objects with a `datatype`, unlike an input of
/// that name.
pub fn is_infer(json: &[u8]) -> bool {
    looks_like_infer(json).unwrap_or(false)
}

fn looks_like_infer(json: &[u8]) -> Result<bool> {
    let rules = Skip { max_depth: Limits::default().max_depth, outer: 1, non_finite: true };
    let mut reader = Reader::new(json);
    reader.expect(b'{', "an object")?;
    let mut first = true;
    while let Some(key) = reader.key(&mut first)? {
        if &*key.bytes()? != b"inputs" {
            reader.skip(rules)?;
            continue;
        }
        if !reader.take(b'[') || !reader.take(b'{') {
            return Ok(false);
        }
        let mut first = true;
        while let Some(key) = reader.key(&mut first)? {
            if &*key.bytes()? == b"datatype" {
                return Ok(true);
            }
            reader.skip(rules)?;
        }
        return Ok(false);
    }
    Ok(false)
}

/// Current object.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Top,
    /// Within the member `parameters`.
    Parameters,
}

struct Builder<'s> {
    spec: &'s ModelSpec,
    limits: &'s Limits,
    tensors: SmallVec<[(usize, Tensor); 2]>,
    id: String,
    parameters: RequestParameters,
    details: bool,
}

impl Builder<'_> {
    fn object(&mut self, reader: &mut Reader<'_>, level: Level) -> Result<()> {
        let expected = if level == Level::Top { "a JSON object" } else { "an object for 'parameters'" };
        reader.expect(b'{', expected)?;
        let mut first = true;
        while let Some(key) = reader.key(&mut first)? {
            let name = key.text()?;
            match &*name {
                "id" if level == Level::Top => self.id = reader.string("a string for 'id'")?.text()?.into_owned(),
                "parameters" if level == Level::Top => {
                    if self.spec.inputs.iter().any(|input| &*input.name == "parameters") {
                        return Err(Error::invalid(format!(
                            "model '{}' has an input 'parameters', which generate cannot distinguish from the request's",
                            self.spec.name
                        )));
                    }
                    self.object(reader, Level::Parameters)?;
                }
                _ => match self.spec.inputs.iter().position(|input| *input.name == *name) {
                    Some(index) => self.tensor(reader, index)?,
                    None if *name == *"details" => self.details = self.details(reader)?,
                    None => self.parameters.read_generated(reader, &name, self.spec.wants_context)?,
                },
            }
        }
        Ok(())
    }

    fn details(&self, reader: &mut Reader<'_>) -> Result<bool> {
        reader.peek();
        match (reader.word("true"), reader.word("false")) {
            (true, _) => Ok(true),
            (_, true) => Ok(false),
            _ => Err(reader.fault("a boolean for 'details'").into()),
        }
    }

    fn tensor(&mut self, reader: &mut Reader<'_>, index: usize) -> Result<()> {
        let declared = &self.spec.inputs[index];
        if self.tensors.iter().any(|(known, _)| *known == index) {
            return Err(Error::invalid(format!("input '{}' is given twice", declared.name)));
        }
        if declared.document && reader.peek() != Some(b'"') {
            let mut column = Column::new(self.spec, self.limits, index, self.spec.batching.is_some());
            column.read(reader)?;
            self.tensors.push(column.finish(None)?);
            return Ok(());
        }
        let count = self.count(reader, &declared.name)?;
        let shape = shape(self.spec, declared, count.unwrap_or(1))?;
        self.spec.check_input(index, declared.datatype, &shape)?;
        let target = Target {
            name: &declared.name,
            datatype: declared.datatype,
            shape: &shape,
            base64: false,
            null_is_nan: false,
            max_depth: self.limits.max_depth,
        };
        let buffer = match count {
            Some(_) => array::read(reader, &target)?,
            None => array::read_scalar(reader, &target)?,
        };
        let tensor = Tensor::new(declared.datatype, shape, Buffer::Aligned(buffer))
            .map_err(|error| Error::new(error.kind(), format!("input '{}': {}", declared.name, error.message())))?;
        self.tensors.push((index, tensor));
        Ok(())
    }

    /// The elements of the array at the reader, which stays; `None` for a scalar.
    fn count(&self, reader: &mut Reader<'_>, name: &str) -> Result<Option<usize>> {
        match reader.peek() {
            Some(b'[') => {}
            Some(b'{') => {
                return Err(Error::invalid(format!(
                    "input '{name}' is an object, expected a value or a list of values"
                )));
            }
            _ => return Ok(None),
        }
        let mut look = *reader;
        let rules = Skip { max_depth: self.limits.max_depth, outer: 1, non_finite: true };
        Ok(Some(look.skip(rules)?))
    }

    fn finish(self) -> Result<GenerateRequest> {
        let mut request = InferRequest::assemble(self.spec, self.tensors, Protocol::Http)?;
        let RequestParameters { timeout, schedule, custom: parameters, .. } = self.parameters;
        request.schedule = schedule.finish();
        request.metadata = self
            .spec
            .wants_context
            .then(|| Box::new(RequestMetadata { id: self.id.clone(), parameters, ..RequestMetadata::default() }));
        let plan = ResponsePlan { id: self.id, ..ResponsePlan::default() };
        Ok(GenerateRequest { decoded: DecodedRequest { request, plan, timeout, shared: None }, details: self.details })
    }
}

/// The shape of `count` elements, by the declaration of their input.
fn shape(spec: &ModelSpec, input: &TensorSpec, count: usize) -> Result<Shape> {
    let batch = spec.batching.is_some().then_some(None);
    let dims: SmallVec<[Option<usize>; 6]> = batch.into_iter().chain(input.dims.iter().copied()).collect();
    let mut shape = Shape::from_elem(1, dims.len());
    let mut left = count;
    let mut taker = None;
    for (axis, dim) in dims.iter().enumerate().rev() {
        match dim {
            Some(0) if count == 0 => shape[axis] = 0,
            Some(size) if *size > 0 && left.is_multiple_of(*size) => {
                shape[axis] = *size;
                left /= size;
            }
            Some(_) => return Err(unfit(spec, input, count)),
            None if taker.is_none() => taker = Some(axis),
            None => {}
        }
    }
    match taker {
        Some(axis) => shape[axis] = left,
        None if left > 1 => return Err(unfit(spec, input, count)),
        None => {}
    }
    Ok(shape)
}

fn unfit(spec: &ModelSpec, input: &TensorSpec, count: usize) -> Error {
    Error::invalid(format!(
        "input '{}' has {count} elements, which do not fill the shape {} that model '{}' expects",
        input.name,
        penstock_core::shape_text(input, spec.batching.is_some()),
        spec.name
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rest::testing::{add, identity, model, tensor};
    use penstock_core::{Datatype, Kind, Parameter};

    fn read(spec: &ModelSpec, json: &str) -> Result<GenerateRequest> {
        decode(spec, json.as_bytes(), &Limits::default())
    }

    fn refused(spec: &ModelSpec, json: &str) -> String {
        let error = read(spec, json).expect_err(json);
        assert_eq!(error.kind(), Kind::InvalidInput, "{json}");
        error.message().to_owned()
    }

    fn shape_of(spec: &ModelSpec, json: &str) -> Vec<usize> {
        read(spec, json).unwrap().decoded.request.inputs[0].as_ref().unwrap().shape().to_vec()
    }

    #[test]
    fn shapes_follow_from_the_signature() {
        let open = identity(Datatype::Int32, &[None]);
        assert_eq!(shape_of(&open, r#"{"x":5}"#), [1]);
        assert_eq!(shape_of(&open, r#"{"x":[5,6,7]}"#), [3]);
        assert_eq!(shape_of(&open, r#"{"x":[]}"#), [0]);
        let scalar = identity(Datatype::Int32, &[]);
        assert_eq!(shape_of(&scalar, r#"{"x":5}"#), [0_usize; 0]);
        let rows = identity(Datatype::Int32, &[None, Some(2), None]);
        assert_eq!(shape_of(&rows, r#"{"x":[1,2,3,4]}"#), [1, 2, 2]);
        let text =
            ModelSpec { batching: Some(penstock_core::Batching::new(8)), ..identity(Datatype::Bytes, &[Some(1)]) };
        assert_eq!(shape_of(&text, r#"{"x":"hi"}"#), [1, 1]);
        assert_eq!(shape_of(&add(), r#"{"a":[1,2,3,4,5,6,7,8],"b":[[1,2,3,4],[5,6,7,8]]}"#), [2, 4]);
    }

    #[test]
    fn infer_requests_are_detected() {
        for (json, expected) in [
            (r#"{"id":"1","inputs":[{"name":"x","datatype":"FP32","shape":[1],"data":[1]}]}"#, true),
            (r#"{"inputs":[1,2]}"#, false),
            (r#"{"inputs":[]}"#, false),
            (r#"{"inputs":[{"name":"x"}]}"#, false),
            (r#"{"x":[1,2]}"#, false),
            ("[", false),
        ] {
            assert_eq!(is_infer(json.as_bytes()), expected, "{json}");
        }
    }

    #[test]
    fn invalid_generate_requests_are_refused_by_name() {
        for (spec, json, message) in [
            (
                identity(Datatype::Int32, &[Some(3)]),
                r#"{"x":[1,2]}"#,
                "input 'x' has 2 elements, which do not fill the shape [3] that model 'identity' expects",
            ),
            (
                identity(Datatype::Int32, &[Some(2)]),
                r#"{"x":[1,2,3,4]}"#,
                "input 'x' has 4 elements, which do not fill the shape [2] that model 'identity' expects",
            ),
            (
                identity(Datatype::Int32, &[None]),
                r#"{"x":{"a":1}}"#,
                "input 'x' is an object, expected a value or a list of values",
            ),
            (identity(Datatype::Int32, &[None]), r#"{"x":1,"x":2}"#, "input 'x' is given twice"),
            (
                identity(Datatype::Int32, &[None]),
                r#"{"x":"1"}"#,
                r#"input 'x' has "1" at byte 5, INT32 takes integers from -2147483648 to 2147483647"#,
            ),
            (identity(Datatype::Int32, &[None]), "{}", "input 'x' is missing, model 'identity' expects 'x'"),
            (identity(Datatype::Int32, &[None]), "[]", "request JSON at byte 0: expected a JSON object"),
            (
                identity(Datatype::Int32, &[None]),
                r#"{"x":1}{"#,
                "request JSON at byte 7: expected nothing after the request's object",
            ),
            (
                identity(Datatype::Int32, &[None]),
                r#"{"x":1,"parameters":[]}"#,
                "request JSON at byte 20: expected an object for 'parameters'",
            ),
            (
                identity(Datatype::Int32, &[None]),
                r#"{"x":1,"p":[[1]]}"#,
                "parameter 'p' has an array in its list, expected booleans, numbers or strings",
            ),
            (
                identity(Datatype::Int32, &[None]),
                r#"{"x":1,"p":{}}"#,
                "parameter 'p' is an object, expected a boolean, number or string",
            ),
            (
                model("p", vec![tensor("parameters", Datatype::Int32, &[None])], Vec::new()),
                r#"{"parameters":{}}"#,
                "model 'p' has an input 'parameters', which generate cannot distinguish from the request's",
            ),
        ] {
            assert_eq!(refused(&spec, json), message);
        }
    }

    #[test]
    fn members_other_than_inputs_are_parameters() {
        let spec = ModelSpec { wants_context: true, ..identity(Datatype::Bytes, &[Some(1)]) };
        let json = r#"{"id":"7","seed":3,"parameters":{"x":"hi","stop":["a","b"],"details":true,"timeout":5}}"#;
        let generate = read(&spec, json).unwrap();
        let metadata = generate.decoded.request.metadata.unwrap();
        let list = Parameter::List(vec![Parameter::String("a".into()), Parameter::String("b".into())]);
        assert_eq!(metadata.parameters, [("seed".into(), Parameter::Int(3)), ("stop".into(), list)]);
        assert_eq!((metadata.id.as_str(), generate.decoded.plan.id.as_str()), ("7", "7"));
        assert!(generate.details);
        assert_eq!(generate.decoded.timeout, Some(std::time::Duration::from_micros(5)));
    }
}
