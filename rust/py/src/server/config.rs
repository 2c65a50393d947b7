//! `penstock.config.ServerConfig` read into the server's own configuration.

use crate::{convert::parameters::duration, errors::startup};
use penstock_core::{ErrorTexts, Resources};
use penstock_server::{
    Access, AccessLog, Address, BatchingDebug, Category, CloudEvents, Compression, Config, HeaderPattern, Limits,
    Listener, LogLevel, PlatformRoutes, Platforms, SharedCache, SharedMemory, Tracing,
};
use pyo3::prelude::*;
use std::{net::ToSocketAddrs as _, time::Duration};

/// The fields of `ServerConfig`. Durations are in seconds, 0 for none.
#[derive(Debug, FromPyObject)]
pub(crate) struct ServerConfig {
    http: Option<String>,
    http_extra: Vec<String>,
    grpc: Option<String>,
    metrics: Option<String>,
    allowed_hosts: Vec<String>,
    io_threads: usize,
    max_body_bytes: usize,
    max_header_bytes: usize,
    max_headers: usize,
    header_timeout: f64,
    idle_timeout: f64,
    body_timeout: f64,
    min_body_rate: u64,
    write_timeout: f64,
    max_connections: usize,
    max_inflight_bytes: usize,
    max_inflate_ratio: usize,
    max_json_depth: usize,
    request_timeout: f64,
    pub(crate) drain_timeout: f64,
    overload_status: u16,
    timeout_status: u16,
    timing_headers: bool,
    triton_metrics: bool,
    strict_json: bool,
    compress_answers: bool,
    docs: bool,
    batching_debug: String,
    access_log: String,
    log_level: String,
    server_name: String,
    server_version: Option<String>,
    not_found_message: String,
    not_ready_message: String,
    shared_memory: String,
    grpc_reflection: bool,
    grpc_compression: String,
    http_header_forward_pattern: Option<String>,
    grpc_header_forward_pattern: Option<String>,
    /// Categories, header and secret of each rule; not a setting, but what one says.
    access_rules: Vec<(Vec<String>, String, String)>,
    /// The key itself; not a setting, but what one says.
    access_key: Option<String>,
    /// The URL itself; not a setting, but what one says.
    cache_url: Option<String>,
    cloud_events: bool,
    cloud_events_merge: bool,
    cloud_events_source: Option<String>,
    cloud_events_type: Option<String>,
    sagemaker: bool,
    vertex: bool,
    vertex_health_route: Option<String>,
    vertex_predict_route: Option<String>,
    hosted_model: Option<String>,
    model_control: String,
    /// Endpoint, authority, path, headers, service, share, and whether callers decide; not a setting, but what several say.
    tracing: Option<DeclaredTracing>,
    resources: Vec<(String, u64)>,
}

type DeclaredTracing = (String, String, String, Vec<(String, String)>, String, f64, bool);

impl ServerConfig {
    /// The configuration of a server that listens.
    pub(crate) fn listening(self, py: Python<'_>) -> PyResult<Config> {
        let listeners = self.listeners(py)?;
        let tracing = self.tracing.clone().map(tracing);
        Ok(Config { listeners, tracing, ..self.silent(py)? })
    }

    fn listeners(&self, py: Python<'_>) -> PyResult<Vec<Listener>> {
        let listen = |text: &String, rest, grpc| {
            Ok::<_, PyErr>(Listener { address: address(py, text)?, rest, grpc, metrics: !rest && !grpc })
        };
        let mut listeners = Vec::new();
        match (&self.http, &self.grpc) {
            (Some(http), Some(grpc)) if grpc == "same" || (http == grpc && !http.ends_with(":0")) => {
                listeners.push(listen(http, true, true)?);
            }
            (http, grpc) => {
                listeners.extend(http.iter().map(|http| listen(http, true, false)).collect::<PyResult<Vec<_>>>()?);
                listeners.extend(grpc.iter().map(|grpc| listen(grpc, false, true)).collect::<PyResult<Vec<_>>>()?);
            }
        }
        for http in &self.http_extra {
            listeners.push(listen(http, true, false)?);
        }
        if let Some(metrics) = &self.metrics {
            listeners.push(listen(metrics, false, false)?);
        }
        Ok(listeners)
    }

    /// What all models share, and what is said of those that do not answer.
    pub(crate) fn shared(&self) -> (Resources, ErrorTexts) {
        let resources = Resources::new(self.resources.iter().map(|(name, amount)| (name.as_str().into(), *amount)));
        let Self { not_found_message, not_ready_message, .. } = self;
        (
            resources,
            ErrorTexts { unknown: not_found_message.as_str().into(), not_ready: not_ready_message.as_str().into() },
        )
    }

    /// Whether clients may load and unload models.
    pub(crate) fn takes_commands(&self) -> bool {
        self.model_control == "explicit"
    }

    /// The configuration of a server without listeners.
    pub(crate) fn silent(self, py: Python<'_>) -> PyResult<Config> {
        let access = self.access(py)?;
        let hosting = self.hosting();
        let wrong = |problem: String| startup(py, "ConfigError", &format!("cache_redis: {problem}"));
        let shared_cache = self.cache_url.as_deref().map(SharedCache::new).transpose().map_err(wrong)?;
        Ok(Config {
            listeners: Vec::new(),
            allowed_hosts: self.allowed_hosts,
            platforms: hosting,
            cloud_events: self.cloud_events.then_some(CloudEvents {
                merge: self.cloud_events_merge,
                source: self.cloud_events_source,
                kind: self.cloud_events_type,
            }),
            io_threads: self.io_threads,
            limits: Limits {
                body_bytes: self.max_body_bytes,
                inflate_ratio: self.max_inflate_ratio,
                inflight_bytes: self.max_inflight_bytes,
                header_bytes: self.max_header_bytes,
                headers: self.max_headers,
                header_timeout: duration(self.header_timeout).unwrap_or(Duration::MAX),
                body_timeout: duration(self.body_timeout).unwrap_or(Duration::MAX),
                body_rate: self.min_body_rate,
                write_timeout: duration(self.write_timeout).unwrap_or(Duration::MAX),
                idle_timeout: duration(self.idle_timeout).unwrap_or(Duration::MAX),
                connections: self.max_connections,
                json_depth: self.max_json_depth,
                ..Limits::default()
            },
            overload_unavailable: self.overload_status == 503,
            timeout_unavailable: self.timeout_status == 503,
            timing_headers: self.timing_headers,
            triton_metrics: self.triton_metrics,
            strict_json: self.strict_json,
            compress_answers: self.compress_answers,
            docs: self.docs,
            batching_debug: match self.batching_debug.as_str() {
                "read" => BatchingDebug::Read,
                "change" => BatchingDebug::Change,
                _ => BatchingDebug::Off,
            },
            access_log: match self.access_log.as_str() {
                "text" => AccessLog::Text,
                "json" => AccessLog::Json,
                _ => AccessLog::Off,
            },
            log_level: LogLevel::from_name(&self.log_level).unwrap_or(LogLevel::Warning),
            server_name: self.server_name,
            server_version: self.server_version.unwrap_or(Config::default().server_version),
            reflection: self.grpc_reflection,
            grpc_compression: Compression::from_name(&self.grpc_compression),
            http_forward: pattern(py, "http_header_forward_pattern", self.http_header_forward_pattern.as_deref())?,
            grpc_forward: pattern(py, "grpc_header_forward_pattern", self.grpc_header_forward_pattern.as_deref())?,
            access,
            shared_cache,
            request_timeout: duration(self.request_timeout),
            control: None,
            tracing: None,
            shared_memory: match self.shared_memory.as_str() {
                "local" => SharedMemory::Local,
                "on" => SharedMemory::On,
                _ => SharedMemory::Off,
            },
        })
    }

    fn access(&self, py: Python<'_>) -> PyResult<Access> {
        let wrong = |problem: &str| startup(py, "ConfigError", &format!("restricted_access: {problem}"));
        let mut access = Access::default();
        for (categories, header, secret) in &self.access_rules {
            for name in categories {
                let category = Category::from_name(name).ok_or_else(|| wrong("an unknown category"))?;
                access.restrict(category, header, secret).map_err(|problem| wrong(&problem))?;
            }
        }
        if let Some(key) = &self.access_key {
            access.require_key(key);
        }
        Ok(access)
    }
}

fn pattern(py: Python<'_>, setting: &str, text: Option<&str>) -> PyResult<Option<HeaderPattern>> {
    let wrong = |problem| startup(py, "ConfigError", &format!("{setting}: not a regular expression: {problem}"));
    text.map(|text| HeaderPattern::new(text).map_err(wrong)).transpose()
}

impl ServerConfig {
    fn hosting(&self) -> Option<Platforms> {
        let mut routes = Vec::new();
        if self.sagemaker {
            routes.push(PlatformRoutes { health: "/ping".to_owned(), predict: "/invocations".to_owned() });
        }
        if let (true, Some(health), Some(predict)) =
            (self.vertex, &self.vertex_health_route, &self.vertex_predict_route)
        {
            routes.push(PlatformRoutes { health: health.clone(), predict: predict.clone() });
        }
        (!routes.is_empty()).then(|| Platforms { routes, model: self.hosted_model.clone() })
    }
}

fn tracing(declared: DeclaredTracing) -> Tracing {
    let (endpoint, authority, path, headers, service_name, ratio, parent_based) = declared;
    Tracing { endpoint, authority, path, headers, service_name, ratio, parent_based }
}

fn address(py: Python<'_>, text: &str) -> PyResult<Address> {
    if let Some(path) = text.strip_prefix("unix:") {
        return Ok(Address::Unix(path.into()));
    }
    let resolved = text.to_socket_addrs().ok().and_then(|mut found| found.next());
    resolved
        .map(Address::Tcp)
        .ok_or_else(|| startup(py, "BindError", &format!("cannot listen on {text}: expected HOST:PORT or unix:/path")))
}
