//! How much one request may name.

/// Bounds on the lists of a request, so that a small message cannot make a large one in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The most inputs.
    pub max_inputs: usize,
    /// The most requested outputs.
    pub max_outputs: usize,
    /// The most parameters of a request and its tensors together.
    pub max_parameters: usize,
    /// REST only: the deepest nesting of a JSON value that is skipped; at most 128.
    pub max_depth: usize,
    /// Whether tensors may be in shared memory. If not, a request that names some is refused.
    pub shared_memory: bool,
}

impl Limits {
    /// What stands where nothing else is set.
    pub const DEFAULT: Self =
        Self { max_inputs: 1024, max_outputs: 1024, max_parameters: 4096, max_depth: 64, shared_memory: false };
}

impl Default for Limits {
    fn default() -> Self {
        Self::DEFAULT
    }
}
