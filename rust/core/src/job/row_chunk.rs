//! What a caller is given at one step.

use crate::{Error, Outputs, Result};

/// What a handler has for one row of a batch, or for one request, at one step.
#[derive(Debug)]
pub enum RowChunk<T = Outputs> {
    /// Nothing, this time.
    Nothing,
    /// An answer, of one row.
    More(T),
    /// An answer, and no further one.
    Last(T),
    /// No further answer.
    End,
    /// It failed: its caller's stream ends with the error.
    Fail(Error),
}

impl<T> RowChunk<T> {
    /// The same with its answer made of what it was.
    pub fn map<U>(self, make: impl FnOnce(T) -> Option<U>) -> Option<RowChunk<U>> {
        Some(match self {
            Self::Nothing => RowChunk::Nothing,
            Self::More(answer) => RowChunk::More(make(answer)?),
            Self::Last(answer) => RowChunk::Last(make(answer)?),
            Self::End => RowChunk::End,
            Self::Fail(error) => RowChunk::Fail(error),
        })
    }
}

impl<T> From<Result<T>> for RowChunk<T> {
    fn from(answer: Result<T>) -> Self {
        answer.map_or_else(Self::Fail, Self::More)
    }
}

impl<T> From<RowChunk<T>> for Result<T> {
    /// The only answer.
    fn from(chunk: RowChunk<T>) -> Self {
        match chunk {
            RowChunk::More(answer) | RowChunk::Last(answer) => Ok(answer),
            RowChunk::Fail(error) => Err(error),
            RowChunk::Nothing | RowChunk::End => Err(Error::handler("the handler had no answer to a request")),
        }
    }
}
