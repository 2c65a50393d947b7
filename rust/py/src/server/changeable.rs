//! The settings that may change while a server runs, read from `penstock.config.ServerConfig`.

use super::config::ServerConfig;
use crate::{convert::record::read_record, seconds::duration};
use penstock_server::{AccessLog, Config, Limits, Live, LogLevel, default_max_inflight_bytes};
use pyo3::prelude::*;
use std::time::Duration;

impl ServerConfig<'_, '_> {
    /// A configuration with these settings; all others have their defaults.
    pub(super) fn changeable(&self) -> PyResult<Config> {
        let others = Config { limits: self.limits()?, tls: self.tls()?, ..Config::default() };
        Ok(read_record!(self.0, Config {
            request_timeout => |seconds: f64| duration(seconds).into(),
            flush_interval => |seconds: f64| duration(seconds).into(),
            stream_keepalive => |seconds: f64| duration(seconds).into(),
            stream_resume => |seconds: f64| duration(seconds).into(),
            drain_delay => |seconds: f64| duration(seconds).unwrap_or_default().into(),
            log_level => |name: String| LogLevel::from_name(&name).unwrap_or(LogLevel::Warning),
            access_log => |format: String| match format.as_str() {
                "text" => AccessLog::Text,
                "json" => AccessLog::Json,
                "short" => AccessLog::Short,
                _ => AccessLog::Off,
            }
            ; ..others
        }))
    }

    fn limits(&self) -> PyResult<Limits> {
        let or_unlimited = |seconds: f64| duration(seconds).unwrap_or(Duration::MAX);
        let live_or_unlimited = |seconds: f64| or_unlimited(seconds).into();
        Ok(read_record!(self.0, Limits {
            max_body_bytes => Live::new,
            max_inflate_ratio => Live::new,
            max_inflight_bytes => |given: Option<usize>| given.unwrap_or_else(default_max_inflight_bytes).into(),
            max_header_bytes,
            max_headers,
            header_timeout => live_or_unlimited,
            body_timeout => live_or_unlimited,
            min_body_rate => Live::new,
            write_timeout => live_or_unlimited,
            idle_timeout => live_or_unlimited,
            max_connections => Live::new,
            max_connections_per_address => Live::new,
            max_connection_age => live_or_unlimited,
            max_connection_age_grace => live_or_unlimited,
            http2_keepalive => duration,
            http2_keepalive_timeout => or_unlimited,
            memory_shed => Live::new,
            max_json_depth => Live::new
            ; ..Limits::default()
        }))
    }
}
