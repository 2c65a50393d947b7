//! Pattern of the headers that become parameters of a request.

use regex_lite::{Regex, RegexBuilder};

/// Pattern that is searched in header names, case-insensitively.
#[derive(Clone, Debug)]
pub struct HeaderPattern(Regex);

impl HeaderPattern {
    /// Compiles a regular expression.
    ///
    /// # Errors
    /// The syntax error.
    pub fn new(pattern: &str) -> std::result::Result<Self, String> {
        RegexBuilder::new(pattern).case_insensitive(true).build().map(Self).map_err(|error| error.to_string())
    }

    /// Reports whether the pattern is found in a header's name.
    pub(crate) fn matches(&self, name: &str) -> bool {
        self.0.is_match(name)
    }
}
