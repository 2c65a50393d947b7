//! Reading one gRPC message from a request's body without a copy of its own.

use crate::{
    app::RequestGuard,
    config::{Compression, Limits},
    front::Incoming,
    pieces::next,
};
use bytes::Bytes;
use http::{Request, header::CONTENT_TYPE};
use penstock_core::{Error, Kind, Result};
use penstock_wire::{
    Limits as WireLimits,
    grpc::{Envelope, MessageDecoder},
};

/// A compression flag and a big-endian length.
const PREFIX: usize = 5;

const MODEL_INFER: &str = "/inference.GRPCInferenceService/ModelInfer";

/// Whether a request speaks gRPC, on a port that serves REST too.
pub(crate) fn is_grpc<B>(request: &Request<B>) -> bool {
    request.headers().get(CONTENT_TYPE).is_some_and(|value| value.as_bytes().starts_with(b"application/grpc"))
}

/// Whether a request is an inference with messages that are not compressed: its own, and the answer.
pub(crate) fn is_plain_infer<B>(request: &Request<B>, answers: Option<Compression>) -> bool {
    request.uri().path() == MODEL_INFER
        && request.headers().get("grpc-encoding").is_none_or(|encoding| encoding == "identity")
        && !answers.is_some_and(|compression| accepts(request, compression))
        && is_grpc(request)
}

fn accepts<B>(request: &Request<B>, compression: Compression) -> bool {
    let mut accepted = request.headers().get_all("grpc-accept-encoding").iter();
    accepted.any(|list| list.to_str().is_ok_and(|list| list.split(',').any(|one| one.trim() == compression.name())))
}

/// Reads the one message of a unary call.
///
/// # Errors
/// `TooLarge` by the limits, `InvalidInput` for a broken frame or message, `Cancelled` when the client leaves.
pub(crate) async fn receive<B: Incoming>(mut body: B, limits: &Limits, guard: &mut RequestGuard) -> Result<Envelope> {
    let mut prefix = [0; PREFIX];
    let mut have = 0;
    let mut chunk = Bytes::new();
    while have < PREFIX {
        if chunk.is_empty() {
            chunk = next(&mut body).await?.ok_or_else(|| Error::invalid("the call carries no message"))?;
        }
        let part = chunk.split_to(chunk.len().min(PREFIX - have));
        prefix[have..have + part.len()].copy_from_slice(&part);
        have += part.len();
    }
    let [flag, length @ ..] = prefix;
    let length = u32::from_be_bytes(length) as usize;
    if flag != 0 {
        return Err(Error::new(Kind::Unsupported, "the message is compressed, but the call has no grpc-encoding"));
    }
    if length > limits.body_bytes {
        return Err(Error::new(
            Kind::TooLarge,
            format!("the message has {length} bytes, at most {} are accepted", limits.body_bytes),
        ));
    }
    guard.reserve(chunk.len())?;
    let mut decoder = MessageDecoder::new(length, &WireLimits::default());
    decoder.push(&chunk)?;
    while let Some(chunk) = next(&mut body).await? {
        guard.reserve(chunk.len())?;
        decoder.push(&chunk)?;
    }
    decoder.finish()
}
