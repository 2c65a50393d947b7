//! `penstock.config.ServerConfig` read into the server's configuration. Durations are in seconds, 0 for none.

use super::{listeners, tracing::tracing};
use crate::{
    convert::record::{attribute, read_record},
    errors::startup,
    seconds::duration,
    stacks,
};
use penstock_core::{Dialect, Resources};
use penstock_server::{
    Access, AccessField, AuditTarget, BatchingDebug, Build, Categories, Category, CertificateFiles, ClientAuth,
    CloudEvents, Compression, Config, HeaderPattern, KeySettings, LiveAccess, MinVersion, PlatformRoutes, Platforms,
    SharedCache, SharedMemory, StallSettings, Tls, TlsSettings, TrustedProxies, WebSettings,
};
use pyo3::{PythonVersionInfo, prelude::*};
use std::{path::PathBuf, time::Duration};

/// A `ServerConfig` of Python.
pub(crate) struct ServerConfig<'a, 'py>(pub(crate) &'a Bound<'py, PyAny>);

impl<'py> ServerConfig<'_, 'py> {
    /// The configuration of a server that listens.
    ///
    /// `handed_over` has the sockets of a server that it replaces: address as configured, and descriptor.
    pub(crate) fn listening(&self, handed_over: Vec<(String, i32)>) -> PyResult<Config> {
        let inherited = listeners::inherited(self.0.py(), handed_over)?;
        let listeners = listeners::listeners(self)?;
        Ok(Config { listeners, inherited, tls: self.tls()?, tracing: tracing(self.0)?, ..self.silent()? })
    }

    /// The configuration of a server without listeners.
    pub(crate) fn silent(&self) -> PyResult<Config> {
        let dialect = self.dialect()?;
        let several = Config {
            access: self.access()?,
            keys: self.keys()?,
            admin_only: self.admin_only()?,
            platforms: self.platforms()?,
            cloud_events: self.cloud_events()?,
            shared_cache: self.shared_cache()?,
            http_header_forward_pattern: self.pattern("http_header_forward_pattern")?,
            grpc_header_forward_pattern: self.pattern("grpc_header_forward_pattern")?,
            web: WebSettings { cors_origins: self.get("cors_origins")?, hsts: duration(self.get("hsts")?) },
            trusted_proxies: self.trusted_proxies()?,
            stalls: StallSettings::new(duration(self.get("stall_timeout")?)),
            stacks: stacks::of_process,
            dialect,
            build: self.build()?,
            tls: None,
            ..self.changeable()?
        };
        let version = several.server_version.clone();
        let or_version = |given: Option<String>| given.unwrap_or(version);
        Ok(read_record!(self.0, Config {
            allowed_hosts,
            io_threads,
            timing_headers,
            strict_json,
            compress_answers,
            docs,
            server_name => |given: Option<String>| given.unwrap_or_else(|| dialect.name().to_owned()),
            server_version => or_version,
            grpc_reflection,
            grpc_compression => |name: String| Compression::from_name(&name),
            live => |mode: String| match mode.as_str() {
                "off" => LiveAccess::Off,
                "on" => LiveAccess::On,
                _ => LiveAccess::Local,
            },
            batching_debug => |mode: String| match mode.as_str() {
                "read" => BatchingDebug::Read,
                "change" => BatchingDebug::Change,
                _ => BatchingDebug::Off,
            },
            access_log_fields => |names: Vec<String>| {
                names.iter().filter_map(|name| AccessField::from_name(name)).collect()
            },
            access_log_sample,
            slow_request => duration,
            audit_log => |target: Option<PathBuf>| target.map(|target| match target.to_str() {
                Some("stderr") => AuditTarget::Stderr,
                _ => AuditTarget::File(target),
            }),
            shared_memory => |mode: String| match mode.as_str() {
                "local" => SharedMemory::Local,
                "on" => SharedMemory::On,
                _ => SharedMemory::Off,
            }
            ; ..several
        }))
    }

    /// Versions of the interpreter and the compiler.
    fn build(&self) -> PyResult<Build> {
        let (py, rustc) = (self.0.py(), env!("PENSTOCK_RUSTC").to_owned());
        let PythonVersionInfo { major, minor, patch, .. } = py.version_info();
        // Interpreters before 3.13 always have the lock.
        let holds: bool = match py.import("sys")?.getattr_opt("_is_gil_enabled")? {
            Some(is_enabled) => is_enabled.call0()?.extract()?,
            None => true,
        };
        let gil = if holds { "on" } else { "off" }.to_owned();
        Ok(Build { python: format!("{major}.{minor}.{patch}"), gil, rustc, ..Build::default() })
    }

    /// TLS; `None` without a certificate.
    pub(super) fn tls(&self) -> PyResult<Option<Tls>> {
        let (certificates, keys): (Vec<PathBuf>, Vec<PathBuf>) = (self.get("tls_certificate")?, self.get("tls_key")?);
        let pairs = certificates.into_iter().zip(keys);
        let (mode, ca): (String, Option<PathBuf>) = (self.get("tls_client")?, self.get("tls_client_ca")?);
        let (required, crl) = (mode == "required", self.get("tls_client_crl")?);
        let files = TlsSettings {
            certificates: pairs.map(|(certificate, key)| CertificateFiles { certificate, key }).collect(),
            // The configuration has no authorities where it is off.
            client: ca.map(|ca| ClientAuth { ca, crl, required }),
            min_version: if self.get::<String>("tls_min_version")? == "1.3" {
                MinVersion::V1_3
            } else {
                MinVersion::V1_2
            },
        };
        let reload = duration(self.get("tls_reload")?);
        let handshake_timeout = duration(self.get("tls_handshake_timeout")?).unwrap_or(Duration::MAX);
        Ok((!files.certificates.is_empty()).then_some(Tls {
            files,
            reload,
            handshake_timeout: handshake_timeout.into(),
        }))
    }

    fn trusted_proxies(&self) -> PyResult<TrustedProxies> {
        let entries: Vec<String> = self.get("trusted_proxies")?;
        let wrong = |entry| self.error(&format!("trusted_proxies: '{entry}' is not a network"));
        TrustedProxies::new(entries.iter().map(String::as_str)).map_err(wrong)
    }

    /// The resources that models share, and the dialect of their errors.
    pub(crate) fn shared(&self) -> PyResult<(Resources, Dialect)> {
        let resources: Vec<(String, u64)> = self.get("resources")?;
        let resources = Resources::new(resources.into_iter().map(|(name, amount)| (name.into(), amount)));
        Ok((resources, self.dialect()?))
    }

    fn dialect(&self) -> PyResult<Dialect> {
        Ok(Dialect::from_name(&self.get::<String>("dialect")?).unwrap_or_default())
    }

    /// Returns whether clients may load and unload models.
    pub(crate) fn takes_commands(&self) -> PyResult<bool> {
        Ok(self.get::<String>("model_control")? == "explicit")
    }

    /// The default time to drain, in seconds.
    pub(crate) fn drain_timeout(&self) -> PyResult<f64> {
        self.get("drain_timeout")
    }

    /// The categories that only the admin address serves.
    fn admin_only(&self) -> PyResult<Categories> {
        if self.get::<Option<String>>("admin")?.is_none() {
            return Ok(Categories::default());
        }
        let names: Vec<String> = self.get("admin_only")?;
        Ok(Categories::of(names.iter().filter_map(|name| Category::from_name(name))))
    }

    fn keys(&self) -> PyResult<Option<KeySettings>> {
        let (file, api_key): (Option<PathBuf>, Option<String>) = (self.get("keys_file")?, self.get("access_key")?);
        Ok(if file.is_none() && api_key.is_none() { None } else { Some(KeySettings { file, api_key }) })
    }

    /// The rules: categories, header and secret of each.
    fn access(&self) -> PyResult<Access> {
        let wrong = |problem: &str| self.error(&format!("restricted_access: {problem}"));
        let mut access = Access::default();
        for (categories, header, secret) in self.get::<Vec<(Vec<String>, String, String)>>("access_rules")? {
            for name in categories {
                let category = Category::from_name(&name).ok_or_else(|| wrong("an unknown category"))?;
                access.restrict(category, &header, &secret).map_err(|problem| wrong(&problem))?;
            }
        }
        Ok(access)
    }

    fn platforms(&self) -> PyResult<Option<Platforms>> {
        let mut routes = Vec::new();
        if self.get("sagemaker")? {
            routes.push(PlatformRoutes { health: "/ping".to_owned(), predict: "/invocations".to_owned() });
        }
        if self.get("vertex")?
            && let (Some(health), Some(predict)) = (self.get("vertex_health_route")?, self.get("vertex_predict_route")?)
        {
            routes.push(PlatformRoutes { health, predict });
        }
        let model = self.get("hosted_model")?;
        Ok((!routes.is_empty()).then_some(Platforms { routes, model }))
    }

    fn cloud_events(&self) -> PyResult<Option<CloudEvents>> {
        let events = read_record!(
            self.0,
            CloudEvents { merge: "cloud_events_merge", source: "cloud_events_source", kind: "cloud_events_type" }
        );
        Ok(self.get::<bool>("cloud_events")?.then_some(events))
    }

    fn shared_cache(&self) -> PyResult<Option<SharedCache>> {
        let url: Option<String> = self.get("cache_url")?;
        let wrong = |problem: String| self.error(&format!("cache_redis: {problem}"));
        url.as_deref().map(SharedCache::new).transpose().map_err(wrong)
    }

    fn pattern(&self, setting: &str) -> PyResult<Option<HeaderPattern>> {
        let text: Option<String> = self.get(setting)?;
        let wrong = |problem| self.error(&format!("{setting}: not a regular expression: {problem}"));
        text.map(|text| HeaderPattern::new(&text).map_err(wrong)).transpose()
    }

    pub(super) fn get<T: for<'b> FromPyObject<'b, 'py>>(&self, name: &str) -> PyResult<T> {
        attribute(self.0, name)
    }

    fn error(&self, text: &str) -> PyErr {
        startup(self.0.py(), "ConfigError", text)
    }
}
