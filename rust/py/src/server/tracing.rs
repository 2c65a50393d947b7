//! Exporter of spans, from `penstock._config.otlp.Exporter`.

use crate::{
    convert::record::{attribute, optional, read_record},
    errors::startup,
};
use penstock_server::{Outgoing, OutgoingSettings, Tracing};
use pyo3::prelude::*;

/// Reads the exporter of a configuration, with its certificates; `None` if no request is traced.
pub(super) fn tracing(config: &Bound<'_, PyAny>) -> PyResult<Option<Tracing>> {
    optional(config, "tracing", |exporter| {
        let tls = if attribute(exporter, "encrypted")? { Some(tls(exporter)?) } else { None };
        Ok(read_record!(exporter, Tracing {
            endpoint,
            authority,
            path,
            grpc,
            headers,
            service_name,
            ratio,
            parent_based,
            gen_ai
            ; ..Tracing { tls, ..Tracing::default() }
        }))
    })
}

fn tls(exporter: &Bound<'_, PyAny>) -> PyResult<Outgoing> {
    let names = ["otlp_ca", "otlp_certificate", "otlp_key"];
    let settings = read_record!(exporter, OutgoingSettings {
        host,
        ca,
        certificate,
        key
        ; ..OutgoingSettings { names, ..OutgoingSettings::default() }
    });
    let protocol: &[u8] = if attribute(exporter, "grpc")? { b"h2" } else { b"http/1.1" };
    Outgoing::new(&settings, protocol).map_err(|error| startup(exporter.py(), "ConfigError", &error.to_string()))
}
