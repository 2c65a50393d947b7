//! The certificates of a server, and the configurations that are made of them.

use crate::{
    certificate::Certificate,
    client_auth,
    error::TlsError,
    settings::{CertificateFiles, MinVersion, TlsSettings},
    stamps::FileStamps,
};
use std::{
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError, RwLock},
};
use tokio_rustls::rustls::{
    ServerConfig, SupportedProtocolVersion,
    crypto::{CryptoProvider, ring},
    pki_types::ServerName,
    server::{ClientHello, ResolvesServerCert},
    sign::CertifiedKey,
    version::{TLS12, TLS13},
};

/// Protocols that an address offers to clients, the preferred one first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alpn {
    /// HTTP/2 and HTTP/1.1.
    Http,
    /// HTTP/2 only, as gRPC needs it.
    Grpc,
}

/// Name and expiry of a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateInfo {
    /// Name of its file, without folders.
    pub name: String,
    /// The end of its validity, in seconds since 1970.
    pub expiry: i64,
}

/// The certificates of a server. A connection uses those of its time.
#[derive(Debug)]
pub struct Certificates {
    settings: TlsSettings,
    provider: Arc<CryptoProvider>,
    loaded: RwLock<Loaded>,
    /// State of the files at the last reading, also of those that could not be used.
    seen: Mutex<FileStamps>,
}

/// Configurations made of one reading of the files.
#[derive(Debug)]
struct Loaded {
    http: Arc<ServerConfig>,
    grpc: Arc<ServerConfig>,
    infos: Vec<CertificateInfo>,
    warnings: Vec<String>,
}

impl Certificates {
    /// Reads all files.
    ///
    /// # Errors
    /// [`TlsError`] with the setting, the file and the reason.
    pub fn load(settings: TlsSettings) -> Result<Self, TlsError> {
        let provider = Arc::new(ring::default_provider());
        let seen = Mutex::new(FileStamps::of(files(&settings)));
        let loaded = RwLock::new(read(&settings, &provider)?);
        Ok(Self { settings, provider, loaded, seen })
    }

    /// The configuration for a new connection.
    pub fn config(&self, alpn: Alpn) -> Arc<ServerConfig> {
        let loaded = self.loaded.read().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(match alpn {
            Alpn::Http => &loaded.http,
            Alpn::Grpc => &loaded.grpc,
        })
    }

    /// Reads the files again if one has changed since the last reading; `None` if none has.
    ///
    /// Files may be written one after the other: those that do not fit are read again at their next change.
    ///
    /// # Errors
    /// As [`Certificates::load`]; the old certificates stay.
    pub fn reload(&self) -> Option<Result<(), TlsError>> {
        let stamps = FileStamps::of(files(&self.settings));
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if *seen == stamps {
            return None;
        }
        *seen = stamps;
        Some(read(&self.settings, &self.provider).map(|loaded| {
            *self.loaded.write().unwrap_or_else(PoisonError::into_inner) = loaded;
        }))
    }

    /// Names and expiries of the certificates.
    pub fn infos(&self) -> Vec<CertificateInfo> {
        self.loaded.read().unwrap_or_else(PoisonError::into_inner).infos.clone()
    }

    /// Defects of the files that do not prevent their use.
    pub fn warnings(&self) -> Vec<String> {
        self.loaded.read().unwrap_or_else(PoisonError::into_inner).warnings.clone()
    }
}

fn files(settings: &TlsSettings) -> impl Iterator<Item = &PathBuf> {
    let certificates = settings.certificates.iter().flat_map(|files| [&files.certificate, &files.key]);
    let client = settings.client.iter().flat_map(|client| [&client.ca].into_iter().chain(&client.crl));
    certificates.chain(client)
}

fn read(settings: &TlsSettings, provider: &Arc<CryptoProvider>) -> Result<Loaded, TlsError> {
    let load = |files: &CertificateFiles| Certificate::load(files, provider);
    let loaded = settings.certificates.iter().map(load).collect::<Result<Vec<_>, _>>()?;
    let info = |one: &Certificate| CertificateInfo {
        name: one.file.file_name().unwrap_or_default().to_string_lossy().into_owned(),
        expiry: one.expiry.timestamp(),
    };
    let infos = loaded.iter().map(info).collect();
    let warnings = loaded.iter().flat_map(|one| one.warnings.clone()).collect();
    let resolver: Arc<dyn ResolvesServerCert> = Arc::new(ByName(loaded));
    let verifier = client_auth::verifier(settings.client.as_ref(), provider)?;
    let versions: &[&'static SupportedProtocolVersion] = match settings.min_version {
        MinVersion::V1_2 => &[&TLS13, &TLS12],
        MinVersion::V1_3 => &[&TLS13],
    };
    let config = |alpn: &[&[u8]]| {
        let unusable = |error: tokio_rustls::rustls::Error| TlsError::new("tls_certificate", error.to_string());
        let builder = ServerConfig::builder_with_provider(Arc::clone(provider));
        let builder = builder.with_protocol_versions(versions).map_err(unusable)?;
        let builder = builder.with_client_cert_verifier(Arc::clone(&verifier));
        let mut config = builder.with_cert_resolver(Arc::clone(&resolver));
        // The order of rustls, which prefers ciphers with the longest keys.
        config.ignore_client_order = true;
        config.alpn_protocols = alpn.iter().map(|name| name.to_vec()).collect();
        // A new key with each reading: no client resumes a session that the new files would refuse.
        config.ticketer = ring::Ticketer::new().map_err(unusable)?;
        Ok::<_, TlsError>(Arc::new(config))
    };
    Ok(Loaded { http: config(&[b"h2", b"http/1.1"])?, grpc: config(&[b"h2"])?, infos, warnings })
}

/// Chooses the certificate by the name that a client asks for: the first that is for it, else the first of all.
#[derive(Debug)]
struct ByName(Vec<Certificate>);

impl ResolvesServerCert for ByName {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let name = hello.server_name().and_then(|name| ServerName::try_from(name).ok());
        let asked = name.and_then(|name| self.0.iter().find(|one| one.is_for(&name)));
        asked.or(self.0.first()).map(|one| Arc::clone(&one.key))
    }
}
