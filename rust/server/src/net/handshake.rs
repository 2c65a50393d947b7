//! TLS handshakes of new connections, and the certificates that they use.

use crate::observe::{AuditEvent, Log};
use crate::settings::{LogLevel, Tls};
use penstock_core::ClientCertificate;
use penstock_core::metrics::{Metrics, TlsOutcome};
use penstock_tls::{Alpn, Certificates, PeerCertificate, TlsError};
use std::{io, sync::Arc, time::Duration};
use tokio::{
    io::AsyncWriteExt as _,
    net::TcpStream,
    time::{sleep, timeout},
};
use tokio_rustls::{TlsAcceptor, rustls::ProtocolVersion, server::TlsStream};

/// First byte of a TLS connection: the type of a handshake record.
pub(crate) const HANDSHAKE: u8 = 0x16;

/// Response to plain HTTP.
const NOT_TLS: &[u8] = b"HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\nContent-Length: 37\r\n\
    Connection: close\r\n\r\n{\"error\":\"this address speaks https\"}";

/// Certificates of a server, for all its connections.
#[derive(Debug)]
pub(crate) struct ServerTls {
    certificates: Certificates,
    settings: Tls,
    metrics: Arc<Metrics>,
    log: Arc<Log>,
}

impl ServerTls {
    /// Reads the certificates, and logs what is doubtful about them.
    pub(crate) fn load(settings: &Tls, metrics: &Arc<Metrics>, log: &Arc<Log>) -> Result<Self, TlsError> {
        let certificates = Certificates::load(settings.files.clone())?;
        let loaded =
            Self { certificates, settings: settings.clone(), metrics: Arc::clone(metrics), log: Arc::clone(log) };
        loaded.report();
        Ok(loaded)
    }

    /// Encrypts a new connection; `None` for a client that failed, after its response if it spoke HTTP.
    pub(crate) async fn accept(&self, mut socket: TcpStream, alpn: Alpn) -> Option<TlsStream<TcpStream>> {
        let handshake = async {
            let mut first = [0];
            if socket.peek(&mut first).await? > 0 && first != [HANDSHAKE] {
                // A client that does not read it has its connection closed all the same.
                socket.write_all(NOT_TLS).await?;
                socket.shutdown().await?;
                return Err(io::ErrorKind::InvalidData.into());
            }
            TlsAcceptor::from(self.certificates.config(alpn)).accept(socket).await
        };
        let outcome = timeout(self.settings.handshake_timeout.get(), handshake).await;
        match outcome {
            Ok(Ok(stream)) => {
                let version = stream.get_ref().1.protocol_version();
                let is_new = version == Some(ProtocolVersion::TLSv1_3);
                self.metrics.tls.handshake(TlsOutcome::Ok, if is_new { "1.3" } else { "1.2" });
                Some(stream)
            }
            Ok(Err(error)) => {
                tracing::debug!(%error, "a TLS handshake failed");
                self.metrics.tls.handshake(TlsOutcome::Failed, "");
                None
            }
            Err(_) => {
                self.metrics.tls.handshake(TlsOutcome::TimedOut, "");
                None
            }
        }
    }

    /// Changes the time limit of handshakes that begin from now on.
    pub(crate) fn set_handshake_timeout(&self, limit: Duration) {
        self.settings.handshake_timeout.set(limit);
    }

    /// Reads changed files at the configured interval, for ever.
    pub(crate) async fn watch(self: Arc<Self>) {
        let Some(interval) = self.settings.reload else { return };
        loop {
            sleep(interval.max(Duration::from_millis(10))).await;
            let own = Arc::clone(&self);
            // An error would be a panic, which was reported.
            let _ = tokio::task::spawn_blocking(move || own.reload()).await;
        }
    }

    /// Reads the files again if one has changed. Those that cannot be used are logged, and the old ones stay.
    pub(crate) fn reload(&self) {
        match self.certificates.reload() {
            None => {}
            Some(Ok(())) => {
                self.metrics.tls.reload(TlsOutcome::Ok);
                self.audit(true);
                self.log.event(LogLevel::Info, "the certificates were read again");
                self.report();
            }
            Some(Err(error)) => {
                self.metrics.tls.reload(TlsOutcome::Failed);
                self.audit(false);
                self.log.event(LogLevel::Error, &format!("the certificates stay as they are: {error}"));
            }
        }
    }

    fn audit(&self, ok: bool) {
        if let Some(audit) = self.log.audit() {
            audit.note(AuditEvent::of_operator("tls_reload", None, ok));
        }
    }

    fn report(&self) {
        for certificate in self.certificates.infos() {
            self.metrics.tls.expiry(&certificate.name, certificate.expiry);
        }
        for warning in self.certificates.warnings() {
            self.log.event(LogLevel::Warning, &warning);
        }
    }
}

/// Returns the verified certificate of a client that has one.
pub(crate) fn client_certificate(stream: &TlsStream<TcpStream>) -> Option<Arc<ClientCertificate>> {
    let leaf = stream.get_ref().1.peer_certificates()?.first()?;
    let PeerCertificate { subject, dns, uris, fingerprint } = PeerCertificate::from_der(leaf);
    Some(Arc::new(ClientCertificate { subject, dns, uris, fingerprint }))
}

#[cfg(test)]
mod tests {
    #[test]
    fn response_to_plain_http_has_its_length() {
        let text = std::str::from_utf8(super::NOT_TLS).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("Content-Length: {}\r\n", body.len())), "{head}");
    }
}
