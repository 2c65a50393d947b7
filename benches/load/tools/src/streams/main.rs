//! Opens many streams at once, reads each to its end, and reports the message rate.
//!
//! `streams http|grpc ADDRESS PATH BODY_FILE CLIENTS MESSAGES`. Prints one JSON object: messages per
//! second over all streams, and percentiles of the time to a stream's first message.
#![forbid(unsafe_code)]

mod grpc;
mod http;

use bytes::Bytes;
use hdrhistogram::Histogram;
use std::{
    env,
    error::Error,
    fs,
    process::ExitCode,
    time::{Duration, Instant},
};
use tokio::task::JoinSet;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The measurements of one stream.
pub(crate) struct Seen {
    pub(crate) messages: u64,
    pub(crate) first: Duration,
}

/// Address, path and body of the requests.
#[derive(Clone)]
pub(crate) struct Plan {
    pub(crate) address: String,
    pub(crate) path: String,
    pub(crate) body: Bytes,
}

pub(crate) type Failure = Box<dyn Error + Send + Sync>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<ExitCode, Failure> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [wire, address, path, body, clients, messages] = arguments.as_slice() else {
        return Err("usage: streams http|grpc ADDRESS PATH BODY_FILE CLIENTS MESSAGES".into());
    };
    let plan = Plan { address: address.clone(), path: path.clone(), body: fs::read(body)?.into() };
    let (clients, expected): (usize, u64) = (clients.parse()?, messages.parse()?);
    let start = Instant::now();
    let mut streams = JoinSet::new();
    for _ in 0..clients {
        let plan = plan.clone();
        match wire.as_str() {
            "http" => drop(streams.spawn(http::read(plan))),
            _ => drop(streams.spawn(grpc::read(plan))),
        }
    }
    let mut first = Histogram::<u64>::new(3)?;
    let (mut messages, mut wrong) = (0, 0);
    while let Some(seen) = streams.join_next().await {
        let seen = seen??;
        messages += seen.messages;
        wrong += u64::from(seen.messages != expected);
        first.record(u64::try_from(seen.first.as_micros())?)?;
    }
    let seconds = start.elapsed().as_secs_f64();
    let report = serde_json::json!({
        "messages": messages,
        "seconds": seconds,
        "per_second": messages as f64 / seconds,
        "first_p50_us": first.value_at_quantile(0.5),
        "first_p99_us": first.value_at_quantile(0.99),
        "wrong_streams": wrong,
    });
    println!("{report}");
    Ok(ExitCode::from(u8::from(wrong > 0)))
}
