//! Settings of TLS.

use std::path::PathBuf;

/// Files and rules of a server's TLS.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsSettings {
    /// Certificates. The first is for clients that ask for no name, or for one that none has.
    pub certificates: Vec<CertificateFiles>,
    /// Check of client certificates; `None` asks for none.
    pub client: Option<ClientAuth>,
    /// Oldest version that clients may speak.
    pub min_version: MinVersion,
}

/// PEM files of a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFiles {
    /// The certificate, and the chain below its root.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

/// Check of client certificates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientAuth {
    /// PEM file of their authorities.
    pub ca: PathBuf,
    /// PEM file of revoked ones.
    pub crl: Option<PathBuf>,
    /// Refuses connections without one.
    pub required: bool,
}

/// Oldest version of TLS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MinVersion {
    /// TLS 1.2.
    #[default]
    V1_2,
    /// TLS 1.3.
    V1_3,
}
