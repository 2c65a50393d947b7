//! Schema that a request is decoded against: the model's declaration or, for a raw-request model, the request itself.

use penstock_core::{Datatype, Error, Kind, ModelSpec, Parameters, RawRequest, Result, TensorSpec};
use std::ops::Deref;

/// Maximum length of a tensor's name, in bytes.
pub(crate) const MAX_NAME: usize = 1024;

/// Inputs and outputs with indexes: the model's, or those that the request has named so far.
#[derive(Debug)]
pub(crate) enum RequestSchema<'s> {
    Model(&'s ModelSpec),
    Request(Box<RequestTensors>),
}

/// Tensors that the request names.
#[derive(Debug)]
pub(crate) struct RequestTensors {
    /// Tensors so far. A requested output has a name only.
    spec: ModelSpec,
    /// The custom parameters of its inputs.
    parameters: Vec<Parameters>,
    /// The places of inputs whose JSON was nested.
    nested: Vec<usize>,
    /// Accepts `null` for NaN and datatypes in lower case.
    permissive: bool,
}

impl RequestTensors {
    fn new(spec: &ModelSpec, permissive: bool) -> Self {
        let spec = spec.for_raw_request(Vec::new(), Vec::new());
        Self { spec, parameters: Vec::new(), nested: Vec::new(), permissive }
    }
}

impl Deref for RequestSchema<'_> {
    type Target = ModelSpec;

    fn deref(&self) -> &ModelSpec {
        match self {
            Self::Model(spec) => spec,
            Self::Request(own) => &own.spec,
        }
    }
}

impl<'s> RequestSchema<'s> {
    pub(crate) fn new(spec: &'s ModelSpec, permissive: bool) -> Self {
        if spec.raw_requests {
            Self::Request(Box::new(RequestTensors::new(spec, permissive)))
        } else {
            Self::Model(spec)
        }
    }

    /// Reports whether the request may have `null` for NaN, and datatypes in lower case.
    pub(crate) fn is_permissive(&self) -> bool {
        matches!(self, Self::Request(own) if own.permissive)
    }

    /// Returns the index of the input `name`, which is the `position`th of the request. The last name at a position counts.
    ///
    /// # Errors
    /// `InvalidInput` for a name that the model does not have; for raw-request models, for an invalid or repeated name.
    pub(crate) fn input(&mut self, name: &str, position: usize) -> Result<usize> {
        let own = match self {
            Self::Model(spec) => return spec.input_index(name),
            Self::Request(own) => own,
        };
        check_name("input", name, position)?;
        own.spec.inputs.truncate(position);
        own.parameters.truncate(position);
        if own.spec.inputs.iter().any(|earlier| *earlier.name == *name) {
            return Err(Error::invalid(format!("input '{name}' is given twice")));
        }
        own.spec.inputs.push(TensorSpec::new(name, Datatype::Bytes, Vec::new()));
        Ok(position)
    }

    /// Returns the index of the output `name`, which is the `position`th of the requested ones.
    ///
    /// # Errors
    /// As for [`RequestSchema::input`].
    pub(crate) fn output(&mut self, name: &str, position: usize) -> Result<usize> {
        let own = match self {
            Self::Model(spec) => return spec.output_index(name),
            Self::Request(own) => own,
        };
        check_name("output", name, position)?;
        own.spec.outputs.truncate(position);
        if own.spec.outputs.iter().any(|earlier| *earlier.name == *name) {
            return Err(Error::invalid(format!("output '{name}' is requested twice")));
        }
        own.spec.outputs.push(TensorSpec::new(name, Datatype::Bytes, Vec::new()));
        Ok(position)
    }

    /// Removes the inputs: another list of inputs replaces them.
    pub(crate) fn clear_inputs(&mut self) {
        if let Self::Request(own) = self {
            own.spec.inputs.clear();
            own.parameters.clear();
            own.nested.clear();
        }
    }

    /// Removes the outputs: another list of outputs replaces them.
    pub(crate) fn clear_outputs(&mut self) {
        if let Self::Request(own) = self {
            own.spec.outputs.clear();
        }
    }

    /// Stores the custom parameters of the input at `position`.
    pub(crate) fn set_input_parameters(&mut self, position: usize, parameters: Parameters) {
        if let Self::Request(own) = self
            && !parameters.is_empty()
        {
            own.parameters.resize(position, Parameters::new());
            own.parameters.push(parameters);
        }
    }

    /// Notes that the JSON of the input at `position` was nested as its shape.
    pub(crate) fn mark_nested(&mut self, position: usize) {
        if let Self::Request(own) = self {
            own.nested.push(position);
        }
    }

    /// The datatype of that name; in a permissive schema also in lower case.
    pub(crate) fn datatype(&self, name: &str) -> Option<Datatype> {
        let lowered = || self.is_permissive().then(|| Datatype::from_name(&name.to_ascii_uppercase())).flatten();
        Datatype::from_name(name).or_else(lowered)
    }

    /// Refuses classes of an output whose type is unknown before it is computed.
    ///
    /// # Errors
    /// As for [`penstock_core::classify::check`]; `Unsupported` for a raw-request model.
    pub(crate) fn check_classes(&self, index: usize) -> Result<()> {
        match self {
            Self::Model(spec) => penstock_core::classify::check(&spec.outputs[index]),
            Self::Request(own) => {
                let (name, model) = (&own.spec.outputs[index].name, &own.spec.name);
                let text =
                    format!("output '{name}' cannot be classified: model '{model}' does not declare its outputs");
                Err(Error::new(Kind::Unsupported, text))
            }
        }
    }

    /// Returns what a raw-request model gets in addition to the tensors; `binary` if they came as raw bytes.
    pub(crate) fn into_raw_request(self, binary: bool) -> Option<Box<RawRequest>> {
        let Self::Request(own) = self else { return None };
        let RequestTensors { spec, parameters, nested, .. } = *own;
        let names = |tensors: Vec<TensorSpec>| tensors.into_iter().map(|tensor| tensor.name.as_ref().into()).collect();
        let outputs = (!spec.outputs.is_empty()).then(|| names(spec.outputs));
        let names = names(spec.inputs);
        let (parameters, nested) = (parameters.into(), nested.into());
        Some(Box::new(RawRequest { names, outputs, parameters, nested, binary, ..RawRequest::default() }))
    }
}

/// Refuses an open model where a request does not name its tensors.
///
/// # Errors
/// `Unsupported`, with what to call instead.
pub(crate) fn refuse_raw_request_model(spec: &ModelSpec, what: &str) -> Result<()> {
    if !spec.raw_requests {
        return Ok(());
    }
    let text = format!("model '{}' declares no inputs, so {what}: call infer, or one of its routes", spec.name);
    Err(Error::new(Kind::Unsupported, text))
}

fn check_name(role: &str, name: &str, position: usize) -> Result<()> {
    match name.len() {
        0 => Err(Error::invalid(format!("'{role}s[{position}]' has an empty 'name'"))),
        1..=MAX_NAME => Ok(()),
        len => {
            let text = format!("'{role}s[{position}]' has a name of {len} bytes, at most {MAX_NAME} are accepted");
            Err(Error::invalid(text))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        DecodedRequest, Limits, grpc,
        rest::{self, EncodeOptions, bodies},
    };
    use penstock_core::{
        Batching, Buffer, InferResponse, Parameter, RequestedOutput, ResponseHead, ResponsePlan, Tensor,
    };
    use smallvec::smallvec;

    fn raw_model() -> ModelSpec {
        let batching = Some(Batching::new(8));
        ModelSpec { name: "m".into(), raw_requests: true, wants_context: true, batching, ..ModelSpec::default() }
    }

    fn read(json: &str, tail: &[u8]) -> Result<DecodedRequest> {
        let spec = raw_model();
        let mut decoder = rest::begin(&spec, json.as_bytes(), tail.len(), &Limits::default())?;
        decoder.write(tail)?;
        decoder.finish()
    }

    fn named_tensors(decoded: &DecodedRequest) -> Vec<(&str, Datatype, &[usize], &[u8])> {
        let names = decoded.request.raw.as_ref().unwrap().names.iter();
        let tensors = decoded.request.inputs.iter().flatten();
        names.zip(tensors).map(|(name, t)| (&**name, t.datatype(), t.shape(), t.as_slice())).collect()
    }

    #[test]
    fn raw_request_names_its_tensors() {
        let json = r#"{"id":"i","parameters":{"p":1},"outputs":[{"name":"r"},{"name":"q","parameters":{"binary_data":true}}],
            "inputs":[{"name":"b","datatype":"INT8","shape":[2,1],"parameters":{"binary_data_size":2}},
                      {"name":"a","datatype":"BYTES","shape":[],"data":["x"],"parameters":{"own":true}}]}"#;
        let decoded = read(json, &[7, 8]).unwrap();
        assert_eq!(
            named_tensors(&decoded),
            [("b", Datatype::Int8, &[2, 1][..], &[7, 8][..]), ("a", Datatype::Bytes, &[], b"\x01\0\0\0x"),]
        );
        let DecodedRequest { request, plan, .. } = decoded;
        let raw = request.raw.unwrap();
        assert_eq!(raw.outputs.as_deref(), Some(&["r".into(), "q".into()][..]));
        assert_eq!(*raw.parameters, [vec![], vec![("own".to_owned(), Parameter::Bool(true))]]);
        assert!(raw.binary && raw.http.is_none());
        assert_eq!(plan.outputs, Some(smallvec![RequestedOutput::new(0, false), RequestedOutput::new(1, true)]));
        // Its rows are not distinguished.
        assert_eq!((request.rows, request.metadata.unwrap().id.as_str()), (1, "i"));
        assert!(!read(r#"{"inputs":[]}"#, &[]).unwrap().request.raw.unwrap().binary);
    }

    #[test]
    fn last_name_of_a_tensor_wins_and_names_are_unique() {
        let tensor = |names: &str| format!(r#"{{{names}"datatype":"INT8","shape":[1],"data":[1]}}"#);
        let decoded = read(&format!(r#"{{"inputs":[{}]}}"#, tensor(r#""name":"x","name":"y","#)), &[]).unwrap();
        assert_eq!(named_tensors(&decoded)[0].0, "y");
        let x = tensor(r#""name":"x","#);
        let refused = |json: &str| read(json, &[]).unwrap_err().message().to_owned();
        assert_eq!(refused(&format!(r#"{{"inputs":[{x},{x}]}}"#)), "input 'x' is given twice");
        assert_eq!(refused(&format!(r#"{{"inputs":[{}]}}"#, tensor(""))), "'inputs[0]' has no 'name'");
        let long = tensor(&format!(r#""name":"{}","#, "n".repeat(MAX_NAME + 1)));
        let text = "'inputs[0]' has a name of 1025 bytes, at most 1024 are accepted";
        assert_eq!(refused(&format!(r#"{{"inputs":[{long}]}}"#)), text);
        let again = format!(r#"{{"inputs":[{x},{}],"inputs":[{x}]}}"#, tensor(r#""name":"y","#));
        assert_eq!(named_tensors(&read(&again, &[]).unwrap()).len(), 1);
    }

    #[test]
    fn nested_lists_are_recorded() {
        let tensor = |name: &str, shape: &str, data: &str| {
            format!(r#"{{"name":"{name}","datatype":"INT8","shape":{shape},"data":{data}}}"#)
        };
        let of = |inputs: &[String]| {
            let raw = read(&format!(r#"{{"inputs":[{}]}}"#, inputs.join(",")), &[]).unwrap().request.raw.unwrap();
            raw.nested.to_vec()
        };
        let [flat, nested] = [tensor("x", "[2,1]", " [ 1,2]"), tensor("y", "[2,1]", " [ [1], [2]]")];
        assert!(of(std::slice::from_ref(&flat)).is_empty());
        assert_eq!(of(&[flat, nested.clone()]), [1]);
        assert_eq!(of(&[nested, tensor("z", "[2,0]", "[[],[]]")]), [0, 1]);
        // Data before its shape and datatype.
        assert_eq!(of(&[r#"{"data":[[1],[2]],"shape":[2,1],"datatype":"INT8","name":"x"}"#.to_owned()]), [0]);
    }

    #[test]
    fn permissive_limits_accept_null_for_nan_and_lower_case_datatypes() {
        let read_by = |permissive: bool, datatype: &str, data: &str| {
            let (spec, limits) = (raw_model(), Limits { permissive, ..Limits::DEFAULT });
            let json = format!(r#"{{"inputs":[{{"name":"x","datatype":"{datatype}","shape":[2],"data":{data}}}]}}"#);
            rest::begin(&spec, json.as_bytes(), 0, &limits)?.finish()
        };
        let bytes = |datatype: &str, data: &str| {
            let request = read_by(true, datatype, data).unwrap().request;
            request.inputs[0].as_ref().unwrap().as_slice().to_vec()
        };
        assert_eq!(bytes("FP32", "[ null , 1.5]"), [f32::NAN, 1.5].map(f32::to_le_bytes).concat());
        assert_eq!(bytes("FP64", "[1e9,null]"), [1e9, f64::NAN].map(f64::to_le_bytes).concat());
        assert_eq!(bytes("FP16", "[null,NaN]"), [0, 0x7e, 0, 0x7e]);
        assert_eq!(bytes("BF16", "[1,null]"), [0x80, 0x3f, 0xc0, 0x7f]);
        assert_eq!(bytes("fp32", "[null,1]"), bytes("Fp32", "[NaN,1]"));
        assert_eq!(bytes("uint8", "[1,2]"), [1, 2]);
        for (datatype, data, expected) in [
            ("FP32", "[null,\"1\"]", "input 'x' has \"1\" at byte 66, FP32 takes"),
            ("FP32", "[nullx,1]", "request JSON at byte 65: expected"),
            ("FP32", "[null]", "input 'x' has 1 elements in 'data', shape [2] expects 2"),
            ("INT8", "[null,1]", "input 'x' has null at byte 61, INT8 takes"),
            ("BYTES", "[null,\"\"]", "input 'x' has null at byte 62, BYTES takes"),
            ("fp8", "[1,2]", "input 'x': unknown datatype 'fp8', expected one of BOOL"),
        ] {
            let text = read_by(true, datatype, data).unwrap_err().message().to_owned();
            assert!(text.starts_with(expected), "{datatype} {data}: {text}");
        }
        let text = |datatype: &str, data: &str| read_by(false, datatype, data).unwrap_err().message().to_owned();
        assert!(text("FP32", "[null,1]").starts_with("input 'x' has null at byte"));
        assert!(text("fp32", "[1,2]").starts_with("input 'x': unknown datatype 'fp32'"));
    }

    proptest::proptest! {
        #[test]
        fn null_decodes_as_nan_in_any_position(
            items in proptest::collection::vec("null|NaN|-?[0-9]{1,4}|1e30|\"a\"|true|nul", 0..6),
            datatype in proptest::sample::select(vec!["FP16", "BF16", "FP32", "FP64", "INT32"]),
        ) {
            let (spec, limits) = (raw_model(), Limits { permissive: true, ..Limits::DEFAULT });
            let read = |items: &[String]| {
                let (count, data) = (items.len(), items.join(" , "));
                let json = format!(r#"{{"inputs":[{{"name":"x","datatype":"{datatype}","shape":[{count}],"data":[{data}]}}]}}"#);
                let decoded = rest::begin(&spec, json.as_bytes(), 0, &limits)?.finish()?;
                Ok::<_, Error>(decoded.request.inputs[0].as_ref().unwrap().as_slice().to_vec())
            };
            let spelled: Vec<_> = items.iter().map(|item| item.replace("null", "NaN")).collect();
            match (read(&items), read(&spelled)) {
                (Ok(one), Ok(other)) => proptest::prop_assert_eq!(one, other),
                (one, other) => proptest::prop_assert_eq!(one.is_err(), other.is_err()),
            }
        }
    }

    #[test]
    fn grpc_raw_request_names_its_tensors() {
        use crate::generated::inference::{
            InferParameter, InferTensorContents, ModelInferRequest,
            infer_parameter::ParameterChoice::StringParam,
            model_infer_request::{InferInputTensor, InferRequestedOutputTensor},
        };
        use crate::grpc::testing::envelope;
        let tensor = |name: &str, datatype: &str, contents| InferInputTensor {
            name: name.to_owned(),
            datatype: datatype.to_owned(),
            shape: vec![2],
            parameters: [("own".to_owned(), InferParameter { parameter_choice: Some(StringParam(name.to_owned())) })]
                .into(),
            contents,
        };
        let typed = |values: &[i32]| Some(InferTensorContents { int_contents: values.to_vec(), ..Default::default() });
        let outputs = vec![InferRequestedOutputTensor { name: "o".to_owned(), ..Default::default() }];
        let read = |message: ModelInferRequest| grpc::decode(&raw_model(), envelope(&message), &Limits::default());
        let inputs = [tensor("y", "INT8", typed(&[1, -1]))];
        let message = ModelInferRequest { inputs: inputs.to_vec(), outputs, ..Default::default() };
        let decoded = read(message.clone()).unwrap();
        assert_eq!(named_tensors(&decoded), [("y", Datatype::Int8, &[2][..], &[1, 255][..])]);
        let raw = decoded.request.raw.unwrap();
        assert_eq!(raw.outputs.as_deref(), Some(&["o".into()][..]));
        assert_eq!(*raw.parameters, [vec![("own".to_owned(), Parameter::String("y".to_owned()))]]);
        assert!(!raw.binary);

        let raw = vec![vec![1, 2].into(), vec![3, 4].into()];
        let inputs = vec![tensor("y", "INT8", None), tensor("x", "UINT8", None)];
        let decoded = read(ModelInferRequest { inputs, raw_input_contents: raw, ..Default::default() }).unwrap();
        assert_eq!(named_tensors(&decoded).iter().map(|one| one.0).collect::<Vec<_>>(), ["y", "x"]);
        assert!(decoded.request.raw.unwrap().binary);

        let refused = |inputs: Vec<InferInputTensor>| {
            read(ModelInferRequest { inputs, ..message.clone() }).unwrap_err().message().to_owned()
        };
        let known = "expected one of BOOL, UINT8,";
        assert!(
            refused(vec![tensor("x", "int8", None)])
                .starts_with(&format!("input 'x' has unknown datatype 'int8', {known}"))
        );
        assert_eq!(refused(vec![tensor("x", "INT8", typed(&[1, 2])); 2]), "input 'x' is given twice");
        assert_eq!(refused(vec![tensor("", "INT8", typed(&[1, 2]))]), "'inputs[0]' has an empty 'name'");
    }

    fn response() -> InferResponse {
        let tensor =
            |value: u8| Tensor::new(Datatype::Uint8, smallvec![1], Buffer::Shared(vec![value].into())).unwrap();
        let head = ResponseHead { names: Box::new(["b".into(), "a".into()]), ..ResponseHead::default() };
        InferResponse {
            outputs: smallvec![tensor(1), tensor(2)],
            head: Some(Box::new(head)),
            ..InferResponse::default()
        }
    }

    #[test]
    fn response_uses_the_output_names_of_its_head() {
        let (spec, plan, response) = (raw_model(), ResponsePlan::default(), response());
        let json = rest::encode(&spec, &plan, &response, &EncodeOptions::default()).unwrap().chunks.concat();
        let outputs = r#"[{"name":"b","datatype":"UINT8","shape":[1],"data":[1]},{"name":"a","datatype":"UINT8","shape":[1],"data":[2]}]"#;
        let text = format!(r#"{{"model_name":"m","model_version":"1","outputs":{outputs}}}"#);
        assert_eq!(String::from_utf8(json).unwrap(), text);
        let message = grpc::response(&spec, &plan, &response).unwrap();
        assert_eq!(message.outputs.iter().map(|output| &*output.name).collect::<Vec<_>>(), ["b", "a"]);
        let npz = bodies::encode(bodies::Format::Npz, &spec, &plan, &response).unwrap().concat();
        assert!(npz.windows(5).any(|part| part == b"a.npy"));
        let error = bodies::encode(bodies::Format::Npy, &spec, &plan, &response).unwrap_err();
        assert!(error.message().starts_with("an npy answer is one output, the request asks for 2"), "{error}");
    }
}
