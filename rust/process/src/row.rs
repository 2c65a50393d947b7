//! What one row of a batch, or one request, is answered at one step.

use crate::reply::Outputs;
use penstock_core::{Error, Result, RowPiece};

/// What a row gets at one step.
#[derive(Debug)]
pub(crate) enum Row<T> {
    Nothing,
    More(T),
    Last(T),
    End,
    Fail(Error),
}

impl<T> Row<T> {
    pub(crate) fn map<U>(self, mut make: impl FnMut(T) -> Option<U>) -> Option<Row<U>> {
        Some(match self {
            Self::Nothing => Row::Nothing,
            Self::More(outputs) => Row::More(make(outputs)?),
            Self::Last(outputs) => Row::Last(make(outputs)?),
            Self::End => Row::End,
            Self::Fail(error) => Row::Fail(error),
        })
    }
}

impl From<Result<Outputs>> for Row<Outputs> {
    fn from(answer: Result<Outputs>) -> Self {
        answer.map_or_else(Self::Fail, Self::More)
    }
}

impl From<Row<Outputs>> for Result<Outputs> {
    fn from(row: Row<Outputs>) -> Self {
        match row {
            Row::More(outputs) | Row::Last(outputs) => Ok(outputs),
            Row::Fail(error) => Err(error),
            Row::Nothing | Row::End => Err(Error::handler("the handler had no answer to a request")),
        }
    }
}

impl From<RowPiece> for Row<Outputs> {
    fn from(piece: RowPiece) -> Self {
        match piece {
            RowPiece::Nothing => Self::Nothing,
            RowPiece::More(outputs) => Self::More(outputs),
            RowPiece::Last(outputs) => Self::Last(outputs),
            RowPiece::End => Self::End,
            RowPiece::Fail(error) => Self::Fail(error),
        }
    }
}

impl From<Row<Outputs>> for RowPiece {
    fn from(row: Row<Outputs>) -> Self {
        match row {
            Row::Nothing => Self::Nothing,
            Row::More(outputs) => Self::More(outputs),
            Row::Last(outputs) => Self::Last(outputs),
            Row::End => Self::End,
            Row::Fail(error) => Self::Fail(error),
        }
    }
}
