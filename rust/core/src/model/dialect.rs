//! Dialect of the server: the texts and statuses of Penstock, or of another server whose clients it serves.

use crate::{Error, Kind};
use std::time::Duration;

/// Server whose texts, statuses, metrics and parsing the clients expect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dialect {
    /// Penstock.
    #[default]
    Penstock,
    /// Triton Inference Server.
    Triton,
    /// KServe's model server.
    Kserve,
}

impl Dialect {
    /// Returns the name in settings, which is the default name in the server's metadata.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Penstock => "penstock",
            Self::Triton => "triton",
            Self::Kserve => "kserve",
        }
    }

    /// Returns the value of a name.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Penstock, Self::Triton, Self::Kserve].into_iter().find(|dialect| dialect.name() == name)
    }

    /// Maps an error's kind to the kind that its response reports. Triton reports overload and a passed deadline as
    /// unavailable: 503 and `UNAVAILABLE`.
    #[must_use]
    pub const fn response_kind(self, kind: Kind) -> Kind {
        match (self, kind) {
            (Self::Triton, Kind::Overloaded | Kind::Timeout) => Kind::Unavailable,
            (_, kind) => kind,
        }
    }

    /// Reports whether raw-request models accept requests outside of V2: `null` for NaN, datatypes in lower case, and
    /// any version over gRPC.
    pub const fn is_permissive(self) -> bool {
        matches!(self, Self::Kserve)
    }

    /// Reports whether `/metrics` has the models' metrics under Triton's names too.
    pub const fn has_triton_metrics(self) -> bool {
        matches!(self, Self::Triton)
    }

    /// The error for an unknown model.
    pub(crate) fn unknown(self, name: &str) -> Error {
        let name = printable(name);
        let text = match self {
            Self::Penstock => format!("unknown model '{name}'"),
            Self::Triton => format!("Request for unknown model: '{name}' is not found"),
            Self::Kserve => format!("Model with name {name} does not exist."),
        };
        Error::new(Kind::NotFound, text)
    }

    /// The error for a model that is not ready; a reason that is not empty is appended.
    pub(crate) fn not_ready(self, name: &str, why: &str) -> Error {
        let text = match self {
            Self::Penstock => format!("model '{name}' is not ready"),
            Self::Triton => format!("Request for unknown model: '{name}' has no available versions"),
            Self::Kserve => format!("Model with name {name} is not ready."),
        };
        let text = if why.is_empty() { text } else { format!("{}: {why}", text.trim_end_matches('.')) };
        Error::new(Kind::Unavailable, text).retry_after(Duration::from_secs(1))
    }
}

/// Client input for a message: truncated, without control characters.
pub(super) fn printable(text: &str) -> String {
    text.chars().take(128).map(|c| if c.is_control() { '?' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dialect_error_texts_name_the_model() {
        let (kserve, penstock) = (Dialect::Kserve, Dialect::default());
        assert_eq!(penstock.unknown("a\n{name}").message(), "unknown model 'a?{name}'");
        assert_eq!(kserve.unknown("m").message(), "Model with name m does not exist.");
        assert_eq!(penstock.not_ready("m", "").message(), "model 'm' is not ready");
        assert_eq!(penstock.not_ready("m", "away").message(), "model 'm' is not ready: away");
        assert_eq!(kserve.not_ready("m", "").message(), "Model with name m is not ready.");
        assert_eq!(kserve.not_ready("m", "away").message(), "Model with name m is not ready: away");
        assert_eq!(
            (penstock.unknown("m").kind(), kserve.not_ready("m", "").kind()),
            (Kind::NotFound, Kind::Unavailable)
        );
        let triton = Dialect::Triton;
        assert_eq!(triton.unknown("m").message(), "Request for unknown model: 'm' is not found");
        let none = "Request for unknown model: 'm' has no available versions";
        assert_eq!(triton.not_ready("m", "").message(), none);
        assert_eq!(triton.not_ready("m", "away").message(), format!("{none}: away"));
    }

    #[test]
    fn dialect_names_round_trip() {
        for dialect in [Dialect::Penstock, Dialect::Triton, Dialect::Kserve] {
            assert_eq!(Dialect::from_name(dialect.name()), Some(dialect));
        }
        assert_eq!(Dialect::from_name("Triton"), None);
    }

    #[test]
    fn triton_alone_changes_overload_and_timeout() {
        for dialect in [Dialect::Penstock, Dialect::Triton, Dialect::Kserve] {
            let changed: Vec<_> = Kind::ALL.into_iter().filter(|&kind| dialect.response_kind(kind) != kind).collect();
            match dialect {
                Dialect::Triton => assert_eq!(changed, [Kind::Overloaded, Kind::Timeout]),
                Dialect::Penstock | Dialect::Kserve => assert_eq!(changed, []),
            }
            assert_eq!(dialect.has_triton_metrics(), !changed.is_empty());
        }
        assert_eq!(Dialect::Triton.response_kind(Kind::Overloaded), Kind::Unavailable);
        assert_eq!(Dialect::Triton.response_kind(Kind::Timeout), Kind::Unavailable);
    }
}
