//! Reads the body of an inference request. Tensor bytes are copied once, from the socket's buffer into
//! the tensor's, and no buffer grows by doubling.

use crate::{
    body::{
        RequestBody,
        inflate::inflated,
        next_chunk,
        offload::{self, Offloaded},
    },
    rest::headers::{content_coding, json_length},
    settings::{Config, Limits},
    state::{Context, RequestGuard, RequestMemory},
};
use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use penstock_core::{Error, Kind, ModelSpec, Result};
use penstock_wire::{
    DecodedRequest, Limits as WireLimits,
    coding::Coding,
    rest::{self, Decoder},
};
use std::sync::Arc;

/// Longest body with names and settings only, in bytes.
const SMALL_BODY_BYTES: usize = offload::MIN_BYTES;

/// Reads and decodes one body.
///
/// # Errors
/// `TooLarge` by the limits, `InvalidInput` by the protocol, `UnsupportedEncoding` for a coding that is
/// not read, `Cancelled` when the client leaves.
pub(crate) async fn receive<B: RequestBody>(
    spec: &Arc<ModelSpec>,
    headers: &HeaderMap,
    mut body: B,
    config: &Config,
    guard: &mut RequestGuard,
) -> Result<DecodedRequest> {
    let head = BodyHead { coding: content_coding(headers)?, json_len: json_length(headers)? };
    receive_described(spec, head, &mut body, config, guard).await
}

/// Content coding of a body, and the length of its JSON part.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BodyHead {
    pub(crate) coding: Option<Coding>,
    pub(crate) json_len: Option<usize>,
}

/// As [`receive`], with parsed headers.
///
/// # Errors
/// Those of [`receive`].
pub(crate) async fn receive_described<B: RequestBody>(
    spec: &Arc<ModelSpec>,
    head: BodyHead,
    body: &mut B,
    config: &Config,
    guard: &mut RequestGuard,
) -> Result<DecodedRequest> {
    let BodyHead { coding, json_len } = head;
    let declared = body.size_hint().exact();
    if let Some(length) = declared {
        check_size(length, &config.limits)?;
    }
    // The other ways are boxed: their futures are large, and most bodies arrive in one chunk.
    if let Some(coding) = coding {
        return Box::pin(receive_coded(spec, (coding, json_len), body, config, guard)).await;
    }
    let first = next_chunk(body).await?.unwrap_or_default();
    let is_whole = declared == Some(first.len() as u64);
    if is_whole && json_len.unwrap_or(first.len()) < offload::MIN_BYTES {
        guard.memory().reserve(first.len())?;
        return decode(spec, json_len, &first, &config.decode_limits());
    }
    let body = ChunkReader { first, body, guard };
    Box::pin(receive_chunks(spec, json_len, declared, body, config)).await
}

/// Inflates and decodes a compressed body.
async fn receive_coded<B: RequestBody>(
    spec: &Arc<ModelSpec>,
    (coding, json_len): (Coding, Option<usize>),
    body: &mut B,
    config: &Config,
    guard: &mut RequestGuard,
) -> Result<DecodedRequest> {
    // The header's length is that of the inflated JSON, so it is checked at the end.
    let bytes = inflated(coding, body, &config.limits, guard.memory()).await?;
    whole(spec, json_len, bytes, config).await
}

/// Decodes a body of any length, in any number of chunks.
async fn receive_chunks<B: RequestBody>(
    spec: &Arc<ModelSpec>,
    json_len: Option<usize>,
    declared: Option<u64>,
    body: ChunkReader<'_, B>,
    config: &Config,
) -> Result<DecodedRequest> {
    let ChunkReader { first, body, guard } = body;
    match declared {
        Some(length) if first.len() as u64 == length => {
            guard.memory().reserve(first.len())?;
            whole(spec, json_len, first, config).await
        }
        Some(length) => parts(spec, json_len, length as usize, ChunkReader { first, body, guard }, config).await,
        None => {
            let bytes = collect(first, body, &config.limits, guard.memory()).await?;
            whole(spec, json_len, bytes, config).await
        }
    }
}

/// Reads one body whole, inflated if it is compressed.
///
/// # Errors
/// `TooLarge` by the limits, `UnsupportedEncoding` for a coding that is not read, `Cancelled` when the
/// client leaves.
pub(crate) async fn receive_whole<B: RequestBody>(
    headers: &HeaderMap,
    mut body: B,
    limits: &Limits,
    held: &mut RequestMemory,
) -> Result<Bytes> {
    let declared = body.size_hint().exact();
    if let Some(length) = declared {
        check_size(length, limits)?;
    }
    if let Some(coding) = content_coding(headers)? {
        return Box::pin(inflated(coding, &mut body, limits, held)).await;
    }
    let first = next_chunk(&mut body).await?.unwrap_or_default();
    if declared == Some(first.len() as u64) {
        held.reserve(first.len())?;
        return Ok(first);
    }
    Box::pin(collect(first, &mut body, limits, held)).await
}

/// Decodes a body in one chunk. Large JSON is decoded on a blocking thread.
pub(crate) fn whole(
    spec: &Arc<ModelSpec>,
    json_len: Option<usize>,
    bytes: Bytes,
    config: &Config,
) -> Offloaded<DecodedRequest> {
    let json_bytes = json_len.unwrap_or(bytes.len());
    let (spec, limits) = (Arc::clone(spec), config.decode_limits());
    offload::run(json_bytes, move || decode(&spec, json_len, &bytes, &limits))
}

fn decode(spec: &ModelSpec, json_len: Option<usize>, bytes: &[u8], limits: &WireLimits) -> Result<DecodedRequest> {
    let (json, tail) = split(bytes, json_len)?;
    let mut decoder = begin(spec, json_len, json, tail.len(), limits)?;
    decoder.write(tail)?;
    decoder.finish()
}

/// Decodes a body of known length in several chunks.
async fn parts<B: RequestBody>(
    spec: &Arc<ModelSpec>,
    json_len: Option<usize>,
    length: usize,
    mut body: ChunkReader<'_, B>,
    config: &Config,
) -> Result<DecodedRequest> {
    let wanted = match json_len {
        Some(json_len) if json_len > length => return Err(out_of_range(json_len, length)),
        // So much JSON is decoded on a blocking thread, so the tensors cannot be written as they arrive.
        Some(json_len) if json_len < offload::MIN_BYTES => json_len,
        _ => length,
    };
    let mut chunk = body.next().await?.ok_or_else(cut_short)?;
    let head = if chunk.len() >= wanted {
        chunk.split_to(wanted)
    } else {
        let mut head = BytesMut::with_capacity(wanted);
        loop {
            let part = chunk.split_to(chunk.len().min(wanted - head.len()));
            head.extend_from_slice(&part);
            if head.len() == wanted {
                break head.freeze();
            }
            chunk = body.next().await?.ok_or_else(cut_short)?;
        }
    };
    if wanted == length {
        return whole(spec, json_len, head, config).await;
    }
    let mut decoder = begin(spec, json_len, &head, length - wanted, &config.decode_limits())?;
    drop(head);
    decoder.write(&chunk)?;
    // hyper reuses its read buffer once no chunk refers to it.
    drop(chunk);
    while let Some(chunk) = body.next().await? {
        decoder.write(&chunk)?;
    }
    decoder.finish()
}

/// Chunks of a body. Memory is reserved as they arrive: a declared length reserves nothing.
struct ChunkReader<'g, B> {
    first: Bytes,
    body: &'g mut B,
    guard: &'g mut RequestGuard,
}

impl<B: RequestBody> ChunkReader<'_, B> {
    async fn next(&mut self) -> Result<Option<Bytes>> {
        let chunk = match std::mem::take(&mut self.first) {
            first if first.is_empty() => next_chunk(self.body).await?,
            first => Some(first),
        };
        self.guard.memory().reserve(chunk.as_ref().map_or(0, Bytes::len))?;
        Ok(chunk)
    }
}

/// Reads a small body with names and settings only, which is decoded on the I/O thread.
///
/// # Errors
/// Those of [`receive_whole`]; `TooLarge` from [`SMALL_BODY_BYTES`] bytes on.
pub(crate) async fn receive_small<B: RequestBody>(context: &Context, headers: &HeaderMap, body: B) -> Result<Bytes> {
    let limits = &context.app.config.limits;
    let small = Limits { max_body_bytes: limits.max_body_bytes.get().min(SMALL_BODY_BYTES).into(), ..limits.clone() };
    receive_whole(headers, body, &small, &mut RequestMemory::none(&context.app)).await
}

/// Joins the chunks of a body. They are copied: each chunk would keep the whole read buffer
/// that it is a part of.
async fn collect<B: RequestBody>(
    first: Bytes,
    body: &mut B,
    limits: &Limits,
    held: &mut RequestMemory,
) -> Result<Bytes> {
    held.reserve(first.len())?;
    check_size(first.len() as u64, limits)?;
    let Some(mut chunk) = next_chunk(body).await? else { return Ok(first) };
    // Reserved memory costs nothing before it is written.
    let left = usize::try_from(body.size_hint().lower()).unwrap_or(0);
    let mut joined = BytesMut::with_capacity(first.len() + chunk.len() + left);
    joined.extend_from_slice(&first);
    drop(first);
    loop {
        check_size((joined.len() + chunk.len()) as u64, limits)?;
        held.reserve(chunk.len())?;
        joined.extend_from_slice(&chunk);
        match next_chunk(body).await? {
            Some(next) => chunk = next,
            None => return Ok(joined.freeze()),
        }
    }
}

fn begin<'s>(
    spec: &'s ModelSpec,
    json_len: Option<usize>,
    json: &[u8],
    tail_len: usize,
    limits: &WireLimits,
) -> Result<Decoder<'s>> {
    if json_len == Some(0) {
        return rest::begin_raw(spec, tail_len);
    }
    rest::begin(spec, json, tail_len, limits)
}

fn split(bytes: &[u8], json_len: Option<usize>) -> Result<(&[u8], &[u8])> {
    match json_len {
        None => Ok((bytes, &[])),
        Some(length) => bytes.split_at_checked(length).ok_or_else(|| out_of_range(length, bytes.len())),
    }
}

fn check_size(length: u64, limits: &Limits) -> Result<()> {
    let most = limits.max_body_bytes.get();
    if length <= most as u64 {
        return Ok(());
    }
    Err(Error::new(Kind::TooLarge, format!("the request's body has {length} bytes, at most {most} are accepted")))
}

fn out_of_range(length: usize, body: usize) -> Error {
    Error::invalid(format!(
        "the header Inference-Header-Content-Length is {length}, expected 0 to the body's {body} bytes"
    ))
}

fn cut_short() -> Error {
    Error::invalid("the request's body ends before its declared length")
}
