//! Requests of `ModelStreamInfer` with tensors in shared memory: inputs are read before a request is queued, outputs
//! are
//! written before its response is sent.

use super::stream_reply::{RequestEcho, StreamReply};
use crate::{
    infer::{
        RequestScope, Responses,
        shared_tensors::{SharedOutputs, fetch},
    },
    state::Context,
};
use futures_util::{Stream, stream::unfold};
use penstock_core::{Error, InferResponse, Kind, Model, Result};
use penstock_wire::DecodedRequest;
use std::sync::Arc;

/// A decoded request that is not submitted yet.
pub(super) struct ModelRequest {
    pub(super) model: Arc<Model>,
    pub(super) decoded: DecodedRequest,
    pub(super) call: RequestScope,
}

impl ModelRequest {
    /// Reports whether some of its tensors are in shared memory.
    pub(super) fn is_shared(&self) -> bool {
        self.decoded.shared.is_some()
    }

    /// Submits a request that has all its tensors.
    pub(super) fn start(self, context: &Context) -> Result<Responses> {
        Responses::start(context, &self.model, self.decoded, self.call)
    }

    async fn fetch(self, context: &Context) -> Result<(Responses, SharedOutputs)> {
        let Self { model, decoded, mut call } = self;
        let fetched = fetch(context, model.spec(), decoded).await;
        let (decoded, outputs) = fetched.inspect_err(|error| call.record.fail(error))?;
        Ok((Self { model, decoded, call }.start(context)?, outputs))
    }

    /// Returns the response of a model with one response.
    pub(super) async fn reply(self, context: Context, echo: RequestEcho) -> StreamReply {
        let (mut responses, outputs) = match self.fetch(&context).await {
            Ok(started) => started,
            Err(error) => return echo.error(error),
        };
        match responses.next().await {
            Some(Ok(chunk)) => written(&echo, &mut responses, &outputs, (chunk.response, true)).await,
            Some(Err(error)) => echo.error(error),
            None => echo.error(Error::new(Kind::Internal, "a request was not answered")),
        }
    }

    /// Returns the responses of a model that streams. All are written to the same spans.
    pub(super) fn responses(self, context: Context, echo: RequestEcho) -> impl Stream<Item = StreamReply> + Send {
        unfold(Some((State::ModelRequest(self, context), echo)), |state| async move {
            let (state, echo) = state?;
            let started = match state {
                State::Going(responses, outputs) => Ok((responses, outputs)),
                State::ModelRequest(request, context) => request.fetch(&context).await,
            };
            let (mut responses, outputs) = match started {
                Ok(started) => started,
                Err(error) => return Some((echo.error(error), None)),
            };
            match responses.next().await {
                Some(Ok(chunk)) => {
                    let last = chunk.last;
                    let reply = written(&echo, &mut responses, &outputs, (chunk.response, last)).await;
                    let goes_on = !last && !reply.is_error();
                    Some((reply, goes_on.then_some((State::Going(responses, outputs), echo))))
                }
                Some(Err(error)) => Some((echo.error(error), None)),
                None => echo.at_end(&responses).map(|reply| (reply, None)),
            }
        })
    }
}

/// State of a request to a model that streams.
#[expect(clippy::large_enum_variant, reason = "there is one for a stream, and it is soon the other")]
enum State {
    ModelRequest(ModelRequest, Context),
    Going(Responses, SharedOutputs),
}

/// Writes the outputs of a response, and builds its message.
async fn written(
    echo: &RequestEcho,
    responses: &mut Responses,
    outputs: &SharedOutputs,
    (response, last): (InferResponse, bool),
) -> StreamReply {
    let spec = Arc::clone(responses.model().spec());
    match outputs.write(&spec, response).await {
        Ok(response) => echo.reply(responses, response, last),
        Err(error) => {
            responses.fail(&error);
            echo.error(error)
        }
    }
}
