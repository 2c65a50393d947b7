//! Labels of metrics.

use super::text::escape_label;
use crate::Protocol;
use prometheus_client::{encoding::EncodeLabelSet, metrics::counter::Counter};
use std::sync::atomic::AtomicU64;

pub(in crate::metrics) type Seconds = Counter<f64, AtomicU64>;

pub(in crate::metrics) const PROTOCOLS: [Protocol; 3] = [Protocol::Http, Protocol::Grpc, Protocol::InProcess];

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(in crate::metrics) struct ModelLabels {
    pub(in crate::metrics) model: String,
    pub(in crate::metrics) version: String,
}

impl ModelLabels {
    /// Labels in the text form.
    pub(in crate::metrics) fn text(&self) -> String {
        format!("model=\"{}\",version=\"{}\"", escape_label(&self.model), escape_label(&self.version))
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(in crate::metrics) struct RequestLabels {
    pub(in crate::metrics) model: String,
    pub(in crate::metrics) version: String,
    pub(in crate::metrics) protocol: &'static str,
    pub(in crate::metrics) outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(in crate::metrics) struct RefusedLabels {
    pub(in crate::metrics) reason: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(in crate::metrics) struct BatchLabels {
    pub(in crate::metrics) model: String,
    pub(in crate::metrics) version: String,
    pub(in crate::metrics) reason: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(in crate::metrics) struct RestartLabels {
    pub(in crate::metrics) model: String,
    pub(in crate::metrics) version: String,
    pub(in crate::metrics) reason: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(in crate::metrics) struct CustomLabels {
    pub(in crate::metrics) model: String,
    pub(in crate::metrics) version: String,
    pub(in crate::metrics) name: String,
}

#[derive(Clone, Debug, EncodeLabelSet, Eq, Hash, PartialEq)]
pub(super) struct HandshakeLabels {
    pub(in crate::metrics) outcome: &'static str,
    /// `1.2` or `1.3`; empty for a handshake that failed.
    pub(in crate::metrics) version: &'static str,
}

#[derive(Clone, Debug, EncodeLabelSet, Eq, Hash, PartialEq)]
pub(super) struct ReloadLabels {
    pub(in crate::metrics) outcome: &'static str,
}

#[derive(Clone, Debug, EncodeLabelSet, Eq, Hash, PartialEq)]
pub(super) struct DeniedLabels {
    pub(in crate::metrics) reason: &'static str,
}

#[derive(Clone, Debug, EncodeLabelSet, Eq, Hash, PartialEq)]
pub(super) struct CertificateLabels {
    pub(in crate::metrics) name: String,
}

#[derive(Clone, Debug, EncodeLabelSet, Eq, Hash, PartialEq)]
pub(super) struct StalledLabels {
    pub(in crate::metrics) model: String,
    pub(in crate::metrics) version: String,
    pub(in crate::metrics) instance: String,
}
