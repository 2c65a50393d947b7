//! Messages of `ModelStreamInfer` that answer a request.

use super::infer::check_head;
use crate::{infer::Responses, state::ResponseMemory};
use bytes::Bytes;
use penstock_core::{Error, InferResponse, Parameter, ResponsePlan, Result, Timings};
use penstock_wire::{
    generated::inference as pb,
    grpc::{self as wire, RequestMessage},
};

/// Parameter that marks the last response to a request, as Triton's clients expect.
const FINAL: &str = "triton_final_response";
/// Parameter of a request that expects a final response without outputs.
const EMPTY_FINAL: &str = "triton_enable_empty_final_response";

/// A response, or the message of an error.
pub(super) struct StreamReply {
    message: pb::ModelStreamInferResponse,
    error: Option<Error>,
    /// Memory of a large response, until its connection takes it.
    held: Option<ResponseMemory>,
}

impl StreamReply {
    pub(super) fn is_error(&self) -> bool {
        self.error.is_some()
    }

    /// Returns the message; where errors end the call, the error.
    pub(super) fn message(self, strict: bool) -> Result<(pb::ModelStreamInferResponse, Option<ResponseMemory>)> {
        match self.error {
            Some(error) if strict => Err(error),
            _ => Ok((self.message, self.held)),
        }
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

    pub(super) fn reply(&self, responses: &mut Responses, mut response: InferResponse, last: bool) -> StreamReply {
        response.parameters.push((FINAL.to_owned(), Parameter::Bool(last)));
        let checked = check_head(responses.model(), &response);
        match checked.and_then(|()| wire::response(responses.model().spec(), &responses.plan, &response)) {
            Ok(response) => self.counted(responses, response),
            Err(error) => {
                responses.fail(&error);
                self.error(error)
            }
        }
    }

    fn counted(&self, responses: &mut Responses, response: pb::ModelInferResponse) -> StreamReply {
        let bytes = response.raw_output_contents.iter().map(Bytes::len).sum();
        match ResponseMemory::of(responses.app(), bytes) {
            Ok(held) => StreamReply { held, ..message(response) },
            Err(error) => {
                responses.fail(&error);
                self.error(error)
            }
        }
    }

    /// Returns the final response without outputs, if the request expects it.
    pub(super) fn at_end(&self, responses: &Responses) -> Option<StreamReply> {
        self.wants_end.then(|| self.end(responses))
    }

    /// Builds the final response without outputs.
    fn end(&self, responses: &Responses) -> StreamReply {
        let spec = responses.model().spec();
        let parameters = vec![(FINAL.to_owned(), Parameter::Bool(true))];
        let response =
            InferResponse { outputs: Default::default(), parameters, timings: Timings::default(), head: None };
        let plan = ResponsePlan { id: self.id.clone(), outputs: Some(Default::default()), ..ResponsePlan::default() };
        // Without outputs it cannot fail.
        message(wire::response(spec, &plan, &response).unwrap_or_default())
    }

    pub(super) fn error(&self, error: Error) -> StreamReply {
        let last = pb::infer_parameter::ParameterChoice::BoolParam(true);
        let response = pb::ModelInferResponse {
            model_name: self.model.clone(),
            model_version: self.version.clone(),
            id: self.id.clone(),
            parameters: [(FINAL.to_owned(), pb::InferParameter { parameter_choice: Some(last) })].into(),
            ..pb::ModelInferResponse::default()
        };
        let message =
            pb::ModelStreamInferResponse { error_message: error.message().to_owned(), infer_response: Some(response) };
        StreamReply { message, error: Some(error), held: None }
    }
}

fn message(response: pb::ModelInferResponse) -> StreamReply {
    let message = pb::ModelStreamInferResponse { error_message: String::new(), infer_response: Some(response) };
    StreamReply { message, error: None, held: None }
}
