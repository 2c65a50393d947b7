//! Scheduling of a request: priority, client, place in a sequence.

use std::{
    fmt,
    hash::{BuildHasher as _, RandomState},
    sync::{Arc, LazyLock},
};

/// The longest id that is a text, in bytes.
pub(crate) const LONGEST_ID: usize = 128;

/// The id of a sequence, as its caller chose it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SequenceId {
    /// A number other than 0.
    Number(u64),
    /// A text that is not empty.
    Text(Arc<str>),
}

/// A request's place in its sequence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The sequence.
    pub id: SequenceId,
    /// Whether it is the first request.
    pub start: bool,
    /// Whether it is the last one.
    pub end: bool,
}

/// What a request says of its turn among others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Schedule {
    /// 1 is the highest priority; 0 leaves it to the model.
    pub priority: u64,
    /// The sequence that it belongs to, if it does.
    pub step: Option<Box<Step>>,
    /// For a part of a request with more rows than a batch holds: the rows of the parts before it.
    pub rows_before: Option<usize>,
    /// Who it is counted to, for a model that is fair to clients.
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

/// Who a request is counted to. By default those who are not told apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Client(pub(crate) u64);

impl Client {
    /// The client of that name. Two names that nobody chose by hand are hardly ever the same one, and none can be
    /// made to be.
    pub fn named(name: &[u8]) -> Self {
        static NAMES: LazyLock<RandomState> = LazyLock::new(RandomState::new);
        Self(NAMES.hash_one(name))
    }
}
