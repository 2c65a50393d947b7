//! Metrics of TLS. A server without it has no series of them.

use super::labels::{CertificateLabels, HandshakeLabels, ReloadLabels};
use prometheus_client::{
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::Registry,
};

/// Outcome of a handshake or of a reading of the certificates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsOutcome {
    /// It succeeded.
    Ok,
    /// It failed.
    Failed,
    /// It took too long.
    TimedOut,
}

/// Metrics of TLS.
#[derive(Debug, Default)]
pub struct TlsMetrics {
    handshakes: Family<HandshakeLabels, Counter>,
    reloads: Family<ReloadLabels, Counter>,
    expiry: Family<CertificateLabels, Gauge>,
}

impl TlsOutcome {
    const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Failed => "error",
            Self::TimedOut => "timeout",
        }
    }
}

impl TlsMetrics {
    /// Counts a handshake.
    pub fn handshake(&self, outcome: TlsOutcome, version: &'static str) {
        self.handshakes.get_or_create(&HandshakeLabels { outcome: outcome.name(), version }).inc();
    }

    /// Counts a reading of changed certificates.
    pub fn reload(&self, outcome: TlsOutcome) {
        self.reloads.get_or_create(&ReloadLabels { outcome: outcome.name() }).inc();
    }

    /// Sets the end of a certificate's validity, in seconds since 1970.
    pub fn expiry(&self, name: &str, seconds: i64) {
        // An increase from nothing would be no increase.
        for outcome in [TlsOutcome::Ok, TlsOutcome::Failed] {
            drop(self.reloads.get_or_create(&ReloadLabels { outcome: outcome.name() }));
        }
        self.expiry.get_or_create(&CertificateLabels { name: name.to_owned() }).set(seconds);
    }

    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register("tls_handshakes", "TLS handshakes by outcome and version", self.handshakes.clone());
        registry.register("tls_reloads", "Readings of changed certificates by outcome", self.reloads.clone());
        registry.register(
            "tls_certificate_expiry_timestamp_seconds",
            "End of a certificate's validity",
            self.expiry.clone(),
        );
    }
}
