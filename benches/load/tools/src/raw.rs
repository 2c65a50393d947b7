//! gRPC messages as bytes, so that neither side spends time on protobuf.

use bytes::{Buf, BufMut, Bytes};
use tonic::{
    Status,
    codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder},
};

/// The path of the call that every benchmark makes.
pub const INFER_PATH: &str = "/inference.GRPCInferenceService/ModelInfer";

/// The messages of each stream of the bare servers.
pub const STREAM_MESSAGES: usize = 10_000;

/// The largest message: above any workload's.
pub const MAX_MESSAGE: usize = 1 << 30;

/// Flow-control windows that hold the largest workload's message, so that no side waits for the other's updates.
pub const STREAM_WINDOW: u32 = 16 << 20;

/// The window of all streams of one connection together.
pub const CONNECTION_WINDOW: u32 = 64 << 20;

/// A codec that hands bytes on.
#[derive(Clone, Copy, Debug, Default)]
pub struct RawCodec;

impl Codec for RawCodec {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for RawCodec {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, message: Bytes, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buffer.put(message);
        Ok(())
    }
}

impl Decoder for RawCodec {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(buffer.copy_to_bytes(buffer.remaining())))
    }
}
