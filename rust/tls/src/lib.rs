//! TLS of the server: certificates by the name that a client asks for, client certificates, reload; and of its
//! connections to other services.
//!
//! [`Certificates::load`] reads all files and checks them; [`Certificates::reload`] reads them again when one has changed,
//! and keeps the old ones if the new ones cannot be used.
#![forbid(unsafe_code)]

mod certificate;
mod certificates;
mod client_auth;
mod error;
mod files;
mod outgoing;
mod peer_certificate;
mod settings;
mod stamps;

pub use certificates::{Alpn, CertificateInfo, Certificates};
pub use error::TlsError;
pub use outgoing::{Outgoing, OutgoingSettings};
pub use peer_certificate::PeerCertificate;
pub use settings::{CertificateFiles, ClientAuth, MinVersion, TlsSettings};
pub use stamps::FileStamps;
