//! Reading of PEM files.

use crate::error::TlsError;
use std::{fs, path::Path};
use tokio_rustls::rustls::pki_types::{
    CertificateDer, CertificateRevocationListDer, PrivateKeyDer,
    pem::{Error as PemError, PemObject},
};

/// Reads the certificates of a file, at least one.
pub(crate) fn certificates(setting: &'static str, file: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    objects(setting, file, "certificate (PEM, 'BEGIN CERTIFICATE')")
}

/// Reads the lists of revoked certificates of a file, at least one.
pub(crate) fn revocations(
    setting: &'static str,
    file: &Path,
) -> Result<Vec<CertificateRevocationListDer<'static>>, TlsError> {
    objects(setting, file, "list of revoked certificates (PEM, 'BEGIN X509 CRL')")
}

/// Reads the private key of a file.
pub(crate) fn key(setting: &'static str, file: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    let pem = read(setting, file)?;
    let is_encrypted = |text: &[u8]| pem.windows(text.len()).any(|part| part == text);
    if is_encrypted(b"BEGIN ENCRYPTED PRIVATE KEY") || is_encrypted(b"Proc-Type: 4,ENCRYPTED") {
        let remedy = format!("is encrypted; decrypt it with 'openssl pkey -in {} -out FILE'", file.display());
        return Err(TlsError::of_file(setting, file, remedy));
    }
    PrivateKeyDer::from_pem_slice(&pem).map_err(|error| match error {
        PemError::NoItemsFound => TlsError::of_file(setting, file, "holds no private key (PEM, 'BEGIN PRIVATE KEY')"),
        error => TlsError::of_file(setting, file, format!("is not PEM: {error}")),
    })
}

fn objects<T: PemObject>(setting: &'static str, file: &Path, what: &str) -> Result<Vec<T>, TlsError> {
    let pem = read(setting, file)?;
    let found: Vec<T> = T::pem_slice_iter(&pem)
        .collect::<Result<_, _>>()
        .map_err(|error| TlsError::of_file(setting, file, format!("is not PEM: {error}")))?;
    if found.is_empty() {
        return Err(TlsError::of_file(setting, file, format!("holds no {what}")));
    }
    Ok(found)
}

fn read(setting: &'static str, file: &Path) -> Result<Vec<u8>, TlsError> {
    fs::read(file).map_err(|error| TlsError::of_file(setting, file, format!("cannot be read: {error}")))
}
