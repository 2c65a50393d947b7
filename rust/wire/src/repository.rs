//! Load requests, for both protocols.

use bytes::Bytes;
use penstock_core::{Error, IndexEntry, Kind, Result, VersionState};

/// A request to load a model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoadRequest {
    /// A JSON document that overrides parts of the model's configuration.
    pub config: Option<String>,
    /// Files of the model by their names, `<version>/<file>`.
    pub files: Vec<(String, Bytes)>,
}

/// The prefix of a parameter that carries a file.
pub(crate) const FILE: &str = "file:";

impl LoadRequest {
    /// Checks the request as a whole.
    ///
    /// # Errors
    /// `InvalidInput` for files without a configuration.
    pub(crate) fn checked(self) -> Result<Self> {
        if self.config.is_none() && !self.files.is_empty() {
            return Err(Error::invalid("load parameters 'file:...' need the load parameter 'config' too"));
        }
        Ok(self)
    }
}

/// The refusal of a load parameter that there is not.
pub(crate) fn unknown_load_parameter(name: &str) -> Error {
    Error::invalid(format!("unknown load parameter '{name}', expected 'config' or 'file:<version>/<file>'"))
}

/// The refusal of a load parameter whose value is of another type.
pub(crate) fn wrong_load_parameter(name: &str, expected: &str) -> Error {
    Error::invalid(format!("load parameter '{name}' is not {expected}"))
}

/// The refusal of an unload parameter that there is not.
pub(crate) fn unknown_unload_parameter(name: &str) -> Error {
    Error::invalid(format!("unknown unload parameter '{name}', expected 'unload_dependents'"))
}

/// Error for `unload_dependents` that is not a bool.
pub(crate) fn wrong_dependents() -> Error {
    Error::invalid("unload parameter 'unload_dependents' is not true or false")
}

/// The refusal of a named repository: there is one, and it has no name.
///
/// ```
/// assert!(penstock_wire::named_repository("west").message().contains("'west'"));
/// ```
pub fn named_repository(name: &str) -> Error {
    let name: String = name.chars().take(128).map(|c| if c.is_control() { '?' } else { c }).collect();
    Error::new(Kind::Unsupported, format!("repository '{name}': repositories are not named, leave its name out"))
}

/// Rows of an index: all, or the ready ones.
pub(crate) fn selected(index: &[IndexEntry], ready: bool) -> impl Iterator<Item = &IndexEntry> {
    index.iter().filter(move |entry| !ready || entry.state() == Some(VersionState::Ready))
}
