//! Check of client certificates.

use crate::{error::TlsError, files, settings::ClientAuth};
use std::sync::Arc;
use tokio_rustls::rustls::{
    RootCertStore,
    crypto::CryptoProvider,
    server::{WebPkiClientVerifier, danger::ClientCertVerifier},
};

const CLIENT_CA: &str = "tls_client_ca";
const CLIENT_CRL: &str = "tls_client_crl";

/// The verifier of client certificates.
///
/// A revoked certificate, an expired list, and with lists an authority without one are refused.
pub(crate) fn verifier(
    client: Option<&ClientAuth>,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, TlsError> {
    let Some(ClientAuth { ca, crl, required }) = client else { return Ok(WebPkiClientVerifier::no_client_auth()) };
    let mut roots = RootCertStore::empty();
    for certificate in files::certificates(CLIENT_CA, ca)? {
        roots.add(certificate).map_err(|error| TlsError::of_file(CLIENT_CA, ca, format!("cannot be used: {error}")))?;
    }
    let mut builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider));
    if let Some(file) = crl {
        builder = builder.with_crls(files::revocations(CLIENT_CRL, file)?).enforce_revocation_expiration();
    }
    if !required {
        builder = builder.allow_unauthenticated();
    }
    builder.build().map_err(|error| TlsError::new(CLIENT_CA, error.to_string()))
}
