//! What a caller is given at one step.

use crate::{Error, Result, batch::gather::Outputs};

/// What a handler has for one row of a batch, or for one request, at one step.
#[derive(Debug)]
pub enum RowPiece<T = Outputs> {
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

impl<T> RowPiece<T> {
    /// The same with its answer made of what it was.
    pub fn map<U>(self, make: impl FnOnce(T) -> Option<U>) -> Option<RowPiece<U>> {
        Some(match self {
            Self::Nothing => RowPiece::Nothing,
            Self::More(answer) => RowPiece::More(make(answer)?),
            Self::Last(answer) => RowPiece::Last(make(answer)?),
            Self::End => RowPiece::End,
            Self::Fail(error) => RowPiece::Fail(error),
        })
    }
}

impl<T> From<Result<T>> for RowPiece<T> {
    fn from(answer: Result<T>) -> Self {
        answer.map_or_else(Self::Fail, Self::More)
    }
}

impl<T> From<RowPiece<T>> for Result<T> {
    /// The only answer.
    fn from(piece: RowPiece<T>) -> Self {
        match piece {
            RowPiece::More(answer) | RowPiece::Last(answer) => Ok(answer),
            RowPiece::Fail(error) => Err(error),
            RowPiece::Nothing | RowPiece::End => Err(Error::handler("the handler had no answer to a request")),
        }
    }
}
