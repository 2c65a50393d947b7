//! Limits on clients.

use super::live::Live;
use penstock_wire::coding::InflateLimits;
use std::time::Duration;

/// Limits on what one client uses. `docs/limits.md` lists the status of each.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Bytes of one request's body or message.
    pub max_body_bytes: Live<usize>,
    /// Inflated bytes per compressed byte, from 1 MiB on.
    pub max_inflate_ratio: Live<usize>,
    /// Bytes of all request bodies in memory at once.
    pub max_inflight_bytes: Live<usize>,
    /// Bytes of a request's header names and values together.
    pub max_header_bytes: usize,
    /// Headers of a request.
    pub max_headers: usize,
    /// Bytes of a request's path and query.
    pub uri_bytes: usize,
    /// Time from a request's first byte to the end of its headers.
    pub header_timeout: Live<Duration>,
    /// Time between two chunks of a request's body.
    pub body_timeout: Live<Duration>,
    /// Minimum average rate of a request's body in bytes per second, after a grace period; 0 for no limit.
    pub min_body_rate: Live<u64>,
    /// Time without a request on a connection.
    pub idle_timeout: Live<Duration>,
    /// Time in which the client takes no byte of a waiting response.
    pub write_timeout: Live<Duration>,
    /// Open connections.
    pub max_connections: Live<usize>,
    /// Open connections of one client address, which of IPv6 is its /64 network; 0 for no limit.
    pub max_connections_per_address: Live<usize>,
    /// Age of a connection at which its client is asked to open another one, give or take a tenth.
    pub max_connection_age: Live<Duration>,
    /// Time that the requests of such a connection have to finish.
    pub max_connection_age_grace: Live<Duration>,
    /// Interval of pings on HTTP/2 connections; `None` for none.
    pub http2_keepalive: Option<Duration>,
    /// Time in which the client must acknowledge a ping.
    pub http2_keepalive_timeout: Duration,
    /// Share of the control group's memory limit above which new requests are refused; 0 for no check.
    pub memory_shed: Live<f64>,
    /// Levels of nesting in a JSON body.
    pub max_json_depth: Live<usize>,
    /// Concurrent requests on one HTTP/2 connection.
    pub http2_streams: u32,
    /// Flow-control window of an HTTP/2 stream in bytes; a connection has four times that.
    pub http2_window: u32,
}

impl Limits {
    /// Takes over the limits of `other` that may change while the server runs. Those of the HTTP library may not.
    pub(crate) fn take_over(&self, other: &Self) {
        let Self {
            max_body_bytes,
            max_inflate_ratio,
            max_inflight_bytes,
            max_header_bytes: _,
            max_headers: _,
            uri_bytes: _,
            header_timeout,
            body_timeout,
            min_body_rate,
            idle_timeout,
            write_timeout,
            max_connections,
            max_connections_per_address,
            max_connection_age,
            max_connection_age_grace,
            http2_keepalive: _,
            http2_keepalive_timeout: _,
            memory_shed,
            max_json_depth,
            http2_streams: _,
            http2_window: _,
        } = self;
        max_body_bytes.take_over(&other.max_body_bytes);
        max_inflate_ratio.take_over(&other.max_inflate_ratio);
        max_inflight_bytes.take_over(&other.max_inflight_bytes);
        header_timeout.take_over(&other.header_timeout);
        body_timeout.take_over(&other.body_timeout);
        min_body_rate.take_over(&other.min_body_rate);
        idle_timeout.take_over(&other.idle_timeout);
        write_timeout.take_over(&other.write_timeout);
        max_connections.take_over(&other.max_connections);
        max_connections_per_address.take_over(&other.max_connections_per_address);
        max_connection_age.take_over(&other.max_connection_age);
        max_connection_age_grace.take_over(&other.max_connection_age_grace);
        memory_shed.take_over(&other.memory_shed);
        max_json_depth.take_over(&other.max_json_depth);
    }

    /// Returns the bounds on an inflated body.
    pub(crate) fn inflation(&self) -> InflateLimits {
        InflateLimits { bytes: self.max_body_bytes.get(), ratio: self.max_inflate_ratio.get() }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_body_bytes: (64 << 20).into(),
            max_inflate_ratio: 100.into(),
            max_inflight_bytes: (1 << 30).into(),
            max_header_bytes: 64 << 10,
            max_headers: 100,
            uri_bytes: 8 << 10,
            header_timeout: Duration::from_secs(10).into(),
            body_timeout: Duration::from_secs(30).into(),
            min_body_rate: 240.into(),
            idle_timeout: Duration::from_secs(75).into(),
            write_timeout: Duration::from_secs(30).into(),
            max_connections: 16_384.into(),
            max_connections_per_address: 0.into(),
            max_connection_age: Duration::MAX.into(),
            max_connection_age_grace: Duration::from_secs(30).into(),
            http2_keepalive: None,
            http2_keepalive_timeout: Duration::from_secs(20),
            memory_shed: 0.95.into(),
            max_json_depth: 64.into(),
            http2_streams: 1024,
            http2_window: 8 << 20,
        }
    }
}
