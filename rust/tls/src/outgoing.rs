//! Client side of TLS, for connections of the server to other services.

use crate::{error::TlsError, files};
use std::{path::PathBuf, sync::Arc};
use tokio_rustls::{
    TlsConnector,
    rustls::{ClientConfig, RootCertStore, crypto::ring, pki_types::ServerName},
};

/// Files of an outgoing connection's TLS, each with the name of its setting in errors.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OutgoingSettings {
    /// Name of the other side, as its certificate has it.
    pub host: String,
    /// PEM file of the authorities that it may have; `None` for those of the system.
    pub ca: Option<PathBuf>,
    /// PEM file of this side's certificate.
    pub certificate: Option<PathBuf>,
    /// PEM file of its key.
    pub key: Option<PathBuf>,
    /// Names of the settings `ca`, `certificate` and `key`.
    pub names: [&'static str; 3],
}

/// TLS of outgoing connections to one host.
#[derive(Clone)]
pub struct Outgoing {
    /// Opens connections.
    pub connector: TlsConnector,
    /// Name that the other side's certificate must have.
    pub name: ServerName<'static>,
}

impl Outgoing {
    /// Reads the files. `protocol` is the one of ALPN.
    ///
    /// # Errors
    /// [`TlsError`] that names the setting and the file.
    pub fn new(settings: &OutgoingSettings, protocol: &[u8]) -> Result<Self, TlsError> {
        let [ca_name, certificate_name, key_name] = settings.names;
        let mut roots = RootCertStore::empty();
        match &settings.ca {
            Some(file) => {
                for certificate in files::certificates(ca_name, file)? {
                    roots.add(certificate).map_err(|error| TlsError::of_file(ca_name, file, error))?;
                }
            }
            None => {
                roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
                if roots.is_empty() {
                    return Err(TlsError::new(ca_name, "this system has no authorities to trust: name a file of them"));
                }
            }
        }
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| TlsError::new(ca_name, error.to_string()))?
            .with_root_certificates(roots);
        let mut config = match (&settings.certificate, &settings.key) {
            (Some(certificate), Some(key)) => builder
                .with_client_auth_cert(files::certificates(certificate_name, certificate)?, files::key(key_name, key)?)
                .map_err(|error| TlsError::of_file(certificate_name, certificate, error))?,
            _ => builder.with_no_client_auth(),
        };
        config.alpn_protocols = vec![protocol.to_vec()];
        let name = ServerName::try_from(settings.host.clone())
            .map_err(|_| TlsError::new(ca_name, format!("'{}' is not a name that a certificate has", settings.host)))?;
        Ok(Self { connector: TlsConnector::from(Arc::new(config)), name })
    }
}

impl std::fmt::Debug for Outgoing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Outgoing").field("name", &self.name).finish_non_exhaustive()
    }
}
