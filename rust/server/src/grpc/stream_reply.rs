//! Messages of `ModelStreamInfer` that answer a request.

use super::{
    infer::check_head,
    respond::{self, FramedMessages},
};
use crate::{infer::Responses, state::ResponseMemory};
use bytes::BytesMut;
use penstock_core::{Error, InferResponse, ResponsePlan, Result};
use penstock_wire::{
    generated::inference as pb,
    grpc::{self as wire, RequestMessage},
};

/// Parameter of a request that expects a final response without outputs.
const EMPTY_FINAL: &str = "triton_enable_empty_final_response";

/// Responses, or the message of an error.
pub(super) struct StreamReply {
    messages: FramedMessages,
    error: Option<Error>,
}

impl StreamReply {
    pub(super) fn is_error(&self) -> bool {
        self.error.is_some()
    }

    /// Returns the messages; where errors end the call, the error.
    pub(super) fn messages(self, strict: bool) -> Result<FramedMessages> {
        match self.error {
            Some(error) if strict => Err(error),
            _ => Ok(self.messages),
        }
    }
}

impl From<FramedMessages> for StreamReply {
    fn from(messages: FramedMessages) -> Self {
        Self { messages, error: None }
    }
}

/// Fields of a request that its responses repeat.
pub(super) struct RequestEcho {
    id: String,
    model: String,
    version: String,
    wants_end: bool,
}

impl RequestEcho {
    pub(super) fn of(message: &RequestMessage) -> Self {
        let end = message.parameters.get(EMPTY_FINAL).and_then(|parameter| parameter.parameter_choice.as_ref());
        Self {
            id: message.id.clone(),
            model: message.model_name.clone(),
            version: message.model_version.clone(),
            wants_end: end == Some(&pb::infer_parameter::ParameterChoice::BoolParam(true)),
        }
    }

    pub(super) fn reply(&self, responses: &mut Responses, response: InferResponse, last: bool) -> StreamReply {
        let mut frame = BytesMut::new();
        match self.put(&mut frame, responses, response, last) {
            Ok(held) => FramedMessages { frames: frame.freeze(), held }.into(),
            Err(error) => self.error(error),
        }
    }

    /// Appends the framed message of a response, and returns its reserved memory.
    ///
    /// # Errors
    /// Those of the encoder; `Overloaded` when the limit on all responses is reached. They end the request.
    pub(super) fn put(
        &self,
        out: &mut BytesMut,
        responses: &mut Responses,
        response: InferResponse,
        last: bool,
    ) -> Result<Option<ResponseMemory>> {
        let before = out.len();
        let spec = responses.model().spec();
        let put = check_head(responses.model(), &response)
            .and_then(|()| wire::put_stream_response(out, spec, &responses.plan, &response, last))
            .and_then(|()| ResponseMemory::of(responses.app(), out.len() - before));
        if put.is_ok() {
            responses.sent(out.len() - before);
        }
        put.inspect_err(|error| {
            out.truncate(before);
            responses.fail(error);
        })
    }

    /// Returns the final response without outputs, if the request expects it.
    pub(super) fn at_end(&self, responses: &Responses) -> Option<StreamReply> {
        self.wants_end.then(|| self.end(responses))
    }

    /// Builds the final response without outputs.
    fn end(&self, responses: &Responses) -> StreamReply {
        let spec = responses.model().spec();
        let response = InferResponse::default();
        let plan = ResponsePlan { id: self.id.clone(), outputs: Some(Default::default()), ..ResponsePlan::default() };
        let mut frame = BytesMut::new();
        // Without outputs it cannot fail.
        let _ = wire::put_stream_response(&mut frame, spec, &plan, &response, true);
        FramedMessages::from(frame.freeze()).into()
    }

    pub(super) fn error(&self, error: Error) -> StreamReply {
        let last = pb::infer_parameter::ParameterChoice::BoolParam(true);
        let response = pb::ModelInferResponse {
            model_name: self.model.clone(),
            model_version: self.version.clone(),
            id: self.id.clone(),
            parameters: [(wire::FINAL_RESPONSE.to_owned(), pb::InferParameter { parameter_choice: Some(last) })].into(),
            ..pb::ModelInferResponse::default()
        };
        let message =
            pb::ModelStreamInferResponse { error_message: error.message().to_owned(), infer_response: Some(response) };
        // A text that is too long for a message would be one that is too long for this process.
        let frame = respond::framed(&message).unwrap_or_default();
        StreamReply { messages: frame.into(), error: Some(error) }
    }
}
