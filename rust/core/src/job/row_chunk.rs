//! Results of one step of a stream.

use crate::{Error, Outputs, Result};

/// Result for one row of a batch, or for one request, at one step.
#[derive(Debug)]
pub enum RowChunk<T = Outputs> {
    /// No result at this step.
    Nothing,
    /// A response.
    More(T),
    /// The last response.
    Last(T),
    /// The end, without a response.
    End,
    /// An error, which ends the client's stream.
    Fail(Error),
}

impl<T> RowChunk<T> {
    /// Maps the response; `None` if `make` returns `None`.
    pub fn map<U>(self, make: impl FnOnce(T) -> Option<U>) -> Option<RowChunk<U>> {
        Some(match self {
            Self::Nothing => RowChunk::Nothing,
            Self::More(response) => RowChunk::More(make(response)?),
            Self::Last(response) => RowChunk::Last(make(response)?),
            Self::End => RowChunk::End,
            Self::Fail(error) => RowChunk::Fail(error),
        })
    }
}

impl<T> From<Result<T>> for RowChunk<T> {
    fn from(response: Result<T>) -> Self {
        response.map_or_else(Self::Fail, Self::More)
    }
}

impl<T> From<RowChunk<T>> for Result<T> {
    /// Converts to the only response of a request.
    fn from(chunk: RowChunk<T>) -> Self {
        match chunk {
            RowChunk::More(response) | RowChunk::Last(response) => Ok(response),
            RowChunk::Fail(error) => Err(error),
            RowChunk::Nothing | RowChunk::End => Err(Error::handler("the handler had no answer to a request")),
        }
    }
}
