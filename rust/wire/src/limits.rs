//! How much one request may name.

use penstock_core::{Error, Result};

/// The most parameters of a request and its tensors together; an item of a list counts as one.
pub(crate) const MAX_PARAMETERS: usize = 4096;

/// Refuses a list of more than `max` entries, of what the request has.
pub(crate) fn bounded(what: &str, count: usize, max: usize) -> Result<()> {
    if count > max {
        return Err(Error::invalid(format!("the request has more than {max} {what}")));
    }
    Ok(())
}

/// Bounds on the lists of a request, so that a small message cannot make a large one in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The most inputs.
    pub max_inputs: usize,
    /// The most requested outputs.
    pub max_outputs: usize,
    /// REST only: the deepest nesting of a JSON value that is skipped; at most 128.
    pub max_depth: usize,
    /// Whether tensors may be in shared memory. If not, a request that names some is refused.
    pub shared_memory: bool,
}

impl Limits {
    /// What stands where nothing else is set.
    pub const DEFAULT: Self = Self { max_inputs: 1024, max_outputs: 1024, max_depth: 64, shared_memory: false };
}

impl Default for Limits {
    fn default() -> Self {
        Self::DEFAULT
    }
}
