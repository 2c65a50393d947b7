//! New connections of an I/O thread: their limits, the client that a proxy names, TLS.

use super::{
    accept::{Accepted, Socket},
    connection::serve,
    handshake::client_certificate,
    io_thread::IoThread,
    place::Place,
    proxy_protocol,
};
use crate::settings::Address;
use penstock_core::ClientIdentity;
use std::{net::SocketAddr, sync::Arc};
use tokio::{
    io::AsyncRead,
    net::{TcpStream, UnixStream},
    sync::mpsc,
    time::timeout,
};

/// Serves the connections of a thread.
pub(super) async fn take_over(thread: IoThread, mut inbox: mpsc::UnboundedReceiver<Accepted>) {
    while let Some((socket, listener, peer)) = inbox.recv().await {
        // A proxy has no limit of its own: its clients have.
        let client = peer.filter(|_| !thread.dispatchers[listener].scope().proxied);
        let Some(place) = Place::take(&thread.app, &thread.open, (&thread.addresses, client)) else {
            continue;
        };
        let thread = thread.clone();
        tokio::spawn(async move {
            let dispatcher = |peer: Option<SocketAddr>, certificate| {
                let address = peer.map(|peer| peer.ip().to_canonical());
                let client = ClientIdentity { address, certificate, ..ClientIdentity::default() };
                let is_local = peer.is_none_or(|peer| Address::Tcp(peer).is_local());
                Arc::new(thread.dispatchers[listener].for_connection(client, is_local))
            };
            match socket {
                Socket::Tcp(socket) => {
                    let Ok(mut socket) = TcpStream::from_std(socket) else { return };
                    let Some((_place, peer)) = thread.find_client(&mut socket, listener, (place, peer)).await else {
                        return;
                    };
                    let Some((tls, alpn)) = &thread.encrypted[listener] else {
                        return serve(socket, dispatcher(peer, None), thread.settings).await;
                    };
                    // Boxed: a plain connection has no room for it.
                    if let Some(socket) = Box::pin(tls.accept(socket, *alpn)).await {
                        let certificate = client_certificate(&socket);
                        Box::pin(serve(socket, dispatcher(peer, certificate), thread.settings.clone())).await;
                    }
                }
                Socket::Unix(socket) => {
                    let Ok(mut socket) = UnixStream::from_std(socket) else { return };
                    if let Some((_place, peer)) = thread.find_client(&mut socket, listener, (place, peer)).await {
                        serve(socket, dispatcher(peer, None), thread.settings).await;
                    }
                }
            }
        });
    }
}

impl IoThread {
    /// Returns the place and the address of a connection's client, which behind a proxy its first bytes name; `None` for
    /// a connection that does not begin so, and for a client with too many connections.
    async fn find_client<S: AsyncRead + Unpin>(
        &self,
        socket: &mut S,
        listener: usize,
        (place, peer): (Place, Option<SocketAddr>),
    ) -> Option<(Place, Option<SocketAddr>)> {
        let dispatcher = &self.dispatchers[listener];
        if !dispatcher.scope().proxied {
            return Some((place, peer));
        }
        // Boxed: other connections have no room for it.
        let header = Box::pin(timeout(self.app.config.limits.header_timeout.get(), proxy_protocol::read(socket)));
        let client = match header.await {
            Ok(Ok(client)) => client,
            Ok(Err(error)) => {
                dispatcher.log_missing_proxy_header(&error.to_string());
                return None;
            }
            Err(_) => {
                dispatcher.log_missing_proxy_header("it did not arrive within the header_timeout");
                return None;
            }
        };
        let place = match client {
            Some(client) => place.of_client(&self.addresses, client)?,
            None => place,
        };
        Some((place, client.or(peer)))
    }
}
