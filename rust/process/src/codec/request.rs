//! One request of a batch, and the ids of sequences.

use super::{
    client::ClientMessage,
    raw_request::RawRequestMessage,
    values::{Pairs, ParameterTokens, decode, encode, pairs},
};
use penstock_core::{InferRequest, Inputs, Protocol, RequestContext, RequestMetadata, Schedule, SequenceId, Step};
use serde::{Deserialize, Serialize};
use std::{
    io,
    sync::Arc,
    time::{Duration, Instant},
};

/// A request without its tensors.
#[derive(Serialize, Deserialize)]
pub(crate) struct RequestMessage<'a> {
    rows: usize,
    time_left: Option<Duration>,
    /// The index in [`PROTOCOLS`].
    protocol: u8,
    priority: u64,
    #[serde(borrow)]
    step: Option<StepMessage<'a>>,
    /// The id of its context.
    context: Option<&'a str>,
    raw: Option<RawRequestMessage<'a>>,
    metadata: Option<MetadataMessage<'a>>,
}

#[derive(Serialize, Deserialize)]
struct StepMessage<'a> {
    #[serde(borrow)]
    id: SequenceKey<'a>,
    start: bool,
    end: bool,
}

#[derive(Serialize, Deserialize)]
enum SequenceKey<'a> {
    Number(u64),
    Text(&'a str),
}

#[derive(Serialize, Deserialize)]
struct MetadataMessage<'a> {
    id: &'a str,
    #[serde(borrow)]
    headers: Pairs<'a>,
    parameters: ParameterTokens<'a>,
    outputs: Option<Box<[usize]>>,
    client: Option<ClientMessage<'a>>,
}

const PROTOCOLS: [Protocol; 3] = [Protocol::Http, Protocol::Grpc, Protocol::InProcess];

impl<'a> RequestMessage<'a> {
    /// Describes a request. Its deadline becomes the time left.
    pub(crate) fn of(request: &'a InferRequest, now: Instant) -> Self {
        Self {
            rows: request.rows,
            time_left: request.deadline.map(|deadline| deadline.saturating_duration_since(now)),
            protocol: request.protocol as u8,
            priority: request.schedule.priority,
            step: request.schedule.step.as_deref().map(|step| StepMessage {
                id: (&step.id).into(),
                start: step.start,
                end: step.end,
            }),
            context: request.context.as_ref().map(|context| &*context.id),
            raw: request.raw.as_deref().map(Into::into),
            metadata: request.metadata.as_deref().map(|metadata| MetadataMessage {
                id: &metadata.id,
                headers: pairs(&metadata.headers),
                parameters: (&metadata.parameters).into(),
                outputs: metadata.outputs.clone(),
                client: metadata.client.as_deref().map(ClientMessage::of),
            }),
        }
    }

    /// The request; `None` for one that no client can send.
    pub(crate) fn request(self, now: Instant) -> Option<InferRequest> {
        let step = self.step.map(|step| Box::new(Step { id: step.id.into(), start: step.start, end: step.end }));
        let metadata = match self.metadata {
            None => None,
            Some(metadata) => Some(Box::new(RequestMetadata {
                id: metadata.id.to_owned(),
                headers: metadata.headers.into_iter().collect(),
                parameters: metadata.parameters.parameters()?,
                outputs: metadata.outputs,
                client: metadata.client.map(|client| Arc::new(client.identity())),
            })),
        };
        Some(InferRequest {
            inputs: Inputs::new(),
            rows: self.rows,
            metadata,
            deadline: self.time_left.and_then(|left| now.checked_add(left)),
            protocol: PROTOCOLS.get(usize::from(self.protocol)).copied()?,
            schedule: Schedule { priority: self.priority, step, ..Schedule::default() },
            takes_ownership: false,
            context: self.context.map(|id| Box::new(RequestContext { id: id.to_owned(), trace: None })),
            raw: match self.raw {
                None => None,
                Some(raw) => Some(Box::new(raw.request()?)),
            },
        })
    }
}

impl<'a> From<&'a SequenceId> for SequenceKey<'a> {
    fn from(id: &'a SequenceId) -> Self {
        match id {
            SequenceId::Number(number) => Self::Number(*number),
            SequenceId::Text(text) => Self::Text(text),
        }
    }
}

impl From<SequenceKey<'_>> for SequenceId {
    fn from(key: SequenceKey<'_>) -> Self {
        match key {
            SequenceKey::Number(number) => Self::Number(number),
            SequenceKey::Text(text) => Self::Text(text.into()),
        }
    }
}

/// Encodes the ids of sequences that have ended.
pub(crate) fn encode_sequences(ids: &[SequenceId]) -> io::Result<Vec<u8>> {
    encode(&ids.iter().map(SequenceKey::from).collect::<Vec<_>>())
}

/// Decodes the ids of sequences; `None` for a broken description.
pub(crate) fn decode_sequences(description: &[u8]) -> Option<Vec<SequenceId>> {
    Some(decode::<Vec<SequenceKey<'_>>>(description)?.into_iter().map(Into::into).collect())
}
