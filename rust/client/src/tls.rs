//! TLS: certificates and trusted authorities.

use crate::{
    Target, TlsOptions, blocking,
    socket::{Socket, Stream},
};
use penstock_core::{Error, Result};
use std::{
    future::{Future as _, poll_fn},
    io,
    path::Path,
    pin::pin,
    sync::Arc,
};
use tokio_rustls::{
    TlsConnector,
    rustls::{
        ClientConfig, RootCertStore,
        crypto::ring,
        pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject as _},
    },
};

/// TLS of a client's connections.
pub(crate) struct Tls {
    connector: TlsConnector,
    name: ServerName<'static>,
}

impl Tls {
    /// Reads the certificates.
    ///
    /// # Errors
    /// `InvalidInput` that names the file, or the name.
    pub(crate) fn new(target: &Target, options: &TlsOptions) -> Result<Self> {
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| Error::invalid(format!("TLS cannot be used: {error}")))?
            .with_root_certificates(roots(options.ca_file.as_deref())?);
        let mut config = match (&options.certificate, &options.key) {
            (Some(certificate), Some(key)) => {
                let chain = certificates(certificate)?;
                let key = PrivateKeyDer::from_pem_file(key).map_err(|error| unreadable(key, &error))?;
                let own = builder.with_client_auth_cert(chain, key);
                own.map_err(|error| Error::invalid(format!("the client's certificate cannot be used: {error}")))?
            }
            (None, None) => builder.with_no_client_auth(),
            _ => return Err(Error::invalid("a client's certificate needs its key, and a key its certificate")),
        };
        config.alpn_protocols = vec![if target.grpc { b"h2".to_vec() } else { b"http/1.1".to_vec() }];
        let name = options.server_name.clone().unwrap_or_else(|| target.host().to_owned());
        let server = ServerName::try_from(name.clone())
            .map_err(|_| Error::invalid(format!("'{name}' is not a name that a certificate can have")))?;
        Ok(Self { connector: TlsConnector::from(Arc::new(config)), name: server })
    }

    /// Encrypts the connection.
    ///
    /// # Errors
    /// The server's certificate is not trusted, or the server does not speak TLS.
    pub(crate) async fn connect(&self, socket: Socket) -> io::Result<Stream> {
        let mut connecting = pin!(self.connector.connect(self.name.clone(), socket));
        let stream = poll_fn(|cx| blocking::with_one_read(|| connecting.as_mut().poll(cx))).await?;
        Ok(Stream::Tls(Box::new(stream)))
    }
}

fn roots(file: Option<&Path>) -> Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    match file {
        Some(file) => {
            for certificate in certificates(file)? {
                roots.add(certificate).map_err(|error| unreadable(file, &error))?;
            }
        }
        None => {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
    }
    if roots.is_empty() {
        return Err(Error::invalid("there are no certificates of authorities to trust: name a file of them"));
    }
    Ok(roots)
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>> {
    CertificateDer::pem_file_iter(file).and_then(Iterator::collect).map_err(|error| unreadable(file, &error))
}

fn unreadable(file: &Path, error: &dyn std::fmt::Display) -> Error {
    Error::invalid(format!("'{}' cannot be read as PEM: {error}", file.display()))
}
