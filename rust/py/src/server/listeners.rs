//! Listeners of `penstock.config.ServerConfig`.

use super::config::ServerConfig;
use crate::{descriptors, errors::startup};
use penstock_server::{Address, Inherited, Listener, Serves};
use pyo3::prelude::*;
use std::net::ToSocketAddrs as _;

/// Reads the listeners of a configuration.
pub(super) fn listeners(config: &ServerConfig<'_, '_>) -> PyResult<Vec<Listener>> {
    let (http, grpc): (Option<String>, Option<String>) = (config.get("http")?, config.get("grpc")?);
    let is_shared = grpc.as_deref() == Some("same");
    let main = [("http", http), ("grpc", grpc.filter(|_| !is_shared))];
    let entries: Vec<String> = config.get("listeners")?;
    let is_encrypted = !config.get::<Vec<String>>("tls_certificate")?.is_empty();
    let main = main.iter().filter_map(|(kind, address)| Some((*kind, address.as_deref()?)));
    let admin: Option<String> = config.get("admin")?;
    let further = entries.iter().filter_map(|entry| entry.split_once('='));
    let mut listeners: Vec<(&str, Listener)> = Vec::new();
    for (kind, text) in main.chain(further).chain(admin.as_deref().map(|address| ("admin", address))) {
        let serves = match kind {
            "http" => Serves { rest: true, ..Serves::default() },
            "grpc" => Serves { grpc: true, ..Serves::default() },
            "admin" => Serves { rest: true, grpc: true, admin: true, ..Serves::default() },
            _ => Serves { metrics: true, ..Serves::default() },
        };
        // Each port 0 becomes another port.
        match listeners.iter_mut().find(|(known, _)| *known == text && !text.ends_with(":0")) {
            Some((_, same)) => {
                same.serves.rest |= serves.rest;
                same.serves.grpc |= serves.grpc;
            }
            None => {
                let (proxied, bare) = without_prefix(text, "proxy:");
                let (is_plain, bare) = without_prefix(bare, "plain:");
                let address = address(config.0.py(), bare)?;
                listeners.push((text, Listener { address, serves, tls: is_encrypted && !is_plain, proxied }));
            }
        }
    }
    let mut listeners: Vec<_> = listeners.into_iter().map(|(_, listener)| listener).collect();
    if let Some(first) = listeners.first_mut().filter(|_| is_shared) {
        first.serves.grpc = true;
    }
    Ok(listeners)
}

/// Returns whether a text has a prefix, and the rest.
fn without_prefix<'t>(text: &'t str, prefix: &str) -> (bool, &'t str) {
    text.strip_prefix(prefix).map_or((false, text), |rest| (true, rest))
}

/// Returns the sockets that another process has opened. Those of `handed_over` are of a server that this one
/// replaces: address as configured, and descriptor.
pub(super) fn inherited(py: Python<'_>, handed_over: Vec<(String, i32)>) -> PyResult<Inherited> {
    let handed_over = handed_over.iter().map(|(text, number)| Ok((address(py, text)?, *number)));
    Ok(Inherited { duplicate: descriptors::duplicate, handed_over: handed_over.collect::<PyResult<_>>()? })
}

fn address(py: Python<'_>, text: &str) -> PyResult<Address> {
    if let Some(path) = text.strip_prefix("unix:") {
        return Ok(Address::Unix(path.into()));
    }
    if let Some(number) = text.strip_prefix("fd:").and_then(|number| number.parse().ok()) {
        return Ok(Address::Descriptor(number));
    }
    let resolved = text.to_socket_addrs().ok().and_then(|mut found| found.next());
    resolved.map(Address::Tcp).ok_or_else(|| {
        startup(py, "BindError", &format!("cannot listen on {text}: expected HOST:PORT, unix:/path or fd:N"))
    })
}
