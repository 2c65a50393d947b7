//! The bare limit: servers that read a request's body and respond with fixed bytes.
//!
//! `limit HTTP_PORT GRPC_PORT JSON_ANSWER BINARY_ANSWER GRPC_ANSWER [MODE]`; the answers are files. The modes are
//! `threads`, axum and tonic on all cores (the default), `thread`, both on one thread, and `epoll`, HTTP without a
//! runtime on one thread.
#![forbid(unsafe_code)]

mod epoll;
mod grpc;
mod http;

use bytes::Bytes;
use std::{env, error::Error, fs, io};
use tokio::runtime::Builder;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const USAGE: &str = "usage: limit HTTP_PORT GRPC_PORT JSON_ANSWER BINARY_ANSWER GRPC_ANSWER [threads|thread|epoll]";

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments: Vec<String> = env::args().skip(1).collect();
    if arguments.len() == 5 {
        arguments.push("threads".to_owned());
    }
    let [http_port, grpc_port, json, binary, message, mode] = arguments.as_slice() else {
        return Err(USAGE.into());
    };
    let http_port = http_port.parse()?;
    let answers = http::Answers { json: read(json)?, binary: read(binary)? };
    let mut runtime = match mode.as_str() {
        "threads" => Builder::new_multi_thread(),
        "thread" => Builder::new_current_thread(),
        "epoll" => return Ok(epoll::serve(http_port, &answers)?),
        _ => return Err(USAGE.into()),
    };
    let (grpc_port, message) = (grpc_port.parse()?, read(message)?);
    runtime.enable_all().build()?.block_on(async {
        let http = tokio::spawn(http::serve(http_port, answers));
        let grpc = tokio::spawn(grpc::serve(grpc_port, message));
        let (http, grpc) = tokio::try_join!(http, grpc)?;
        http.map_err(|error| format!("http: {error}"))?;
        grpc.map_err(|error| format!("grpc: {error}"))?;
        Ok(())
    })
}

fn read(path: &str) -> io::Result<Bytes> {
    fs::read(path).map(Bytes::from)
}
