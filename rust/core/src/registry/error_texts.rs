//! What is said of models that do not answer.

use super::Entry;
use crate::{Error, Kind, Note};
use std::time::Duration;

/// Texts of refusals, in which `{name}` stands for the model's name.
#[derive(Clone, Debug)]
pub struct ErrorTexts {
    /// Of a model that nobody knows.
    pub unknown: Box<str>,
    /// Of one that takes no requests now. A reason follows, if there is one.
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

impl Entry {
    /// Why a version, or any version, is not found.
    pub(super) fn missing(&self, name: &str, version: Option<&str>) -> Error {
        let unavailable = |text: String| Error::new(Kind::Unavailable, text).retry_after(Duration::from_secs(1));
        let is_loading = |note: Option<&Note>| note.is_some_and(|note| note.loading);
        match version {
            Some(version) => match self.notes.get(version) {
                note if is_loading(note) => unavailable(format!("model '{name}' version '{version}' is loading")),
                Some(_) => unavailable(format!("model '{name}' version '{version}' is not loaded")),
                None => Error::new(Kind::NotFound, format!("model '{name}' has no version '{}'", printable(version))),
            },
            None if self.notes.values().any(|note| note.loading) => unavailable(format!("model '{name}' is loading")),
            None => unavailable(format!("model '{name}' is not loaded")),
        }
    }
}

/// A client's text in a message: short, and without control characters.
fn printable(text: &str) -> String {
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
