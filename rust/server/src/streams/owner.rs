//! Client that may resume and cancel a stream.

use penstock_core::ClientIdentity;
use std::sync::Arc;

/// Client that a stream belongs to. One without a key and a certificate has the token alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// Name of the key.
    Key(Arc<str>),
    /// Names in the certificate, which stay when it is renewed: subject, DNS names, URIs.
    Certificate(String, Vec<String>, Vec<String>),
    /// Anyone who has the token.
    Bearer,
}

impl From<&ClientIdentity> for Owner {
    fn from(client: &ClientIdentity) -> Self {
        if let Some(key) = &client.key {
            return Self::Key(Arc::clone(key));
        }
        match &client.certificate {
            Some(one) => Self::Certificate(one.subject.clone(), one.dns.clone(), one.uris.clone()),
            None => Self::Bearer,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use penstock_core::ClientCertificate;

    #[test]
    fn key_precedes_the_certificate() {
        let certificate = |subject: &str| {
            Some(Arc::new(ClientCertificate { subject: subject.to_owned(), ..ClientCertificate::default() }))
        };
        let client = ClientIdentity { certificate: certificate("CN=a"), ..ClientIdentity::default() };
        let keyed = ClientIdentity { key: Some("team".into()), ..client.clone() };
        let other = ClientIdentity { certificate: certificate("CN=b"), ..ClientIdentity::default() };
        assert_eq!(Owner::from(&keyed), Owner::Key("team".into()));
        assert_ne!(Owner::from(&client), Owner::from(&keyed));
        assert_ne!(Owner::from(&client), Owner::from(&other));
        assert_eq!(Owner::from(&ClientIdentity::default()), Owner::Bearer);
    }
}
