//! Bare tonic.

use bytes::Bytes;
use penstock_bench_tools::raw::{CONNECTION_WINDOW, MAX_MESSAGE, RawCodec, STREAM_MESSAGES, STREAM_WINDOW};
use std::{
    convert::Infallible,
    future::{Ready, ready},
    net::{Ipv4Addr, SocketAddr},
    pin::Pin,
    task::{Context, Poll},
};
use tokio_stream::Stream;
use tonic::{
    Request, Response, Status,
    body::Body,
    server::{Grpc, NamedService, ServerStreamingService, UnaryService},
    transport::{self, Server},
};

#[derive(Clone)]
struct Echo(Bytes);

impl NamedService for Echo {
    const NAME: &'static str = "inference.GRPCInferenceService";
}

impl UnaryService<Bytes> for Echo {
    type Response = Bytes;
    type Future = Ready<Result<Response<Bytes>, Status>>;

    fn call(&mut self, _request: Request<Bytes>) -> Self::Future {
        ready(Ok(Response::new(self.0.clone())))
    }
}

impl ServerStreamingService<Bytes> for Echo {
    type Response = Bytes;
    type ResponseStream = Pin<Box<dyn Stream<Item = Result<Bytes, Status>> + Send>>;
    type Future = Ready<Result<Response<Self::ResponseStream>, Status>>;

    fn call(&mut self, _request: Request<Bytes>) -> Self::Future {
        let answer = self.0.clone();
        let answers = tokio_stream::iter((0..STREAM_MESSAGES).map(move |_| Ok(answer.clone())));
        ready(Ok(Response::new(Box::pin(answers))))
    }
}

impl tower::Service<http::Request<Body>> for Echo {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let own = self.clone();
        Box::pin(async move {
            let mut grpc =
                Grpc::new(RawCodec).max_decoding_message_size(MAX_MESSAGE).max_encoding_message_size(MAX_MESSAGE);
            if request.uri().path().ends_with("/ModelStreamInfer") {
                return Ok(grpc.server_streaming(own, request).await);
            }
            Ok(grpc.unary(own, request).await)
        })
    }
}

pub(crate) async fn serve(port: u16, answer: Bytes) -> Result<(), transport::Error> {
    Server::builder()
        .tcp_nodelay(true)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .add_service(Echo(answer))
        .serve(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))
        .await
}
