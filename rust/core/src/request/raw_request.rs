//! Requests as they are: what an open model is handed beside tensors, and what it tells beside them.
//!
//! An open model declares no inputs and outputs. It takes any tensors, or a whole HTTP request to a path of its own, and
//! each request is answered by itself: rows are never joined.

use super::{Headers, InferResponse, Parameters, Timings};
use crate::{Error, ModelSpec, Outputs, Queueing, Result, TensorSpec, VersionPolicy};
use bytes::Bytes;
use std::{borrow::Cow, sync::Arc};

/// What an open model is told of a request.
#[derive(Clone, Debug, Default)]
pub struct RawRequest {
    /// The names of its tensors, in the order in which they were sent.
    pub names: Box<[Box<str>]>,
    /// The outputs that it asks for, in that order; `None` for all.
    pub outputs: Option<Box<[Box<str>]>>,
    /// The custom parameters of each tensor; empty if none has any.
    pub parameters: Box<[Parameters]>,
    /// The places of those tensors in `names` whose JSON was nested as their shapes.
    pub nested: Box<[usize]>,
    /// Whether its tensors came as raw bytes.
    pub binary: bool,
    /// The HTTP request, if it came to one of the model's own paths; it has no tensors then.
    pub http: Option<Box<HttpRequest>>,
}

/// An HTTP request to a path of a model's own. Its headers are the caller's.
#[derive(Clone, Debug)]
pub struct HttpRequest {
    /// The route that it came to, as it was declared: `POST /score/{customer}`.
    pub route: Arc<str>,
    /// Its method, in capitals.
    pub method: Cow<'static, str>,
    /// Its path as it was sent.
    pub path: String,
    /// What follows the `?`; empty without one.
    pub query: String,
    /// What the named parts of the route stand for here, decoded.
    pub path_params: Vec<(Arc<str>, String)>,
    /// Its body.
    pub body: Bytes,
    /// Why the model that this one is the [`Fallback`] of could not answer.
    pub primary_error: Option<Error>,
}

/// What an open model tells beside tensors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResponseHead {
    /// The names of the answer's tensors, in their order.
    pub names: Box<[Box<str>]>,
    /// The HTTP status.
    pub status: u16,
    /// Further headers; over gRPC initial metadata.
    pub headers: Headers,
    /// The whole body, in place of tensors.
    pub body: Option<Bytes>,
    /// The answer's id, where it is not the request's.
    pub id: Option<Box<str>>,
}

impl ResponseHead {
    /// The content type of a body that is a message of gRPC.
    const MESSAGE: &str = "application/grpc";

    /// A body that is the answer's message over gRPC, as it is.
    pub fn message(&self) -> Option<&Bytes> {
        let says_so = |(name, value): (&str, &str)| {
            name.eq_ignore_ascii_case("content-type") && value.eq_ignore_ascii_case(Self::MESSAGE)
        };
        self.body.as_ref().filter(|_| self.headers.iter().any(says_so))
    }
}

/// What a handler made of one request by itself, with its outputs as `T`.
#[derive(Clone, Debug, Default)]
pub struct RequestOutput<T = Outputs> {
    /// The outputs: in declaration order, or with the names that `told` has.
    pub outputs: T,
    /// Parameters for this answer alone.
    pub parameters: Parameters,
    /// What an open model tells; `None` for any other.
    pub head: Option<Box<ResponseHead>>,
}

impl ModelSpec {
    /// What one request to an open model declares of itself, or its answer does.
    #[must_use]
    pub fn for_raw_request(&self, inputs: Vec<TensorSpec>, outputs: Vec<TensorSpec>) -> Self {
        Self {
            name: Arc::clone(&self.name),
            version: Arc::clone(&self.version),
            platform: Arc::clone(&self.platform),
            version_policy: VersionPolicy::All,
            description: Arc::clone(&self.description),
            inputs,
            outputs,
            batching: None,
            max_queue: self.max_queue,
            queueing: Queueing::default(),
            sequences: None,
            cache: None,
            resources: None,
            instances: self.instances,
            wants_context: self.wants_context,
            streams: self.streams,
            buckets: Arc::clone(&self.buckets),
            check_shapes: false,
            raw_requests: true,
            lenient: self.lenient,
            routes: Vec::new(),
            fallback: None,
        }
    }
}

impl InferResponse {
    /// The name of an output: as declared, or as an open model told it.
    pub fn output_name<'a>(&'a self, spec: &'a ModelSpec, index: usize) -> Option<&'a str> {
        match &self.head {
            Some(told) => told.names.get(index).map(|name| &**name),
            None => spec.outputs.get(index).map(|output| &*output.name),
        }
    }

    /// What an open model's answer declares of itself; `None` for that of any other.
    pub fn raw_spec(&self, spec: &ModelSpec) -> Option<ModelSpec> {
        let told = self.head.as_ref()?;
        let outputs = told.names.iter().zip(&self.outputs);
        let outputs = outputs.map(|(name, tensor)| {
            TensorSpec::new(name, tensor.datatype(), tensor.shape().iter().map(|&dim| Some(dim)).collect())
        });
        Some(spec.for_raw_request(Vec::new(), outputs.collect()))
    }
}

impl Default for ResponseHead {
    /// A good answer without tensors.
    fn default() -> Self {
        Self { names: Box::default(), status: 200, headers: Headers::default(), body: None, id: None }
    }
}

impl From<Outputs> for RequestOutput {
    fn from(outputs: Outputs) -> Self {
        Self { outputs, ..Self::default() }
    }
}

impl<T> RequestOutput<T> {
    /// The same with its outputs made of what they were.
    pub fn map<U>(self, make: impl FnOnce(T) -> Option<U>) -> Option<RequestOutput<U>> {
        let Self { outputs, parameters, head: told } = self;
        Some(RequestOutput { outputs: make(outputs)?, parameters, head: told })
    }
}

impl RequestOutput {
    /// The answer of which it is, with the parameters that all of its batch get.
    pub(crate) fn response(self, common: &Parameters, timings: Timings) -> InferResponse {
        let Self { outputs, parameters: own, head: told } = self;
        let parameters = if own.is_empty() { common.clone() } else { common.iter().cloned().chain(own).collect() };
        InferResponse { outputs, parameters, timings, head: told }
    }

    /// The same with the outputs that were asked for only, in that order.
    ///
    /// # Errors
    /// `InvalidInput` for one that the answer does not have; `Handler` for names that are given twice.
    pub(crate) fn select_outputs(mut self, model: &str, asked: Option<&RawRequest>) -> Result<Self> {
        let Some(told) = self.head.as_deref_mut() else { return Ok(self) };
        if told.body.is_some() {
            self.outputs.clear();
            told.names = Box::default();
            return Ok(self);
        }
        let names = &told.names;
        if let Some((_, name)) = names.iter().enumerate().find(|(place, name)| names[..*place].contains(name)) {
            return Err(Error::handler(format!("model '{model}' returned output '{name}' twice")));
        }
        let Some(wanted) = asked.and_then(|asked| asked.outputs.as_deref()) else { return Ok(self) };
        let place = |wanted: &str| {
            names.iter().position(|name| **name == *wanted).ok_or_else(|| {
                let has = names.iter().map(|name| format!("'{name}'")).collect::<Vec<_>>().join(", ");
                let has = if has.is_empty() { "none" } else { &has };
                Error::invalid(format!("unexpected inference output '{wanted}' for model '{model}', expected {has}"))
            })
        };
        self.outputs = wanted.iter().map(|name| Ok(self.outputs[place(name)?].clone())).collect::<Result<_>>()?;
        told.names = wanted.into();
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fp32, values};
    use smallvec::smallvec;

    fn answer(names: &[&str]) -> RequestOutput {
        let outputs = (0_u8..).zip(names).map(|(value, _)| fp32(&[1], &[f32::from(value)])).collect();
        let names = names.iter().map(|&name| name.into()).collect();
        RequestOutput {
            outputs,
            head: Some(Box::new(ResponseHead { names, ..ResponseHead::default() })),
            ..RequestOutput::default()
        }
    }

    fn asked(outputs: &[&str]) -> RawRequest {
        RawRequest { outputs: Some(outputs.iter().map(|&name| name.into()).collect()), ..RawRequest::default() }
    }

    #[test]
    fn an_answer_has_what_was_asked_for_in_that_order() {
        let all = answer(&["a", "b", "c"]).select_outputs("m", Some(&RawRequest::default())).unwrap();
        assert_eq!(all.outputs.len(), 3);
        let two = answer(&["a", "b", "c"]).select_outputs("m", Some(&asked(&["c", "a"]))).unwrap();
        assert_eq!(*two.head.unwrap().names, ["c".into(), "a".into()]);
        assert_eq!(two.outputs.iter().flat_map(values).collect::<Vec<_>>(), [2.0, 0.0]);
    }

    #[test]
    fn what_an_answer_does_not_have_is_named() {
        let refused = |names: &[&str], wanted: &[&str]| {
            answer(names).select_outputs("m", Some(&asked(wanted))).unwrap_err().message().to_owned()
        };
        assert_eq!(refused(&["a", "b"], &["z"]), "unexpected inference output 'z' for model 'm', expected 'a', 'b'");
        assert_eq!(refused(&[], &["z"]), "unexpected inference output 'z' for model 'm', expected none");
        assert_eq!(refused(&["a", "a"], &["a"]), "model 'm' returned output 'a' twice");
    }

    #[test]
    fn a_body_stands_in_place_of_outputs() {
        let mut own = answer(&["a"]);
        own.head.as_mut().unwrap().body = Some(Bytes::from_static(b"no"));
        let own = own.select_outputs("m", Some(&asked(&["z"]))).unwrap();
        assert!(own.outputs.is_empty() && own.head.unwrap().names.is_empty());
        let plain = RequestOutput::from(smallvec![fp32(&[1], &[1.0])]).select_outputs("m", None).unwrap();
        assert_eq!(plain.outputs.len(), 1);
    }
}
