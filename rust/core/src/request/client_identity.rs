//! Identity of a client, for handlers, fairness, cache keys and logs.

use super::ModelPatterns;
use std::{borrow::Cow, net::IpAddr, sync::Arc};

/// Identity of a client: its key, its certificate, and the address of its connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientIdentity {
    /// Name of the key that the request carries.
    pub key: Option<Arc<str>>,
    /// Certificate of the connection, which the server has verified.
    pub certificate: Option<Arc<ClientCertificate>>,
    /// Address of the connection's other end, which may be a proxy's; `None` for Unix sockets and calls in this process.
    pub address: Option<IpAddr>,
    /// Models that the client may use; `None` for all.
    pub models: Option<Arc<ModelPatterns>>,
}

/// A verified client certificate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientCertificate {
    /// Subject, such as `CN=batch, O=Example`.
    pub subject: String,
    /// DNS names.
    pub dns: Vec<String>,
    /// URIs, such as SPIFFE ids.
    pub uris: Vec<String>,
    /// SHA-256 of the certificate, in lower-case hexadecimal digits.
    pub fingerprint: String,
}

impl ClientIdentity {
    /// Kind of proof of the client: `key`, `certificate`, `address`, or `local` without any of them.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self { key: Some(_), .. } => "key",
            Self { certificate: Some(_), .. } => "certificate",
            Self { address: Some(_), .. } => "address",
            _ => "local",
        }
    }

    /// Name of the client: its key's; its certificate's first URI, DNS name or subject; its address; or `local`.
    pub fn name(&self) -> Cow<'_, str> {
        match (self.proven_name(), self.address) {
            (Some(name), _) => Cow::Borrowed(name),
            (None, Some(address)) => Cow::Owned(address.to_string()),
            (None, None) => Cow::Borrowed("local"),
        }
    }

    /// Name that a key or a certificate proves; `None` without either.
    pub fn proven_name(&self) -> Option<&str> {
        match self {
            Self { key: Some(key), .. } => Some(key),
            Self { certificate, .. } => certificate.as_ref().map(|certificate| certificate.name()),
        }
    }

    /// Reports whether the client may use a model.
    pub fn may_use(&self, model: &str) -> bool {
        self.models.as_ref().is_none_or(|models| models.allow(model))
    }
}

impl ClientCertificate {
    /// First URI or DNS name, else the subject.
    pub fn name(&self) -> &str {
        self.uris.first().or(self.dns.first()).unwrap_or(&self.subject)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identity_is_the_key_then_the_certificate_then_the_address() {
        let certificate =
            ClientCertificate { subject: "CN=a".into(), dns: vec!["a.test".into()], ..Default::default() };
        let mut client = ClientIdentity {
            key: Some("batch".into()),
            certificate: Some(Arc::new(certificate)),
            address: Some("10.0.0.1".parse().unwrap()),
            models: None,
        };
        assert_eq!((client.kind(), &*client.name()), ("key", "batch"));
        client.key = None;
        assert_eq!((client.kind(), &*client.name()), ("certificate", "a.test"));
        client.certificate = None;
        assert_eq!((client.kind(), &*client.name()), ("address", "10.0.0.1"));
        client.address = None;
        assert_eq!((client.kind(), &*client.name()), ("local", "local"));
    }
}
