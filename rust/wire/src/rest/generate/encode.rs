//! Encodes generate responses, and the events of all streams.

use crate::{
    json::{
        string,
        write::{self, Style},
    },
    rest::{
        encode::{self, EncodeOptions, write_parameter, write_parameters},
        error, plain,
        values::Writers,
    },
};
use penstock_core::{Error, InferResponse, Kind, ModelSpec, Parameters, ResponsePlan, Result};

/// Form of a stream's responses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// As those of the infer protocol, in JSON.
    Infer,
    /// Flat objects; with `details`, the handler's parameters are in an object of that name.
    Generated {
        /// The request has `details`.
        details: bool,
    },
    /// Values in the types of the model's handler.
    Plain,
}

/// Encoder of the responses to one request.
#[derive(Clone, Copy, Debug)]
pub struct Writer<'a> {
    /// The model.
    pub spec: &'a ModelSpec,
    /// The request's plan.
    pub plan: &'a ResponsePlan,
    /// Form of the responses.
    pub form: Form,
    /// Choices of the server.
    pub options: EncodeOptions,
}

const BEGIN: &[u8] = b"data: ";
const END: &[u8] = b"\n\n";

/// An error as a server-sent event.
pub fn error_event(error: &Error) -> Vec<u8> {
    [BEGIN, &error::body(error), END].concat()
}

impl Writer<'_> {
    /// Appends a response as one server-sent event: `data: `, its JSON, and an empty line.
    ///
    /// # Errors
    /// As for [`Writer::object`]; nothing is appended then.
    pub fn event(&self, out: &mut Vec<u8>, response: &InferResponse) -> Result<()> {
        let before = out.len();
        out.extend_from_slice(BEGIN);
        let written = self.object(out, response);
        match written {
            Ok(()) => out.extend_from_slice(END),
            Err(_) => out.truncate(before),
        }
        written
    }

    /// Appends a response as one JSON object.
    ///
    /// The members of a generated object are `id`, `model_name`, `model_version`, the handler's parameters and all
    /// outputs. An output of one element is a scalar, any other a flat list; a JSON document is itself.
    ///
    /// # Errors
    /// `InvalidInput` for a BYTES output that is not text; `Internal` when outputs are missing.
    pub fn object(&self, out: &mut Vec<u8>, response: &InferResponse) -> Result<()> {
        match self.form {
            Form::Infer => {
                let encoded = encode::encode(self.spec, self.plan, response, &self.options)?;
                encoded.chunks.iter().for_each(|chunk| out.extend_from_slice(chunk));
                Ok(())
            }
            Form::Generated { details } => self.generated(out, response, details),
            Form::Plain => plain::append(out, self.spec, response, &self.options),
        }
    }

    fn generated(&self, out: &mut Vec<u8>, response: &InferResponse, details: bool) -> Result<()> {
        let spec = self.spec;
        if response.outputs.len() != spec.outputs.len() {
            return Err(Error::new(Kind::Internal, format!("the response lacks outputs of model '{}'", spec.name)));
        }
        out.push(b'{');
        if !self.plan.id.is_empty() {
            out.extend_from_slice(b"\"id\":");
            string::write(out, &self.plan.id);
            out.push(b',');
        }
        out.extend_from_slice(b"\"model_name\":");
        string::write(out, &spec.name);
        out.extend_from_slice(b",\"model_version\":");
        string::write(out, &spec.version);
        let strict = self.options.strict_json;
        write_handler_parameters(out, spec, &response.parameters, details, strict);
        let outputs = spec.outputs.iter().zip(&response.outputs);
        for (declared, tensor) in outputs.filter(|(_, tensor)| !tensor.is_absent()) {
            out.push(b',');
            string::write(out, &declared.name);
            out.push(b':');
            let start = out.len();
            if declared.document {
                Writers::of_output(declared, tensor, self.options).write(out, false)?;
                continue;
            }
            write::write(out, &declared.name, tensor, Style { strict, base64: false })?;
            if tensor.shape().iter().product::<usize>() == 1 {
                // The brackets of the only element.
                out.pop();
                out.remove(start);
            }
        }
        out.push(b'}');
        Ok(())
    }
}

/// Writes the handler's parameters. One with the name of another member is left out, since the object would have two
/// members of one name.
fn write_handler_parameters(out: &mut Vec<u8>, spec: &ModelSpec, parameters: &Parameters, details: bool, strict: bool) {
    if details {
        out.extend_from_slice(b",\"details\":");
        if parameters.is_empty() {
            out.extend_from_slice(b"{}");
        } else {
            write_parameters(out, parameters, strict);
        }
        return;
    }
    for (name, value) in parameters {
        let taken = ["id", "model_name", "model_version"].contains(&name.as_str())
            || spec.outputs.iter().any(|output| *output.name == **name);
        if !taken {
            out.push(b',');
            string::write(out, name);
            out.push(b':');
            write_parameter(out, value, strict);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rest::testing::{model, tensor};
    use bytes::Bytes;
    use penstock_core::{Buffer, Datatype, Parameter, Tensor, Timings};
    use smallvec::smallvec;

    fn spec() -> ModelSpec {
        let outputs = vec![tensor("text", Datatype::Bytes, &[Some(1)]), tensor("n", Datatype::Int32, &[None])];
        model("m", Vec::new(), outputs)
    }

    fn response(numbers: &[i32]) -> InferResponse {
        let text =
            Tensor::new(Datatype::Bytes, smallvec![1], Buffer::Shared(Bytes::from_static(b"\x02\0\0\0h\""))).unwrap();
        let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        let n = Tensor::new(Datatype::Int32, smallvec![numbers.len()], Buffer::Shared(bytes.into())).unwrap();
        let parameters = vec![("finish".to_owned(), Parameter::Bool(true)), ("n".to_owned(), Parameter::Int(0))];
        InferResponse { outputs: smallvec![text, n], parameters, timings: Timings::default(), head: None }
    }

    fn written(plan: &ResponsePlan, numbers: &[i32], details: bool) -> String {
        let (spec, mut out) = (spec(), Vec::new());
        let form = Form::Generated { details };
        let writer = Writer { spec: &spec, plan, form, options: EncodeOptions::default() };
        writer.object(&mut out, &response(numbers)).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn one_element_is_a_scalar_and_others_a_flat_list() {
        let plan = ResponsePlan { id: "7".into(), ..ResponsePlan::default() };
        let head = r#"{"id":"7","model_name":"m","model_version":"1","finish":true,"text":"h\"","n":"#;
        for (numbers, tail) in [(&[5][..], "5}"), (&[], "[]}"), (&[1, -2], "[1,-2]}")] {
            assert_eq!(written(&plan, numbers, false), format!("{head}{tail}"));
        }
    }

    #[test]
    fn details_are_a_separate_object() {
        assert_eq!(
            written(&ResponsePlan::default(), &[5], true),
            r#"{"model_name":"m","model_version":"1","details":{"finish":true,"n":0},"text":"h\"","n":5}"#
        );
    }

    #[test]
    fn generate_events_have_exact_framing() {
        let mut out = Vec::new();
        let (spec, plan, options) = (spec(), ResponsePlan::default(), EncodeOptions::default());
        for form in [Form::Generated { details: false }, Form::Infer] {
            Writer { spec: &spec, plan: &plan, form, options }.event(&mut out, &response(&[5])).unwrap();
        }
        let text = String::from_utf8(out).unwrap();
        let events: Vec<&str> = text.split_inclusive("\n\n").collect();
        assert_eq!(events.len(), 2);
        assert!(events.iter().all(|event| event.starts_with("data: {") && event.ends_with("}\n\n")));
        assert!(events[1].contains(r#""outputs":[{"name":"text""#));
        assert_eq!(error_event(&Error::invalid("no")), b"data: {\"error\":\"no\"}\n\n");
    }
}
