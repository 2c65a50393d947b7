//! The JSON of an infer request.

use super::{
    parameters::{OutputParameters, RequestParameters},
    request_input::{self, Inputs, Strings},
};
use crate::json::reader::{Reader, Skip};
use crate::{Limits, request_schema::RequestSchema, shared_memory::SharedOutput};
use penstock_core::{Error, ModelSpec, RequestMetadata, RequestedOutput, ResponsePlan, Result};
use smallvec::SmallVec;

/// Members of the JSON. Filled in place, since it is large.
#[derive(Debug)]
pub(super) struct RequestJson<'s> {
    pub(super) schema: RequestSchema<'s>,
    limits: Limits,
    pub(super) inputs: Inputs,
    pub(super) plan: ResponsePlan,
    pub(super) parameters: RequestParameters,
    /// The outputs that go to shared memory.
    pub(super) shared: Vec<SharedOutput>,
}

/// A listed output, and its own parameters.
type Listed = (usize, OutputParameters);

impl<'s> RequestJson<'s> {
    pub(super) fn new(spec: &'s ModelSpec, limits: &Limits) -> Self {
        let (plan, parameters) = (ResponsePlan::default(), RequestParameters::default());
        let schema = RequestSchema::new(spec, limits.permissive);
        let limits = Limits { shared_memory: limits.shared_memory && !spec.raw_requests, ..*limits };
        Self { schema, limits, inputs: Inputs::new(), plan, parameters, shared: Vec::new() }
    }

    /// Reads all of `json`.
    ///
    /// # Errors
    /// `InvalidInput` with the position or the name; `Unsupported` for extensions that this server lacks.
    pub(super) fn read(&mut self, json: &[u8]) -> Result<()> {
        let mut reader = Reader::new(json);
        let mut listed = SmallVec::new();
        let mut has_inputs = false;
        reader.expect(b'{', "a JSON object")?;
        let mut first = true;
        while let Some(key) = reader.key(&mut first)? {
            match &*key.bytes()? {
                b"id" => {
                    self.plan.id.clear();
                    self.plan.id.push_str(&reader.string("a string for 'id'")?.text()?);
                }
                b"inputs" => {
                    has_inputs = true;
                    self.read_inputs(&mut reader)?;
                }
                b"outputs" => self.read_outputs(&mut reader, &mut listed)?,
                b"parameters" => self.parameters.read(&mut reader, self.schema.wants_context)?,
                _ => drop(reader.skip(Skip { max_depth: self.limits.max_depth, outer: 1, non_finite: false })?),
            }
        }
        if reader.peek().is_some() {
            return Err(reader.fault("nothing after the request's object").into());
        }
        if !has_inputs {
            return Err(Error::invalid("the request has no 'inputs'"));
        }
        self.plan_answer(listed);
        Ok(())
    }

    /// An empty list of outputs means all.
    fn plan_answer(&mut self, listed: SmallVec<[Listed; 4]>) {
        let binary = self.parameters.binary_output;
        self.plan.binary = binary;
        if !listed.is_empty() {
            let output = |(index, own): Listed| {
                let shared = own.span.is_some();
                self.shared.extend(own.span.map(|span| SharedOutput { index, span: *span }));
                let binary = own.binary.unwrap_or(binary) && !shared;
                RequestedOutput { index, binary, classes: own.classes, shared }
            };
            self.plan.outputs = Some(listed.into_iter().map(output).collect());
        }
    }

    /// Takes the metadata for the handler, if the model wants it.
    pub(super) fn take_metadata(&mut self) -> Option<Box<RequestMetadata>> {
        self.schema.wants_context.then(|| {
            let parameters = std::mem::take(&mut self.parameters.custom);
            let (id, outputs) = (self.plan.id.clone(), self.plan.requested_indices());
            Box::new(RequestMetadata { id, parameters, outputs, ..RequestMetadata::default() })
        })
    }

    fn read_inputs(&mut self, reader: &mut Reader<'_>) -> Result<()> {
        let most = self.limits.max_inputs;
        self.inputs.clear();
        self.schema.clear_inputs();
        self.plan.base64 = false;
        reader.expect(b'[', "an array for 'inputs'")?;
        let mut first = true;
        while reader.item(&mut first)? {
            if self.inputs.len() == most {
                return Err(Error::invalid(format!("the request has more than {most} inputs")));
            }
            let strings = request_input::read(reader, &mut self.schema, &self.limits, &mut self.inputs)?;
            self.plan.base64 |= strings == Strings::Base64;
        }
        Ok(())
    }

    fn read_outputs(&mut self, reader: &mut Reader<'_>, listed: &mut SmallVec<[Listed; 4]>) -> Result<()> {
        let most = self.limits.max_outputs;
        listed.clear();
        self.schema.clear_outputs();
        reader.expect(b'[', "an array for 'outputs'")?;
        let mut first = true;
        while reader.item(&mut first)? {
            if listed.len() == most {
                return Err(Error::invalid(format!("the request has more than {most} outputs")));
            }
            let output = self.read_output(reader, listed.len())?;
            if listed.iter().any(|(index, _)| *index == output.0) {
                let name = &self.schema.outputs[output.0].name;
                return Err(Error::invalid(format!("output '{name}' is requested twice")));
            }
            listed.push(output);
        }
        Ok(())
    }

    fn read_output(&mut self, reader: &mut Reader<'_>, position: usize) -> Result<Listed> {
        let (mut index, mut parameters) = (None, OutputParameters::default());
        reader.expect(b'{', "an object for each of 'outputs'")?;
        let mut first = true;
        while let Some(key) = reader.key(&mut first)? {
            match &*key.bytes()? {
                b"name" => {
                    let name = reader.string("a string for an output's 'name'")?;
                    index = Some(self.schema.output(&name.text()?, position)?);
                }
                b"parameters" => parameters = OutputParameters::read(reader, self.limits.shared_memory)?,
                _ => drop(reader.skip(Skip { max_depth: self.limits.max_depth, outer: 3, non_finite: false })?),
            }
        }
        let index = index.ok_or_else(|| Error::invalid(format!("'outputs[{position}]' has no 'name'")))?;
        if parameters.classes > 0 {
            self.schema.check_classes(index)?;
        }
        let beside = match &parameters {
            OutputParameters { span: Some(_), classes: 1.., .. } => "'classification'",
            OutputParameters { span: Some(_), binary: Some(true), .. } => "'binary_data' as true",
            _ => return Ok((index, parameters)),
        };
        let name = &self.schema.outputs[index].name;
        Err(Error::invalid(format!("output '{name}' has {beside} together with 'shared_memory_region'")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rest::testing::{add, decode, identity, model, refusal, request, tensor};
    use penstock_core::{Datatype, Parameter};
    use smallvec::smallvec;

    fn two_out() -> ModelSpec {
        let outputs = vec![tensor("o1", Datatype::Fp32, &[None]), tensor("o2", Datatype::Int64, &[None])];
        model("two_out", vec![tensor("x", Datatype::Fp32, &[None])], outputs)
    }

    /// A request with more members than its one input.
    fn with(members: &str) -> String {
        request("FP32", "[1]", "[1]").replacen('{', &format!("{{{members},"), 1)
    }

    #[test]
    fn requested_outputs_are_planned() {
        let plan = |members: &str| decode(&two_out(), &with(members)).unwrap().plan;
        let output = RequestedOutput::new;
        for all in [r#""outputs":[]"#, r#""model_name":"m""#] {
            assert_eq!((plan(all).outputs, plan(all).binary), (None, false));
        }
        let binary = plan(r#""parameters":{"binary_data_output":true}"#);
        assert_eq!((binary.outputs, binary.binary), (None, true));
        assert_eq!(
            plan(r#""outputs":[{"name":"o2"},{"name":"o1","parameters":{"binary_data":true}}]"#).outputs,
            Some(smallvec![output(1, false), output(0, true)])
        );
        // The parameters may come after the outputs that they are the default of.
        let listed = r#""outputs":[{"name":"o1"},{"parameters":{"binary_data":false},"name":"o2"}]"#;
        let plan = plan(&format!(r#"{listed},"parameters":{{"binary_data_output":true}}"#));
        assert_eq!(plan.outputs, Some(smallvec![output(0, true), output(1, false)]));
    }

    #[test]
    fn context_handlers_get_id_and_parameters() {
        let json = with(r#""id":"4\u00322","parameters":{"a":1,"timeout":5,"headers":"h","b":"x"}"#);
        let plain = decode(&two_out(), &json).unwrap();
        assert_eq!((plain.plan.id.as_str(), plain.timeout), ("422", Some(std::time::Duration::from_micros(5))));
        assert!(plain.request.metadata.is_none());
        let with_context = ModelSpec { wants_context: true, ..two_out() };
        let metadata = decode(&with_context, &json).unwrap().request.metadata.unwrap();
        assert_eq!(metadata.id, "422");
        let expected = [("a", Parameter::Int(1)), ("b", Parameter::String("x".to_owned()))];
        assert_eq!(metadata.parameters, expected.map(|(name, value)| (name.to_owned(), value)));
        assert!(metadata.headers.is_empty());
    }

    #[test]
    fn last_of_repeated_keys_wins() {
        let json = with(r#""inputs":[{"name":"x","datatype":"FP32","shape":[0],"data":[]}],"id":"a","id":"b""#);
        let decoded = decode(&two_out(), &json).unwrap();
        assert_eq!(decoded.plan.id, "b");
        assert_eq!(decoded.request.inputs[0].as_ref().unwrap().shape(), [1]);
    }

    #[test]
    fn models_without_required_inputs_accept_empty_inputs() {
        let spec = model("source", Vec::new(), Vec::new());
        assert!(decode(&spec, r#"{"inputs":[]}"#).is_ok());
    }

    #[test]
    fn malformed_requests_are_refused_with_a_reason() {
        let spec = two_out();
        for (json, message) in [
            ("", "request JSON at byte 0: expected a JSON object"),
            ("[]", "request JSON at byte 0: expected a JSON object"),
            ("{", "request JSON at byte 1: expected ',' or '}'"),
            ("{}", "the request has no 'inputs'"),
            (r#"{"inputs":{}}"#, "request JSON at byte 10: expected an array for 'inputs'"),
            (r#"{"inputs":[1]}"#, "request JSON at byte 11: expected an object for each of 'inputs'"),
            (r#"{"inputs":[]}"#, "input 'x' is missing, model 'two_out' expects 'x'"),
            (r#"{"inputs":[]} x"#, "request JSON at byte 14: expected nothing after the request's object"),
            (r#"{"inputs":[]"#, "request JSON at byte 12: expected ',' or '}'"),
            (r#"{"id":42,"inputs":[]}"#, "request JSON at byte 6: expected a string for 'id'"),
            (r#"{"id":null,"inputs":[]}"#, "request JSON at byte 6: expected a string for 'id'"),
            (r#"{"x":NaN,"inputs":[]}"#, "request JSON at byte 5: expected a JSON value"),
            (r#"{"outputs":{}}"#, "request JSON at byte 11: expected an array for 'outputs'"),
            (r#"{"outputs":["o1"]}"#, "request JSON at byte 12: expected an object for each of 'outputs'"),
            (r#"{"outputs":[{}]}"#, "'outputs[0]' has no 'name'"),
            (r#"{"outputs":[{"name":1}]}"#, "request JSON at byte 20: expected a string for an output's 'name'"),
            (
                r#"{"outputs":[{"name":"zzz"}]}"#,
                "unexpected inference output 'zzz' for model 'two_out', expected 'o1', 'o2'",
            ),
            (r#"{"outputs":[{"name":"o1"},{"name":"o1"}]}"#, "output 'o1' is requested twice"),
            (r#"{"parameters":[]}"#, "request JSON at byte 14: expected an object of 'parameters'"),
            (r#"{"parameters":{"triton_x":1}}"#, "parameter 'triton_x' is reserved, names with 'triton_' are refused"),
        ] {
            assert_eq!(refusal(&spec, json), message, "{json}");
        }
        let deep = format!(r#"{{"x":{}"#, "[".repeat(10_000));
        assert_eq!(refusal(&spec, &deep), "request JSON at byte 68: expected at most 64 levels of nesting");
        let deep = request("FP32", "[1]", &"[".repeat(10_000));
        assert!(refusal(&spec, &deep).ends_with("expected at most 64 levels of nesting"));
    }

    #[test]
    fn classification_requires_an_ordered_datatype() {
        let listed = |name| with(&format!(r#""outputs":[{{"parameters":{{"classification":3}},"name":"{name}"}}]"#));
        let plan = decode(&two_out(), &listed("o2")).unwrap().plan;
        assert_eq!(plan.outputs, Some(smallvec![RequestedOutput { classes: 3, ..RequestedOutput::new(1, false) }]));
        let half = ModelSpec { outputs: vec![tensor("o1", Datatype::Fp16, &[None])], ..two_out() };
        assert_eq!(
            refusal(&half, &listed("o1")),
            "output 'o1' cannot be classified: its datatype is FP16, expected integers, FP32 or FP64"
        );
    }

    #[test]
    fn input_and_output_counts_are_bounded() {
        let limits = Limits { max_inputs: 1, max_outputs: 1, ..Limits::default() };
        let refused = |spec: &ModelSpec, json: &str| {
            super::super::begin(spec, json.as_bytes(), 0, &limits).unwrap_err().message().to_owned()
        };
        let input = |name| format!(r#"{{"name":"{name}","datatype":"FP32","shape":[1,4],"data":[1,2,3,4]}}"#);
        let json = format!(r#"{{"inputs":[{},{}]}}"#, input("a"), input("b"));
        assert_eq!(refused(&add(), &json), "the request has more than 1 inputs");
        let outputs = with(r#""outputs":[{"name":"o1"},{"name":"o2"}]"#);
        assert_eq!(refused(&two_out(), &outputs), "the request has more than 1 outputs");
    }

    #[test]
    fn missing_repeated_and_mismatched_inputs_are_refused() {
        let input = |name, rows: usize| {
            format!(r#"{{"name":"{name}","datatype":"FP32","shape":[{rows},4],"data":{:?}}}"#, vec![0; rows * 4])
        };
        let json = |inputs: &[String]| format!(r#"{{"inputs":[{}]}}"#, inputs.join(","));
        assert_eq!(decode(&add(), &json(&[input("b", 2), input("a", 2)])).unwrap().request.rows, 2);
        for (inputs, message) in [
            (vec![input("a", 1)], "input 'b' is missing, model 'add' expects 'a', 'b'"),
            (vec![input("a", 1), input("a", 1)], "input 'a' is given twice"),
            (vec![input("a", 1), input("b", 2)], "input 'b' has a batch of 2 rows, the inputs before it have 1"),
        ] {
            assert_eq!(refusal(&add(), &json(&inputs)), message);
        }
        assert!(decode(&identity(Datatype::Fp32, &[None]), &request("FP32", "[1]", "[1]")).is_ok());
    }
}
