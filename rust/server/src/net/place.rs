//! Places of open connections: as many as the server and each client may have.

use super::client_addresses::{AddressGuard, ClientAddresses};
use crate::state::App;
use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

/// A place among the open connections. Dropping it frees it.
pub(crate) struct Place {
    app: Arc<App>,
    open: Arc<AtomicUsize>,
    address: Option<AddressGuard>,
}

impl Place {
    /// Counts a connection; `None` if there are too many, in all or of its client. A Unix socket has no `client`, nor has a proxy.
    pub(crate) fn take(
        app: &Arc<App>,
        open: &Arc<AtomicUsize>,
        (addresses, client): (&Arc<ClientAddresses>, Option<SocketAddr>),
    ) -> Option<Self> {
        let limits = &app.config.limits;
        let place = Self { app: Arc::clone(app), open: Arc::clone(open), address: None };
        app.metrics.connections.inc();
        let limit = limits.max_connections.get();
        if open.fetch_add(1, Ordering::AcqRel) >= limit {
            tracing::warn!(limit, "a connection over the limit was closed");
            return None;
        }
        match client {
            Some(client) => place.of_client(addresses, client),
            None => Some(place),
        }
    }

    /// Counts the connection for its client; `None` if that has too many.
    pub(crate) fn of_client(mut self, addresses: &Arc<ClientAddresses>, peer: SocketAddr) -> Option<Self> {
        let limit = self.app.config.limits.max_connections_per_address.get();
        self.address = addresses.enter(peer.ip(), limit);
        if self.address.is_none() {
            tracing::warn!(limit, address = %peer.ip(), "a connection over the limit of its address was closed");
            return None;
        }
        Some(self)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.app.metrics.connections.dec();
        self.open.fetch_sub(1, Ordering::AcqRel);
    }
}
