//! The bare limit: axum and tonic that read a request's body and respond with fixed bytes.
//!
//! `limit HTTP_PORT GRPC_PORT JSON_ANSWER BINARY_ANSWER GRPC_ANSWER`; the answers are files.
#![forbid(unsafe_code)]

mod grpc;
mod http;

use bytes::Bytes;
use std::{env, error::Error, fs, io};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [http_port, grpc_port, json, binary, message] = arguments.as_slice() else {
        return Err("usage: limit HTTP_PORT GRPC_PORT JSON_ANSWER BINARY_ANSWER GRPC_ANSWER".into());
    };
    let answers = http::Answers { json: read(json)?, binary: read(binary)? };
    let http = tokio::spawn(http::serve(http_port.parse()?, answers));
    let grpc = tokio::spawn(grpc::serve(grpc_port.parse()?, read(message)?));
    let (http, grpc) = tokio::try_join!(http, grpc)?;
    http.map_err(|error| format!("http: {error}"))?;
    grpc.map_err(|error| format!("grpc: {error}"))?;
    Ok(())
}

fn read(path: &str) -> io::Result<Bytes> {
    fs::read(path).map(Bytes::from)
}
