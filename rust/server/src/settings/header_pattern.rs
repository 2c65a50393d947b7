//! Pattern of the headers that become parameters of a request.

use regex_lite::{Regex, RegexBuilder};

/// Which headers are forwarded: those in whose names the pattern is found, whatever their case.
#[derive(Clone, Debug)]
pub struct HeaderPattern(Regex);

impl HeaderPattern {
    /// A pattern in the usual syntax of regular expressions.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn new(pattern: &str) -> std::result::Result<Self, String> {
        RegexBuilder::new(pattern).case_insensitive(true).build().map(Self).map_err(|error| error.to_string())
    }

    /// Reports whether the pattern is found in a header's name.
    pub(crate) fn matches(&self, name: &str) -> bool {
        self.0.is_match(name)
    }
}
