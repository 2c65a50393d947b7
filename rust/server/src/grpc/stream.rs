//! `ModelStreamInfer`: any number of requests and answers on one call.
//!
//! Models that answer once answer in the order of their requests; those that stream, as they come.
//! A request that fails is answered within the stream, which goes on.

use super::{
    infer::{LIMITS, check_told},
    status::{code_of, status},
    stream_shared::Begun,
};
use crate::{
    answers::{Answers, Call},
    fair,
    front::Context,
    headers::visible,
    observed::{Observed, Record},
};
use futures_util::{
    StreamExt as _,
    stream::{FuturesOrdered, SelectAll},
};
use http::HeaderMap;
use penstock_core::{AnswerPlan, Error, InferResponse, Kind, Parameter, Protocol, Result, Timings};
use penstock_wire::{
    generated::inference as pb,
    grpc::{self as wire, Envelope},
};
use std::{
    future::Future,
    pin::Pin,
    task::{Poll, ready},
};
use tokio::time::Sleep;
use tonic::{Status, Streaming, codegen::tokio_stream::Stream};

/// Requests of one call that are under way; the next one is read when one of them has ended.
const AT_ONCE: usize = 1024;

/// Whether this is the last answer to its request, as Triton's clients ask.
const FINAL: &str = "triton_final_response";
/// Whether a request wants an answer without outputs after its last one.
const EMPTY_FINAL: &str = "triton_enable_empty_final_response";

/// An answer, or the message of the error that takes its place.
pub(super) struct Told {
    message: pb::ModelStreamInferResponse,
    error: Option<Error>,
}

impl Told {
    pub(super) fn is_error(&self) -> bool {
        self.error.is_some()
    }
}

/// The answers of one call.
pub(super) struct Calls {
    context: Context,
    headers: HeaderMap,
    incoming: Option<Streaming<pb::ModelInferRequest>>,
    in_order: FuturesOrdered<Pin<Box<dyn Future<Output = Told> + Send>>>,
    streams: SelectAll<Pin<Box<dyn Stream<Item = Told> + Send>>>,
    /// Whether the first error ends the call, with its own status.
    strict: bool,
    deadline: Option<Pin<Box<Sleep>>>,
}

impl Calls {
    pub(super) fn new(context: &Context, headers: HeaderMap, incoming: Streaming<pb::ModelInferRequest>) -> Self {
        let strict = headers.get("triton_grpc_error").is_some_and(|value| value.as_bytes() == b"true");
        let timeout = headers.get("grpc-timeout").and_then(|value| wire::timeout(value.as_bytes()));
        Self {
            context: context.clone(),
            headers,
            incoming: Some(incoming),
            in_order: FuturesOrdered::new(),
            streams: SelectAll::new(),
            strict,
            deadline: timeout.map(|timeout| Box::pin(tokio::time::sleep(timeout))),
        }
    }

    /// Takes in requests, as far as they are there.
    fn receive(&mut self, cx: &mut std::task::Context<'_>) -> std::result::Result<(), Status> {
        while self.in_order.len() + self.streams.len() < AT_ONCE {
            let Some(incoming) = &mut self.incoming else { return Ok(()) };
            match incoming.poll_next_unpin(cx) {
                Poll::Pending => return Ok(()),
                Poll::Ready(None) => self.incoming = None,
                Poll::Ready(Some(Err(status))) => {
                    self.incoming = None;
                    return Err(status);
                }
                Poll::Ready(Some(Ok(message))) => self.begin(message),
            }
        }
        Ok(())
    }

    fn begin(&mut self, message: pb::ModelInferRequest) {
        let asked = Asked::of(&message);
        let started = match self.decode(message) {
            Ok(begun) if begun.is_shared() => return self.begin_shared(begun, asked),
            Ok(begun) => begun.start(&self.context),
            Err(error) => Err(error),
        };
        match started {
            Err(error) => {
                let told = asked.error(error);
                self.in_order.push_back(Box::pin(std::future::ready(told)));
            }
            Ok(answers) if answers.model().spec().streams => {
                self.streams.push(Box::pin(Replies { answers, asked: Some(asked) }));
            }
            Ok(mut answers) => self.in_order.push_back(Box::pin(async move {
                match answers.next().await {
                    Some(Ok(piece)) => asked.answer(&mut answers, piece.response, true),
                    Some(Err(error)) => asked.error(error),
                    None => asked.error(Error::new(Kind::Internal, "a request was not answered")),
                }
            })),
        }
    }

    fn begin_shared(&mut self, begun: Begun, asked: Asked) {
        let context = self.context.clone();
        if begun.model.spec().streams {
            self.streams.push(Box::pin(begun.answers(context, asked)));
        } else {
            self.in_order.push_back(Box::pin(begun.answer(context, asked)));
        }
    }

    fn decode(&self, message: pb::ModelInferRequest) -> Result<Begun> {
        let app = &self.context.app;
        let observed = Observed::start(app, Protocol::Grpc).traced(&self.headers);
        let refused = |error: &Error| observed.failed(None, "", code_of(app, error), error);
        let guard = app.enter_sequence().inspect_err(refused)?;
        let version = Some(&*message.model_version).filter(|version| !version.is_empty());
        let model = app.registry.find_leniently(&message.model_name, version).inspect_err(refused)?;
        let id = message.id.clone();
        let mut record =
            Record::new(app, &observed, (&model, &id), |app, error| error.map_or(0, |error| code_of(app, error)));
        let admitted = guard.check(&model).and_then(|()| model.admit());
        let decoded = admitted.and_then(|()| wire::decode(model.spec(), Envelope::from(message), &LIMITS));
        let mut decoded = decoded.inspect_err(|error| record.fail(error))?;
        if let Some(caller) = &mut decoded.request.caller {
            caller.headers = visible(&self.headers);
        }
        if let Some(pattern) = &app.config.grpc_forward {
            pattern.forward(&self.headers, &mut decoded).inspect_err(|error| record.fail(error))?;
        }
        decoded.request.schedule.client = fair::client(&model, &self.headers);
        let deadline = observed.deadline_in(decoded.timeout);
        Ok(Begun { model, decoded, call: Call { record, guard, deadline } })
    }

    fn tell(&mut self, told: Told) -> Option<std::result::Result<pb::ModelStreamInferResponse, Status>> {
        match told.error {
            Some(error) if self.strict => Some(Err(self.end(status(&self.context.app, &error)))),
            _ => Some(Ok(told.message)),
        }
    }

    /// Ends the call: what is under way has no caller any more.
    fn end(&mut self, status: Status) -> Status {
        (self.incoming, self.in_order, self.streams) = (None, FuturesOrdered::new(), SelectAll::new());
        status
    }
}

impl Stream for Calls {
    type Item = std::result::Result<pb::ModelStreamInferResponse, Status>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut std::task::Context<'_>) -> Poll<Option<Self::Item>> {
        if let Err(status) = self.receive(cx) {
            return Poll::Ready(Some(Err(self.end(status))));
        }
        if let Poll::Ready(Some(told)) = self.in_order.poll_next_unpin(cx) {
            return Poll::Ready(self.tell(told));
        }
        if let Poll::Ready(Some(told)) = self.streams.poll_next_unpin(cx) {
            return Poll::Ready(self.tell(told));
        }
        if self.incoming.is_none() && self.in_order.is_empty() && self.streams.is_empty() {
            return Poll::Ready(None);
        }
        let Some(deadline) = &mut self.deadline else { return Poll::Pending };
        ready!(deadline.as_mut().poll(cx));
        self.deadline = None;
        Poll::Ready(Some(Err(self.end(Status::deadline_exceeded("the call did not end within its deadline")))))
    }
}

/// The answers of one model that streams.
struct Replies {
    answers: Answers,
    /// `None` after the end.
    asked: Option<Asked>,
}

impl Stream for Replies {
    type Item = Told;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut std::task::Context<'_>) -> Poll<Option<Told>> {
        let Self { answers, asked } = &mut *self;
        let Some(known) = asked else { return Poll::Ready(None) };
        let told = match ready!(answers.poll_next(cx)) {
            Some(Ok(piece)) => {
                let last = piece.last;
                let told = known.answer(answers, piece.response, last);
                if last || told.error.is_some() {
                    *asked = None;
                }
                told
            }
            Some(Err(error)) => {
                let told = known.error(error);
                *asked = None;
                told
            }
            None => {
                let told = known.at_end(answers);
                *asked = None;
                return Poll::Ready(told);
            }
        };
        Poll::Ready(Some(told))
    }
}

/// What the answers to a request repeat of it.
pub(super) struct Asked {
    id: String,
    model: String,
    version: String,
    wants_end: bool,
}

impl Asked {
    fn of(message: &pb::ModelInferRequest) -> Self {
        let end = message.parameters.get(EMPTY_FINAL).and_then(|parameter| parameter.parameter_choice.as_ref());
        Self {
            id: message.id.clone(),
            model: message.model_name.clone(),
            version: message.model_version.clone(),
            wants_end: end == Some(&pb::infer_parameter::ParameterChoice::BoolParam(true)),
        }
    }

    pub(super) fn answer(&self, answers: &mut Answers, mut response: InferResponse, last: bool) -> Told {
        response.parameters.push((FINAL.to_owned(), Parameter::Bool(last)));
        let told = check_told(answers.model(), &response);
        match told.and_then(|()| wire::response(answers.model().spec(), &answers.plan, &response)) {
            Ok(response) => answer(response),
            Err(error) => {
                answers.fail(&error);
                self.error(error)
            }
        }
    }

    /// What is told at the end, if that is asked for.
    pub(super) fn at_end(&self, answers: &Answers) -> Option<Told> {
        self.wants_end.then(|| self.end(answers))
    }

    /// The answer that only says that there are no more.
    fn end(&self, answers: &Answers) -> Told {
        let spec = answers.model().spec();
        let parameters = vec![(FINAL.to_owned(), Parameter::Bool(true))];
        let response =
            InferResponse { outputs: Default::default(), parameters, timings: Timings::default(), told: None };
        let plan = AnswerPlan { id: self.id.clone(), outputs: Some(Default::default()), ..AnswerPlan::default() };
        // Without outputs there is nothing in it that could fail.
        answer(wire::response(spec, &plan, &response).unwrap_or_default())
    }

    pub(super) fn error(&self, error: Error) -> Told {
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
        Told { message, error: Some(error) }
    }
}

fn answer(response: pb::ModelInferResponse) -> Told {
    let message = pb::ModelStreamInferResponse { error_message: String::new(), infer_response: Some(response) };
    Told { message, error: None }
}
