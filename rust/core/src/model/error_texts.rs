//! Error texts for models that cannot answer.

use crate::{Error, Kind};
use std::time::Duration;

/// Error texts; `{name}` is replaced by the model's name.
#[derive(Clone, Debug)]
pub struct ErrorTexts {
    /// Unknown model.
    pub unknown: Box<str>,
    /// Model that is not ready. The reason is appended, if there is one.
    pub not_ready: Box<str>,
}

impl Default for ErrorTexts {
    fn default() -> Self {
        Self { unknown: "unknown model '{name}'".into(), not_ready: "model '{name}' is not ready".into() }
    }
}

impl ErrorTexts {
    pub(crate) fn unknown(&self, name: &str) -> Error {
        Error::new(Kind::NotFound, self.unknown.replace("{name}", &printable(name)))
    }

    pub(crate) fn not_ready(&self, name: &str, why: &str) -> Error {
        let text = self.not_ready.replace("{name}", name);
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
    fn texts_name_the_model() {
        let own = ErrorTexts { unknown: "no {name}, {name}!".into(), not_ready: "{name} sleeps.".into() };
        let usual = ErrorTexts::default();
        assert_eq!(usual.unknown("a\n{name}").message(), "unknown model 'a?{name}'");
        assert_eq!(own.unknown("m").message(), "no m, m!");
        assert_eq!(usual.not_ready("m", "").message(), "model 'm' is not ready");
        assert_eq!(usual.not_ready("m", "away").message(), "model 'm' is not ready: away");
        assert_eq!(own.not_ready("m", "").message(), "m sleeps.");
        assert_eq!(own.not_ready("m", "away").message(), "m sleeps: away");
        assert_eq!((usual.unknown("m").kind(), own.not_ready("m", "").kind()), (Kind::NotFound, Kind::Unavailable));
    }
}
