//! Raw-request models: requests without declared tensors, and responses with a status, headers or a body.
//!
//! A raw-request model declares no inputs and outputs. It accepts any tensors, or a raw HTTP request to one of its
//! routes. A batch is a list of whole requests: rows are not joined.

use super::{Headers, InferResponse, Parameters, RequestedOutput, SplicedBody, Timings};
use crate::{Error, ModelSpec, Outputs, Queueing, Result, TensorSpec, VersionPolicy};
use bytes::Bytes;
use std::{borrow::Cow, sync::Arc};

/// Undeclared parts of a request.
#[derive(Clone, Debug, Default)]
pub struct RawRequest {
    /// Names of the tensors, in the order of the request.
    pub names: Box<[Box<str>]>,
    /// Requested outputs in order; `None` for all.
    pub outputs: Option<Box<[Box<str>]>>,
    /// Custom parameters of each tensor; empty if no tensor has any.
    pub parameters: Box<[Parameters]>,
    /// Indices of the tensors in `names` whose JSON was nested like their shapes.
    pub nested: Box<[usize]>,
    /// The tensors were sent as raw bytes.
    pub binary: bool,
    /// HTTP request to a route of the model; such a request has no tensors.
    pub http: Option<Box<HttpRequest>>,
    /// The response may be announced as an event stream: it has an HTTP head.
    pub takes_events: bool,
}

/// HTTP request to a route of a model. Its headers are in [`super::RequestMetadata`].
#[derive(Clone, Debug)]
pub struct HttpRequest {
    /// The declared route: `POST /score/{customer}`.
    pub route: Arc<str>,
    /// Method in upper case.
    pub method: Cow<'static, str>,
    /// Path as sent.
    pub path: String,
    /// Query string after the `?`; empty without one.
    pub query: String,
    /// Values of the route's parameters, decoded.
    pub path_params: Vec<(Arc<str>, String)>,
    /// Body.
    pub body: Bytes,
    /// Error of the primary model, if this model is its [`crate::Fallback`].
    pub primary_error: Option<Error>,
}

/// Status, headers or body of a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResponseHead {
    /// Names of the response's tensors, in order.
    pub names: Box<[Box<str>]>,
    /// HTTP status.
    pub status: u16,
    /// Additional headers; initial metadata over gRPC.
    pub headers: Headers,
    /// Complete body, in place of tensors.
    pub body: Option<Bytes>,
    /// Bytes that follow `body`, in a chunk of a streamed response over HTTP. Other protocols ignore them.
    pub splice: Option<SplicedBody>,
    /// Id of the response, if it differs from the request's.
    pub id: Option<Box<str>>,
    /// Announces that an event stream follows, which may begin late. It is not a response: the next chunk is the first.
    pub announces_events: bool,
    /// Event for an event stream that has begun already, in place of this response.
    pub event: Option<Bytes>,
}

impl ResponseHead {
    /// Content type of a body that is a gRPC message.
    const MESSAGE: &str = "application/grpc";

    /// The body, if it is a complete gRPC response message.
    pub fn message(&self) -> Option<&Bytes> {
        let says_so = |(name, value): (&str, &str)| {
            name.eq_ignore_ascii_case("content-type") && value.eq_ignore_ascii_case(Self::MESSAGE)
        };
        self.body.as_ref().filter(|_| self.headers.iter().any(says_so))
    }
}

/// Handler's result for one request, with outputs of type `T`.
#[derive(Clone, Debug, Default)]
pub struct RequestOutput<T = Outputs> {
    /// Outputs: in declaration order, or named by `head`.
    pub outputs: T,
    /// Parameters of this response only.
    pub parameters: Parameters,
    /// Response head of a raw-request model; `None` for other models.
    pub head: Option<Box<ResponseHead>>,
}

impl ModelSpec {
    /// Declaration of one request to, or one response of, a raw-request model.
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
            iterative: None,
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
            plain_types: false,
            raw_requests: true,
            routes: Vec::new(),
            fallback: None,
            stall_timeout: self.stall_timeout,
        }
    }
}

impl InferResponse {
    /// Name of an output: declared, or from the response head.
    pub fn output_name<'a>(&'a self, spec: &'a ModelSpec, index: usize) -> Option<&'a str> {
        match &self.head {
            Some(head) => head.names.get(index).map(|name| &**name),
            None => spec.outputs.get(index).map(|output| &*output.name),
        }
    }

    /// Reports whether the elements of an output are sent as JSON documents.
    pub fn is_document(&self, spec: &ModelSpec, requested: RequestedOutput) -> bool {
        let declared = self.head.is_none() && requested.classes == 0;
        declared && spec.outputs.get(requested.index).is_some_and(|output| output.document)
    }

    /// Reports whether it announces an event stream; see [`ResponseHead::announces_events`].
    pub fn announces_events(&self) -> bool {
        self.head.as_ref().is_some_and(|head| head.announces_events)
    }

    /// Declaration of a raw-request model's response; `None` for other models.
    pub fn raw_spec(&self, spec: &ModelSpec) -> Option<ModelSpec> {
        let head = self.head.as_ref()?;
        let outputs = head.names.iter().zip(&self.outputs);
        let outputs = outputs.map(|(name, tensor)| {
            TensorSpec::new(name, tensor.datatype(), tensor.shape().iter().map(|&dim| Some(dim)).collect())
        });
        Some(spec.for_raw_request(Vec::new(), outputs.collect()))
    }
}

impl Default for ResponseHead {
    /// Status 200 without tensors.
    fn default() -> Self {
        Self {
            names: Box::default(),
            status: 200,
            headers: Headers::default(),
            body: None,
            splice: None,
            id: None,
            announces_events: false,
            event: None,
        }
    }
}

impl From<Outputs> for RequestOutput {
    fn from(outputs: Outputs) -> Self {
        Self { outputs, ..Self::default() }
    }
}

impl<T> RequestOutput<T> {
    /// Reports whether it announces an event stream; see [`ResponseHead::announces_events`].
    pub fn announces_events(&self) -> bool {
        self.head.as_ref().is_some_and(|head| head.announces_events)
    }

    /// Maps the outputs; `None` if `make` returns `None`.
    pub fn map<U>(self, make: impl FnOnce(T) -> Option<U>) -> Option<RequestOutput<U>> {
        let Self { outputs, parameters, head } = self;
        Some(RequestOutput { outputs: make(outputs)?, parameters, head })
    }
}

impl RequestOutput {
    /// Builds the response; `common` are the parameters of the whole batch.
    pub(crate) fn response(self, common: &Parameters, timings: Timings) -> InferResponse {
        let Self { outputs, parameters: own, head } = self;
        let parameters = if own.is_empty() { common.clone() } else { common.iter().cloned().chain(own).collect() };
        InferResponse { outputs, parameters, timings, head }
    }

    /// Selects the requested outputs, in that order.
    ///
    /// # Errors
    /// `InvalidInput`: a requested output is missing. `Handler`: two outputs have one name.
    pub(crate) fn select_outputs(mut self, model: &str, raw: Option<&RawRequest>) -> Result<Self> {
        let Some(head) = self.head.as_deref_mut() else { return Ok(self) };
        if head.body.is_some() {
            self.outputs.clear();
            head.names = Box::default();
            return Ok(self);
        }
        let names = &head.names;
        if let Some((_, name)) = names.iter().enumerate().find(|(place, name)| names[..*place].contains(name)) {
            return Err(Error::handler(format!("model '{model}' returned output '{name}' twice")));
        }
        let Some(wanted) = raw.and_then(|raw| raw.outputs.as_deref()) else { return Ok(self) };
        let place = |wanted: &str| {
            names.iter().position(|name| **name == *wanted).ok_or_else(|| {
                let has = names.iter().map(|name| format!("'{name}'")).collect::<Vec<_>>().join(", ");
                let has = if has.is_empty() { "none" } else { &has };
                Error::invalid(format!("unexpected inference output '{wanted}' for model '{model}', expected {has}"))
            })
        };
        self.outputs = wanted.iter().map(|name| Ok(self.outputs[place(name)?].clone())).collect::<Result<_>>()?;
        head.names = wanted.into();
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fp32, values};
    use smallvec::smallvec;

    fn request_output(names: &[&str]) -> RequestOutput {
        let outputs = (0_u8..).zip(names).map(|(value, _)| fp32(&[1], &[f32::from(value)])).collect();
        let names = names.iter().map(|&name| name.into()).collect();
        RequestOutput {
            outputs,
            head: Some(Box::new(ResponseHead { names, ..ResponseHead::default() })),
            ..RequestOutput::default()
        }
    }

    fn raw_request(outputs: &[&str]) -> RawRequest {
        RawRequest { outputs: Some(outputs.iter().map(|&name| name.into()).collect()), ..RawRequest::default() }
    }

    #[test]
    fn requested_outputs_are_returned_in_the_requested_order() {
        let all = request_output(&["a", "b", "c"]).select_outputs("m", Some(&RawRequest::default())).unwrap();
        assert_eq!(all.outputs.len(), 3);
        let two = request_output(&["a", "b", "c"]).select_outputs("m", Some(&raw_request(&["c", "a"]))).unwrap();
        assert_eq!(*two.head.unwrap().names, ["c".into(), "a".into()]);
        assert_eq!(two.outputs.iter().flat_map(values).collect::<Vec<_>>(), [2.0, 0.0]);
    }

    #[test]
    fn missing_and_repeated_outputs_are_named() {
        let refused = |names: &[&str], wanted: &[&str]| {
            request_output(names).select_outputs("m", Some(&raw_request(wanted))).unwrap_err().message().to_owned()
        };
        assert_eq!(refused(&["a", "b"], &["z"]), "unexpected inference output 'z' for model 'm', expected 'a', 'b'");
        assert_eq!(refused(&[], &["z"]), "unexpected inference output 'z' for model 'm', expected none");
        assert_eq!(refused(&["a", "a"], &["a"]), "model 'm' returned output 'a' twice");
    }

    #[test]
    fn response_body_replaces_outputs() {
        let mut own = request_output(&["a"]);
        own.head.as_mut().unwrap().body = Some(Bytes::from_static(b"no"));
        let own = own.select_outputs("m", Some(&raw_request(&["z"]))).unwrap();
        assert!(own.outputs.is_empty() && own.head.unwrap().names.is_empty());
        let plain = RequestOutput::from(smallvec![fp32(&[1], &[1.0])]).select_outputs("m", None).unwrap();
        assert_eq!(plain.outputs.len(), 1);
    }
}
