//! Identity of a client.

use penstock_core::{ClientCertificate, ClientIdentity, ModelPatterns};
use serde::{Deserialize, Serialize};
use std::{net::IpAddr, sync::Arc};

#[derive(Serialize, Deserialize)]
pub(crate) struct ClientMessage<'a> {
    key: Option<&'a str>,
    address: Option<IpAddr>,
    #[serde(borrow)]
    certificate: Option<CertificateMessage<'a>>,
    #[serde(borrow)]
    models: Option<Vec<&'a str>>,
}

#[derive(Serialize, Deserialize)]
struct CertificateMessage<'a> {
    subject: &'a str,
    #[serde(borrow)]
    dns: Vec<&'a str>,
    #[serde(borrow)]
    uris: Vec<&'a str>,
    fingerprint: &'a str,
}

impl<'a> ClientMessage<'a> {
    pub(crate) fn of(client: &'a ClientIdentity) -> Self {
        let texts = |texts: &'a [String]| texts.iter().map(String::as_str).collect();
        Self {
            key: client.key.as_deref(),
            address: client.address,
            certificate: client.certificate.as_deref().map(|certificate| CertificateMessage {
                subject: &certificate.subject,
                dns: texts(&certificate.dns),
                uris: texts(&certificate.uris),
                fingerprint: &certificate.fingerprint,
            }),
            models: client.models.as_deref().map(|models| models.iter().collect()),
        }
    }

    pub(crate) fn identity(self) -> ClientIdentity {
        let owned = |texts: Vec<&str>| texts.into_iter().map(str::to_owned).collect();
        ClientIdentity {
            key: self.key.map(Into::into),
            address: self.address,
            certificate: self.certificate.map(|certificate| {
                Arc::new(ClientCertificate {
                    subject: certificate.subject.to_owned(),
                    dns: owned(certificate.dns),
                    uris: owned(certificate.uris),
                    fingerprint: certificate.fingerprint.to_owned(),
                })
            }),
            models: self.models.map(|models| Arc::new(ModelPatterns::new(models))),
        }
    }
}
