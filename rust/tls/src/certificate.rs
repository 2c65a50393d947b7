//! A certificate with its key: reading, match, expiry.

use crate::{error::TlsError, files, settings::CertificateFiles};
use chrono::{DateTime, Utc};
use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    sync::Arc,
    time::SystemTime,
};
use tokio_rustls::rustls::{
    Error, InconsistentKeys,
    crypto::CryptoProvider,
    pki_types::{CertificateDer, ServerName},
    sign::CertifiedKey,
};
use x509_parser::prelude::{FromDer as _, X509Certificate};

const CERTIFICATE: &str = "tls_certificate";
const KEY: &str = "tls_key";

/// Permissions of others than the owner and its group.
const OTHERS: u32 = 0o007;

/// A certificate with its key.
#[derive(Debug)]
pub(crate) struct Certificate {
    pub(crate) key: Arc<CertifiedKey>,
    pub(crate) file: PathBuf,
    /// The end of its validity.
    pub(crate) expiry: DateTime<Utc>,
    /// Reasons for a warning.
    pub(crate) warnings: Vec<String>,
}

impl Certificate {
    /// Reads a certificate and its key, and checks that they belong together.
    pub(crate) fn load(files: &CertificateFiles, provider: &CryptoProvider) -> Result<Self, TlsError> {
        let CertificateFiles { certificate: file, key: key_file } = files;
        let chain = files::certificates(CERTIFICATE, file)?;
        let key = files::key(KEY, key_file)?;
        let expiry = expiry(file, &chain)?;
        let key = CertifiedKey::from_der(chain, key, provider).map_err(|error| match error {
            Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => {
                let reason = format!("does not belong to the certificate '{}'", file.display());
                TlsError::of_file(KEY, key_file, reason)
            }
            error => TlsError::of_file(KEY, key_file, format!("cannot be used: {error}")),
        })?;
        let mut warnings = Vec::new();
        if expiry < DateTime::<Utc>::from(SystemTime::now()) {
            warnings.push(format!("{CERTIFICATE}: '{}' expired on {}", file.display(), expiry.date_naive()));
        }
        let mode = fs::metadata(key_file).map_or(0, |found| found.permissions().mode() & 0o777);
        if mode & OTHERS != 0 {
            warnings.push(format!("{KEY}: '{}' can be read by everyone (mode {mode:04o})", key_file.display()));
        }
        Ok(Self { key: Arc::new(key), file: file.clone(), expiry, warnings })
    }

    /// Reports whether it is for a server of this name.
    pub(crate) fn is_for(&self, name: &ServerName<'_>) -> bool {
        self.key.end_entity_cert().is_ok_and(|leaf| {
            let parsed = tokio_rustls::rustls::server::ParsedCertificate::try_from(leaf);
            parsed.is_ok_and(|leaf| tokio_rustls::rustls::client::verify_server_name(&leaf, name).is_ok())
        })
    }
}

fn expiry(file: &Path, chain: &[CertificateDer<'static>]) -> Result<DateTime<Utc>, TlsError> {
    let parsed = chain.first().and_then(|leaf| X509Certificate::from_der(leaf).ok());
    let seconds = parsed.map(|(_, leaf)| leaf.validity().not_after.timestamp());
    let expiry = seconds.and_then(|seconds| DateTime::from_timestamp(seconds, 0));
    expiry.ok_or_else(|| TlsError::of_file(CERTIFICATE, file, "is not an X.509 certificate"))
}
