//! Settings of TLS.

use std::path::PathBuf;

/// Files and rules of a server's TLS.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsSettings {
    /// PEM files, each with a certificate and its chain. The first is for clients that ask for no name, or another one.
    pub certificates: Vec<PathBuf>,
    /// PEM file of the key of each certificate.
    pub keys: Vec<PathBuf>,
    /// PEM file of the authorities of client certificates.
    pub client_ca: Option<PathBuf>,
    /// Requirement of a client certificate.
    pub client: ClientAuth,
    /// PEM file of revoked client certificates.
    pub client_crl: Option<PathBuf>,
    /// Oldest version that clients may speak.
    pub min_version: MinVersion,
}

/// Requirement of a client certificate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClientAuth {
    /// None is asked for.
    #[default]
    Off,
    /// One is checked if the client has it.
    Optional,
    /// Connections without one are refused.
    Required,
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
