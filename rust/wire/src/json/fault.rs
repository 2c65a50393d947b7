//! Syntax errors of JSON, with their position.

use penstock_core::Error;
use std::fmt;

/// Expectation that failed at a byte of the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SyntaxError {
    at: usize,
    expected: Expected,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expected {
    Token(&'static str),
    /// At most so many levels of nesting.
    Levels(usize),
}

/// A result of reading one token.
pub(crate) type Scan<T> = Result<T, SyntaxError>;

impl SyntaxError {
    pub(crate) const fn new(at: usize, expected: &'static str) -> Self {
        Self { at, expected: Expected::Token(expected) }
    }

    /// More than `levels` levels are nested.
    pub(crate) const fn too_deep(at: usize, levels: usize) -> Self {
        Self { at, expected: Expected::Levels(levels) }
    }
}

impl fmt::Display for SyntaxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "request JSON at byte {}: expected ", self.at)?;
        match self.expected {
            Expected::Token(token) => f.write_str(token),
            Expected::Levels(levels) => write!(f, "at most {levels} levels of nesting"),
        }
    }
}

impl From<SyntaxError> for Error {
    fn from(fault: SyntaxError) -> Self {
        Self::invalid(fault.to_string())
    }
}
