//! A streaming call over a new connection.

use crate::{Failure, Plan, Seen};
use http::uri::PathAndQuery;
use penstock_bench_tools::raw::{CONNECTION_WINDOW, MAX_MESSAGE, RawCodec, STREAM_WINDOW};
use std::time::Instant;
use tonic::{Request, client::Grpc, transport::Endpoint};

/// Sends one message, reads the responses to the end of the call, and counts them.
pub(crate) async fn read(plan: Plan) -> Result<Seen, Failure> {
    let channel = Endpoint::from_shared(format!("http://{}", plan.address))?
        .tcp_nodelay(true)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .connect()
        .await?;
    let mut grpc = Grpc::new(channel).max_decoding_message_size(MAX_MESSAGE).max_encoding_message_size(MAX_MESSAGE);
    let path: PathAndQuery = plan.path.parse()?;
    let start = Instant::now();
    grpc.ready().await?;
    let requests = tokio_stream::once(plan.body);
    let mut answers = grpc.streaming(Request::new(requests), path, RawCodec).await?.into_inner();
    let (mut messages, mut first) = (0, None);
    while answers.message().await?.is_some() {
        messages += 1;
        first.get_or_insert_with(|| start.elapsed());
    }
    Ok(Seen { messages, first: first.ok_or("a call without answers")? })
}
