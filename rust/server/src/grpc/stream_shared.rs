//! Requests of `ModelStreamInfer` whose tensors are in shared memory: read before they are queued, written
//! before their answers are told of.

use super::stream_reply::{Asked, Told};
use crate::{
    infer::{
        Answers, Call,
        shared_tensors::{SharedOutputs, fetch},
    },
    state::Context,
};
use futures_util::{Stream, stream::unfold};
use penstock_core::{Error, InferResponse, Kind, Model, Result};
use penstock_wire::DecodedRequest;
use std::sync::Arc;

/// A request that is decoded and not sent to its model yet.
pub(super) struct Begun {
    pub(super) model: Arc<Model>,
    pub(super) decoded: DecodedRequest,
    pub(super) call: Call,
}

impl Begun {
    /// Whether some of its tensors are in shared memory.
    pub(super) fn is_shared(&self) -> bool {
        self.decoded.shared.is_some()
    }

    /// Sends one to its model that has all its tensors.
    pub(super) fn start(self, context: &Context) -> Result<Answers> {
        Answers::start(context, &self.model, self.decoded, self.call)
    }

    async fn fetch(self, context: &Context) -> Result<(Answers, SharedOutputs)> {
        let Self { model, decoded, mut call } = self;
        let fetched = fetch(context, model.spec(), decoded).await;
        let (decoded, outputs) = fetched.inspect_err(|error| call.record.fail(error))?;
        Ok((Self { model, decoded, call }.start(context)?, outputs))
    }

    /// The answer of a model that answers once.
    pub(super) async fn answer(self, context: Context, asked: Asked) -> Told {
        let (mut answers, outputs) = match self.fetch(&context).await {
            Ok(started) => started,
            Err(error) => return asked.error(error),
        };
        match answers.next().await {
            Some(Ok(piece)) => written(&asked, &mut answers, &outputs, (piece.response, true)).await,
            Some(Err(error)) => asked.error(error),
            None => asked.error(Error::new(Kind::Internal, "a request was not answered")),
        }
    }

    /// The answers of a model that streams. All of them go to the same place, the next over the one before.
    pub(super) fn answers(self, context: Context, asked: Asked) -> impl Stream<Item = Told> + Send {
        unfold(Some((State::Begun(self, context), asked)), |state| async move {
            let (state, asked) = state?;
            let started = match state {
                State::Going(answers, outputs) => Ok((answers, outputs)),
                State::Begun(begun, context) => begun.fetch(&context).await,
            };
            let (mut answers, outputs) = match started {
                Ok(started) => started,
                Err(error) => return Some((asked.error(error), None)),
            };
            match answers.next().await {
                Some(Ok(piece)) => {
                    let last = piece.last;
                    let told = written(&asked, &mut answers, &outputs, (piece.response, last)).await;
                    let goes_on = !last && !told.is_error();
                    Some((told, goes_on.then_some((State::Going(answers, outputs), asked))))
                }
                Some(Err(error)) => Some((asked.error(error), None)),
                None => asked.at_end(&answers).map(|told| (told, None)),
            }
        })
    }
}

/// Where a request of a model that streams is.
#[expect(clippy::large_enum_variant, reason = "there is one for a stream, and it is soon the other")]
enum State {
    Begun(Begun, Context),
    Going(Answers, SharedOutputs),
}

/// Writes the outputs of an answer, which may be the last one, and tells of it.
async fn written(
    asked: &Asked,
    answers: &mut Answers,
    outputs: &SharedOutputs,
    (response, last): (InferResponse, bool),
) -> Told {
    let spec = Arc::clone(answers.model().spec());
    match outputs.write(&spec, response).await {
        Ok(response) => asked.answer(answers, response, last),
        Err(error) => {
            answers.fail(&error);
            asked.error(error)
        }
    }
}
