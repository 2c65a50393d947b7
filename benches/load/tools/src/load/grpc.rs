//! Unary gRPC calls over a few shared connections.

use crate::{Run, tally::Outcome};
use http::uri::{InvalidUri, PathAndQuery};
use penstock_bench_tools::raw::{CONNECTION_WINDOW, MAX_MESSAGE, RawCodec, STREAM_WINDOW};
use std::{error::Error, rc::Rc, time::Duration};
use tokio::{
    task::{JoinHandle, spawn_local},
    time::{sleep, timeout},
};
use tonic::{
    Request,
    client::Grpc,
    transport::{Channel, Endpoint},
};

const RETRY_AFTER: Duration = Duration::from_millis(20);

/// One task for each call under way.
pub(crate) fn spawn(run: &Rc<Run>) -> Result<Vec<JoinHandle<()>>, Box<dyn Error>> {
    let options = &run.options;
    let path: PathAndQuery = options.path.parse().map_err(|error: InvalidUri| format!("{}: {error}", options.path))?;
    let channels: Vec<Channel> = (0..options.channels.clamp(1, options.connections.max(1)))
        .map(|_| channel(&options.address))
        .collect::<Result<_, _>>()?;
    let calls = channels.iter().cycle().take(options.connections);
    Ok(calls.map(|channel| spawn_local(caller(Rc::clone(run), channel.clone(), path.clone()))).collect())
}

fn channel(address: &str) -> Result<Channel, tonic::transport::Error> {
    Ok(Endpoint::from_shared(format!("http://{address}"))?
        .tcp_nodelay(true)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .connect_lazy())
}

async fn caller(run: Rc<Run>, channel: Channel, path: PathAndQuery) {
    let mut grpc = Grpc::new(channel).max_decoding_message_size(MAX_MESSAGE).max_encoding_message_size(MAX_MESSAGE);
    while let Some(start) = run.pace.turn().await {
        let count = |outcome: &Outcome<'_>| run.tally.borrow_mut().count(&run.pace, start, outcome);
        if let Err(error) = grpc.ready().await {
            count(&Outcome::Bad { code: "connect", text: error.to_string().as_bytes() });
            sleep(RETRY_AFTER).await;
            continue;
        }
        let call = grpc.unary(Request::new(run.body.clone()), path.clone(), RawCodec);
        match timeout(run.options.timeout(), call).await {
            Ok(Ok(answer)) => count(&Outcome::Good { code: "OK", body: &answer.into_inner() }),
            Ok(Err(status)) => {
                count(&Outcome::Bad { code: &format!("{:?}", status.code()), text: status.message().as_bytes() });
            }
            Err(_) => count(&Outcome::Bad { code: "timeout", text: b"the client gave up" }),
        }
    }
}
