//! One input of a request's JSON: read key by key, in whatever order they come.

use super::parameters::InputParameters;
use crate::json::{
    array,
    reader::{Reader, Skip},
    target::{self, Target},
};
use crate::{
    Limits,
    json::number,
    request_schema::RequestSchema,
    shared_memory::{self, RegionSlice},
};
use penstock_core::{AlignedBuffer, Datatype, Error, MAX_RANK, ModelSpec, Result, Shape, aligned_with_capacity};
use smallvec::SmallVec;

/// An input, and the part of its data that has arrived.
#[derive(Debug)]
pub(super) struct Input {
    /// Its declaration index.
    pub(super) index: usize,
    pub(super) datatype: Datatype,
    pub(super) shape: Shape,
    pub(super) buffer: AlignedBuffer,
    /// Bytes that follow the JSON. Their buffer is not allocated yet.
    pub(super) missing: usize,
    /// Location of the elements in shared memory, if they are there.
    pub(super) span: Option<Box<RegionSlice>>,
}

/// The inputs of a request.
pub(super) type Inputs = SmallVec<[Input; 2]>;

/// Reads the object at the reader, the request's next input.
///
/// # Errors
/// `InvalidInput` that names the input, as soon as its name is known.
pub(super) fn read(
    reader: &mut Reader<'_>,
    schema: &mut RequestSchema<'_>,
    limits: &Limits,
    inputs: &mut Inputs,
) -> Result<Strings> {
    let position = inputs.len();
    let mut builder = Builder::new(schema, limits, position);
    let mut read = builder.read(reader);
    let index = builder.index;
    let finished = match &mut read {
        Ok(()) => builder.finish(reader, inputs),
        Err(error) => Err(error.clone()),
    };
    finished.map_err(|error| with_position(schema, index, position, error))
}

/// Adds the input's name, or its position in the list, to an error.
fn with_position(spec: &ModelSpec, index: Option<usize>, position: usize, error: Error) -> Error {
    let message = error.message();
    // A position in the text, or the input, is named already.
    if message.starts_with("request JSON") || message.contains("input '") || message.contains("'inputs[") {
        return error;
    }
    let with_position = match index {
        Some(index) => format!("input '{}': {message}", spec.inputs[index].name),
        None => format!("'inputs[{position}]': {message}"),
    };
    Error::new(error.kind(), with_position)
}

/// Encoding of an input's strings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Strings {
    Text,
    Base64,
}

/// Members of an input read so far.
struct Builder<'d, 's> {
    schema: &'d mut RequestSchema<'s>,
    limits: &'d Limits,
    /// Its position in the list.
    position: usize,
    index: Option<usize>,
    datatype: Option<Datatype>,
    shape: Shape,
    has_shape: bool,
    parameters: InputParameters,
    /// Position of `data`.
    data_at: Option<usize>,
    /// The elements, once they can be read. What they depend on may come later, or again.
    buffer: Option<AlignedBuffer>,
}

impl<'d, 's> Builder<'d, 's> {
    fn new(schema: &'d mut RequestSchema<'s>, limits: &'d Limits, position: usize) -> Self {
        let parameters = InputParameters::default();
        let shape = Shape::new();
        Self {
            schema,
            limits,
            position,
            index: None,
            datatype: None,
            shape,
            has_shape: false,
            parameters,
            data_at: None,
            buffer: None,
        }
    }

    fn read(&mut self, reader: &mut Reader<'_>) -> Result<()> {
        reader.expect(b'{', "an object for each of 'inputs'")?;
        let mut first = true;
        while let Some(key) = reader.key(&mut first)? {
            match &*key.bytes()? {
                b"name" => self.set_name(reader)?,
                b"datatype" => self.set_datatype(reader)?,
                b"shape" => self.set_shape(reader)?,
                b"parameters" => self.set_parameters(reader)?,
                b"data" => self.set_data(reader)?,
                _ => drop(reader.skip(Skip {
                    max_depth: self.limits.max_depth,
                    outer: target::LEVELS,
                    non_finite: false,
                })?),
            }
        }
        Ok(())
    }

    fn set_name(&mut self, reader: &mut Reader<'_>) -> Result<()> {
        let name = reader.string("a string for an input's 'name'")?;
        self.index = Some(self.schema.input(&name.text()?, self.position)?);
        self.buffer = None;
        Ok(())
    }

    fn set_datatype(&mut self, reader: &mut Reader<'_>) -> Result<()> {
        let name = reader.string("a string for an input's 'datatype'")?.text()?;
        self.datatype = Some(self.schema.datatype(&name).ok_or_else(|| unknown_datatype(&name))?);
        self.buffer = None;
        Ok(())
    }

    fn set_shape(&mut self, reader: &mut Reader<'_>) -> Result<()> {
        self.shape.clear();
        self.has_shape = true;
        self.buffer = None;
        reader.expect(b'[', "an array for 'shape'")?;
        let mut first = true;
        while reader.item(&mut first)? {
            if self.shape.len() == MAX_RANK {
                return Err(reader.fault("at most 32 dimensions in 'shape'").into());
            }
            reader.peek();
            let at = reader.at();
            let dimension = reader.number().and_then(|(decimal, text)| number::integer(&decimal, text));
            match dimension.map(usize::try_from) {
                Some(Ok(dimension)) => self.shape.push(dimension),
                _ => return Err(reader.from(at).fault("non-negative integers in 'shape'").into()),
            }
        }
        Ok(())
    }

    fn set_parameters(&mut self, reader: &mut Reader<'_>) -> Result<()> {
        let parameters = InputParameters::read(reader, self.limits.shared_memory, self.schema.raw_requests)?;
        if parameters.base64 != self.parameters.base64 {
            self.buffer = None;
        }
        self.parameters = parameters;
        Ok(())
    }

    /// Reads the elements if all is known that they depend on; else passes over them.
    fn set_data(&mut self, reader: &mut Reader<'_>) -> Result<()> {
        reader.peek();
        self.data_at = Some(reader.at());
        self.buffer = None;
        match (self.index, self.datatype) {
            (Some(index), Some(datatype)) if self.has_shape => {
                self.buffer = Some(self.read_data(reader, index, datatype)?);
            }
            _ => {
                reader.skip(Skip { max_depth: self.limits.max_depth, outer: target::LEVELS, non_finite: true })?;
            }
        }
        Ok(())
    }

    fn read_data(&self, reader: &mut Reader<'_>, index: usize, datatype: Datatype) -> Result<AlignedBuffer> {
        let shape = &self.shape;
        self.schema.check_input(index, datatype, shape)?;
        let name = &self.schema.inputs[index].name;
        let (Limits { max_depth, .. }, null_is_nan) = (*self.limits, self.schema.is_permissive());
        array::read(reader, &Target { name, datatype, shape, base64: self.parameters.base64, null_is_nan, max_depth })
    }

    /// Adds the input to `inputs`, once its object is closed.
    fn finish(mut self, reader: &mut Reader<'_>, inputs: &mut Inputs) -> Result<Strings> {
        let index = self.index.ok_or_else(|| Error::invalid(format!("'inputs[{}]' has no 'name'", inputs.len())))?;
        self.schema.set_input_parameters(index, std::mem::take(&mut self.parameters.custom));
        let name = &self.schema.inputs[index].name;
        let missing = |key: &str| Error::invalid(format!("input '{name}' has no '{key}'"));
        let datatype = self.datatype.ok_or_else(|| missing("datatype"))?;
        if !self.has_shape {
            return Err(missing("shape"));
        }
        if let Some(span) = self.parameters.span.take() {
            if self.data_at.is_some() || self.parameters.binary_size.is_some() {
                return Err(Error::invalid(format!(
                    "input '{name}' has 'data' or 'binary_data_size' together with 'shared_memory_region'"
                )));
            }
            self.check_size(index, datatype, (crate::parameters::BYTE_SIZE, span.size))?;
            let buffer = aligned_with_capacity(0);
            inputs.push(Input { index, datatype, shape: self.shape, buffer, missing: 0, span: Some(span) });
            return Ok(Strings::Text);
        }
        let (buffer, missing) = match (self.data_at, self.parameters.binary_size) {
            (None, None) => {
                return Err(Error::invalid(format!("input '{name}' has neither 'data' nor 'binary_data_size'")));
            }
            (Some(_), Some(_)) => {
                return Err(Error::invalid(format!("input '{name}' has both 'data' and 'binary_data_size'")));
            }
            (None, Some(size)) => {
                self.check_size(index, datatype, ("binary_data_size", size))?;
                (aligned_with_capacity(0), size)
            }
            (Some(at), None) => match self.buffer.take() {
                Some(buffer) => (buffer, 0),
                None => (self.read_data(&mut reader.from(at), index, datatype)?, 0),
            },
        };
        if let Some(at) = self.data_at.filter(|_| self.schema.raw_requests)
            && array::is_nested(&mut reader.from(at))
        {
            self.schema.mark_nested(index);
        }
        inputs.push(Input { index, datatype, shape: self.shape, buffer, missing, span: None });
        let base64 = self.parameters.base64 && datatype == Datatype::Bytes;
        Ok(if base64 { Strings::Base64 } else { Strings::Text })
    }

    /// Checks that a parameter's size is the shape's.
    fn check_size(&self, index: usize, datatype: Datatype, size: (&str, usize)) -> Result<()> {
        self.schema.check_input(index, datatype, &self.shape)?;
        shared_memory::check_size(&self.schema.inputs[index], datatype, &self.shape, size)
    }
}

fn unknown_datatype(name: &str) -> Error {
    let known = Datatype::ALL.map(Datatype::name).join(", ");
    Error::invalid(format!("unknown datatype '{name}', expected one of {known}"))
}

#[cfg(test)]
mod tests {
    use crate::{
        Limits,
        rest::{
            begin,
            testing::{add, decode, identity, refusal, request},
        },
    };
    use penstock_core::{Datatype, Kind};

    fn one(members: &str) -> String {
        format!(r#"{{"inputs":[{{{members}}}]}}"#)
    }

    #[test]
    fn keys_are_accepted_in_any_order_and_the_last_wins() {
        let spec = identity(Datatype::Fp32, &[None, None]);
        let expected = [1_f32, 2.0].map(f32::to_le_bytes).concat();
        for members in [
            r#""name":"x","datatype":"FP32","shape":[1,2],"data":[1,2]"#,
            r#""data":[[1,2]],"shape":[1,2],"datatype":"FP32","name":"x""#,
            r#""shape":[1,2],"data":[1,2],"name":"x","datatype":"FP32","parameters":{}"#,
            r#""name":"x","datatype":"FP32","shape":[2,1],"data":[[1],[2]],"shape":[1,2],"data":[[1,2]]"#,
            r#""name":"x","datatype":"FP32","shape":[2,1],"data":[1,2],"shape":[1,2]"#,
            r#""name":"x","datatype":"FP32","shape":[1,2],"data":[7,8],"data":[1,2]"#,
            r#""other":{"a":[1,{}]},"na\u006de":"\u0078","datatype":"FP32","shape":[1,2],"data":[1,2]"#,
        ] {
            let decoded = decode(&spec, &one(members)).unwrap();
            let tensor = decoded.request.inputs[0].as_ref().unwrap();
            assert_eq!((tensor.shape(), tensor.as_slice()), (&[1, 2][..], &expected[..]), "{members}");
        }
    }

    #[test]
    fn missing_and_invalid_input_fields_are_named() {
        let spec = identity(Datatype::Fp32, &[None]);
        for (members, message) in [
            (r#""datatype":"FP32","shape":[1],"data":[1]"#, "'inputs[0]' has no 'name'"),
            (r#""name":"x","shape":[1],"data":[1]"#, "input 'x' has no 'datatype'"),
            (r#""name":"x","datatype":"FP32","data":[1]"#, "input 'x' has no 'shape'"),
            (r#""name":"x","datatype":"FP32","shape":[1]"#, "input 'x' has neither 'data' nor 'binary_data_size'"),
            (r#""name":"x","datatype":"FP32","shape":[0]"#, "input 'x' has neither 'data' nor 'binary_data_size'"),
            (
                r#""name":"x","datatype":"FP32","shape":[1],"data":[1],"parameters":{"binary_data_size":4}"#,
                "input 'x' has both 'data' and 'binary_data_size'",
            ),
            (
                r#""name":"x","datatype":"FP32","shape":[1],"parameters":{"binary_data_size":5}"#,
                "input 'x' has 'binary_data_size' 5, datatype FP32 and shape [1] take 4",
            ),
            (r#""name":"z""#, "unexpected input 'z' for model 'identity', expected 'x'"),
            (
                r#""name":"x","datatype":"fp32""#,
                "input 'x': unknown datatype 'fp32', expected one of BOOL, UINT8, UINT16, UINT32, UINT64, INT8, INT16, INT32, INT64, \
                 FP16, BF16, FP32, FP64, BYTES",
            ),
            (r#""name":1"#, "request JSON at byte 19: expected a string for an input's 'name'"),
            (r#""datatype":null"#, "request JSON at byte 23: expected a string for an input's 'datatype'"),
            (r#""shape":1"#, "request JSON at byte 20: expected an array for 'shape'"),
            (r#""shape":[-1]"#, "request JSON at byte 21: expected non-negative integers in 'shape'"),
            (r#""shape":[1.5]"#, "request JSON at byte 21: expected non-negative integers in 'shape'"),
            (r#""shape":["1"]"#, "request JSON at byte 21: expected non-negative integers in 'shape'"),
        ] {
            assert_eq!(refusal(&spec, &one(members)), message);
        }
        let deep = one(&format!(r#""shape":[{}1]"#, "1,".repeat(32)));
        assert_eq!(refusal(&spec, &deep), "request JSON at byte 85: expected at most 32 dimensions in 'shape'");
    }

    #[test]
    fn shapes_are_checked_before_data() {
        let shape = "[16,1152921504606846978]";
        let spec = identity(Datatype::Fp32, &[None, None]);
        let message = "input 'x': shape [16, 1152921504606846978] has more elements than can be addressed";
        assert_eq!(refusal(&spec, &request("FP32", shape, "[1]")), message);
        let binary =
            one(&format!(r#""name":"x","datatype":"FP32","shape":{shape},"parameters":{{"binary_data_size":8}}"#));
        assert_eq!(begin(&spec, binary.as_bytes(), 8, &Limits::default()).unwrap_err().message(), message);
        let row = |datatype: &str, shape: &str| {
            one(&format!(r#""name":"a","datatype":"{datatype}","shape":{shape},"data":[1]"#))
        };
        for (datatype, shape, message) in [
            ("INT32", "[1,4]", "input 'a' has datatype INT32, model 'add' expects FP32"),
            ("FP32", "[1,5]", "input 'a' has shape [1, 5], model 'add' expects [-1, 4]"),
            ("FP32", "[4]", "input 'a' has shape [4], model 'add' expects [-1, 4]"),
            ("FP32", "[9,4]", "input 'a' has a batch of 9 rows, model 'add' accepts at most 8"),
        ] {
            assert_eq!(refusal(&add(), &row(datatype, shape)), message);
        }
    }

    #[test]
    fn base64_inputs_are_strict_and_set_base64_outputs() {
        let spec = identity(Datatype::Bytes, &[None]);
        let with = |members: &str| one(&format!(r#""name":"x","datatype":"BYTES","shape":[1],{members}"#));
        for members in [
            r#""parameters":{"content_type":"base64"},"data":["AP8="]"#,
            r#""data":["AP8="],"parameters":{"content_type":"base64"}"#,
        ] {
            let decoded = decode(&spec, &with(members)).unwrap();
            assert_eq!(decoded.request.inputs[0].as_ref().unwrap().as_slice(), [2, 0, 0, 0, 0, 255]);
            assert!(decoded.plan.base64);
        }
        for bad in ["AP8", "A P8=", "-_8="] {
            let json = with(&format!(r#""parameters":{{"content_type":"base64"}},"data":["{bad}"]"#));
            let at = json.find(&format!("\"{bad}\"")).unwrap();
            let message = format!("input 'x' has a string at byte {at} that is not padded standard base64");
            assert_eq!(refusal(&spec, &json), message);
        }
        let text = decode(&spec, &with(r#""parameters":{"content_type":"str"},"data":["AP8="]"#)).unwrap();
        assert!(!text.plan.base64);
        assert_eq!(text.request.inputs[0].as_ref().unwrap().as_slice(), b"\x04\0\0\0AP8=");
    }

    #[test]
    fn disallowed_shared_memory_is_unsupported_by_name() {
        let members = r#""name":"x","parameters":{"shared_memory_region":"r"}"#;
        let error = decode(&identity(Datatype::Fp32, &[None]), &one(members)).unwrap_err();
        assert_eq!(error.kind(), Kind::Unsupported);
        let expected = "input 'x': parameter 'shared_memory_region': shared memory is for inference without \
                        server-sent events, where the server allows it";
        assert_eq!(error.message(), expected);
    }
}
