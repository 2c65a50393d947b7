//! Names in the certificate of a client.

use ring::digest::{SHA256, digest};
use std::fmt::Write as _;
use x509_parser::prelude::{FromDer as _, GeneralName, X509Certificate};

/// Names in a verified certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerCertificate {
    /// Subject, such as `CN=batch, O=Example`.
    pub subject: String,
    /// DNS names.
    pub dns: Vec<String>,
    /// URIs, such as SPIFFE ids.
    pub uris: Vec<String>,
    /// SHA-256 of the certificate, in lower-case hexadecimal digits.
    pub fingerprint: String,
}

impl PeerCertificate {
    /// Reads a certificate in DER. Names that cannot be read are left out.
    pub fn from_der(der: &[u8]) -> Self {
        let mut fingerprint = String::with_capacity(64);
        for byte in digest(&SHA256, der).as_ref() {
            // Writing into a `String` cannot fail.
            let _ = write!(fingerprint, "{byte:02x}");
        }
        let mut found = Self { subject: String::new(), dns: Vec::new(), uris: Vec::new(), fingerprint };
        let Ok((_, certificate)) = X509Certificate::from_der(der) else { return found };
        found.subject = certificate.subject().to_string();
        if let Ok(Some(names)) = certificate.subject_alternative_name() {
            for name in &names.value.general_names {
                match name {
                    GeneralName::DNSName(name) => found.dns.push((*name).to_owned()),
                    GeneralName::URI(uri) => found.uris.push((*uri).to_owned()),
                    _ => {}
                }
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, DnType, KeyPair, SanType, string::Ia5String};

    #[test]
    fn names_of_a_certificate_are_read() {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec!["a.test".to_owned()]).unwrap();
        params.distinguished_name.push(DnType::CommonName, "batch");
        params.subject_alt_names.push(SanType::URI(Ia5String::try_from("spiffe://x/batch").unwrap()));
        let read = PeerCertificate::from_der(params.self_signed(&key).unwrap().der());
        assert_eq!((&read.dns[..], &read.uris[..]), (&["a.test".to_owned()][..], &["spiffe://x/batch".to_owned()][..]));
        assert!(read.subject.contains("CN=batch"), "{}", read.subject);
        assert_eq!(read.fingerprint.len(), 64);
    }

    #[test]
    fn unreadable_certificate_has_a_fingerprint_only() {
        let read = PeerCertificate::from_der(b"x");
        assert_eq!(read.fingerprint, "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881");
        assert!(read.subject.is_empty() && read.dns.is_empty());
    }
}
