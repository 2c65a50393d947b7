//! A stream of responses.

use crate::{
    failure::{Failure, Result, Stage},
    grpc::{connection::DrivenConnection, response::ResponseReader},
    http1::{Framing, Http1},
};
use penstock_core::{Error, Kind};
use penstock_wire::{
    ClientResponse, Limits,
    grpc::decode_stream_response,
    rest::{EventDecoder, begin_response, error},
};
use std::{fmt, time::Duration};

/// Responses of a stream. Dropping it ends the stream, on the server too.
pub struct ResponseStream {
    source: Source,
    timeout: Option<Duration>,
    ended: bool,
}

enum Source {
    Rest { connection: Box<Http1>, framing: Framing, events: EventDecoder },
    Grpc { own: Option<DrivenConnection>, reply: ResponseReader },
}

impl ResponseStream {
    pub(crate) fn rest(
        connection: Http1,
        framing: Framing,
        max_response_bytes: usize,
        timeout: Option<Duration>,
    ) -> Self {
        let events = EventDecoder::new(max_response_bytes);
        let source = Source::Rest { connection: Box::new(connection), framing, events };
        Self { source, timeout, ended: false }
    }

    pub(crate) fn grpc(own: Option<DrivenConnection>, reply: ResponseReader, timeout: Option<Duration>) -> Self {
        Self { source: Source::Grpc { own, reply }, timeout, ended: false }
    }

    /// Timeout of each response.
    pub fn timeout(&self) -> Option<Duration> {
        self.timeout
    }

    /// Reads the next response; `None` at a regular end. Nothing follows a failure.
    ///
    /// # Errors
    /// The model failed, the connection was lost, or the response violates the protocol.
    pub async fn next(&mut self) -> Option<Result<ClientResponse>> {
        if self.ended {
            return None;
        }
        // A cancelled read leaves half a response behind: the stream cannot continue.
        self.ended = true;
        let piece = match &mut self.source {
            Source::Rest { connection, framing, events } => next_event(connection, framing, events).await,
            Source::Grpc { own: Some(own), reply } => own.run(next_message(reply)).await,
            Source::Grpc { own: None, reply } => next_message(reply).await,
        };
        let piece = piece.transpose();
        self.ended = !matches!(piece, Some(Ok(_)));
        piece
    }
}

impl fmt::Debug for ResponseStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseStream").field("ended", &self.ended).finish_non_exhaustive()
    }
}

async fn next_event(
    connection: &mut Http1,
    framing: &mut Framing,
    events: &mut EventDecoder,
) -> Result<Option<ClientResponse>> {
    loop {
        while let Some(event) = events.next() {
            // Some servers end their streams so.
            if event == b"[DONE]" {
                return Ok(None);
            }
            let answer = read_event(&event)?;
            if !is_end(&answer) {
                return Ok(Some(answer));
            }
        }
        match connection.piece(framing).await? {
            Some(piece) => events.push(&piece)?,
            None if events.is_between_events() => return Ok(None),
            None => return Err(Error::new(Kind::Unavailable, "the stream ends within an event").into()),
        }
    }
}

fn read_event(event: &[u8]) -> Result<ClientResponse> {
    match begin_response(event, 0, &Limits::default()).and_then(|decoder| decoder.finish()) {
        Ok(answer) => Ok(answer),
        Err(wrong) => {
            // The status was sent with the head: later errors are events.
            let said = serde_json::from_slice::<serde_json::Value>(event).ok();
            if said.is_some_and(|said| said.get("outputs").is_none() && said.get("error").is_some()) {
                let error = Error::new(Kind::Handler, error::message_of(event));
                return Err(Failure { error, status: None, stage: Stage::Responded });
            }
            Err(wrong.into())
        }
    }
}

async fn next_message(reply: &mut ResponseReader) -> Result<Option<ClientResponse>> {
    loop {
        let Some(message) = reply.next().await? else { return Ok(None) };
        let answer = decode_stream_response(message).map_err(|error| {
            let stage = if error.kind() == Kind::Handler { Stage::Responded } else { Stage::Unknown };
            Failure { error, status: None, stage }
        })?;
        if !is_end(&answer) {
            return Ok(Some(answer));
        }
    }
}

/// Returns whether the response only marks the end.
fn is_end(answer: &ClientResponse) -> bool {
    answer.outputs.is_empty() && answer.flag("triton_final_response") == Some(true)
}
