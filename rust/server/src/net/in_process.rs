//! REST without a socket: decoding, queue, batching, handler and encoding are the same.

use super::listen::StartError;
use crate::{
    dispatch::{Dispatcher, ListenerScope},
    settings::{Config, Serves},
    state::{App, Phase},
};
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use penstock_core::{Protocol, Registry, metrics::Metrics};
use std::sync::Arc;

/// A server without sockets.
#[derive(Debug)]
pub struct InProcess {
    app: Arc<App>,
    dispatcher: Dispatcher,
}

impl InProcess {
    /// Creates a server without listeners. Call [`InProcess::set_ready`] once its models are loaded.
    ///
    /// # Errors
    /// [`StartError`] of keys that cannot be read.
    pub fn new(config: Config, registry: Arc<Registry>, metrics: Arc<Metrics>) -> Result<Self, StartError> {
        let app = Arc::new(App::new(config, registry, metrics)?);
        let served = ListenerScope {
            serves: Serves { rest: true, admin: true, ..Serves::default() },
            local: true,
            tcp: false,
            tls: false,
            proxied: false,
            port: 0,
        };
        let dispatcher = Dispatcher::new(Arc::clone(&app), None, served);
        Ok(Self { app, dispatcher })
    }

    /// Starts to accept requests.
    pub fn set_ready(&self) {
        self.app.advance(Phase::Ready);
    }

    /// Answers one request.
    pub async fn handle(&self, request: Request<Bytes>) -> Response<Bytes> {
        let (head, body) = request.into_parts();
        let response = self.dispatcher.respond(&head, &mut Full::new(body), Protocol::InProcess).await;
        let (head, body) = response.into_parts();
        // A body in memory cannot fail.
        let body = body.collect().await.map_or_else(|_| Bytes::new(), http_body_util::Collected::to_bytes);
        Response::from_parts(head, body)
    }

    /// Refuses new requests and closes the models' queues.
    pub fn stop(&self) {
        self.app.advance(Phase::Draining);
        self.app.registry.all().iter().for_each(|model| model.queue().close());
        self.app.registry.draining_queues().iter().for_each(|queue| queue.close());
    }
}
