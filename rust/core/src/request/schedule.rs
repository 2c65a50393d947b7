//! Scheduling of a request: priority, client, place in a sequence.

use std::{
    fmt,
    hash::{BuildHasher as _, RandomState},
    sync::{Arc, LazyLock},
};

/// Maximum bytes of a text id.
pub(crate) const LONGEST_ID: usize = 128;

/// Sequence id, chosen by the client.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SequenceId {
    /// Nonzero number.
    Number(u64),
    /// Non-empty text.
    Text(Arc<str>),
}

/// Position of a request in its sequence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Sequence id.
    pub id: SequenceId,
    /// First request of the sequence.
    pub start: bool,
    /// Last request of the sequence.
    pub end: bool,
}

/// Scheduling options of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Schedule {
    /// Priority: 1 is the highest, 0 means the model's default.
    pub priority: u64,
    /// Position in a sequence, if the request belongs to one.
    pub step: Option<Box<Step>>,
    /// For a part of a split request: rows of the parts before it.
    pub rows_before: Option<usize>,
    /// Client that fair queueing counts the request for.
    pub client: Client,
}

impl fmt::Display for SequenceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Text(text) => {
                let shown = text.chars().take(LONGEST_ID).map(|c| if c.is_control() { '?' } else { c });
                write!(f, "'{}'", shown.collect::<String>())
            }
        }
    }
}

/// Client, for fair queueing. The default counts all unidentified requests as one client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Client(pub(crate) u64);

impl Client {
    /// The client with that name. The hash has a per-process key, so collisions are rare and cannot be forced.
    pub fn named(name: &[u8]) -> Self {
        static NAMES: LazyLock<RandomState> = LazyLock::new(RandomState::new);
        Self(NAMES.hash_one(name))
    }
}
