//! Rows of a batch that failed. Their clients get errors; the others get responses.

use crate::{Error, InferRequest, Result};

/// Failed rows of a batch, each with its error.
#[derive(Clone, Debug, Default)]
pub struct RowFailures(Vec<(usize, Error)>);

impl RowFailures {
    /// Failures by row index. The first error of a row counts.
    pub fn new(mut failures: Vec<(usize, Error)>) -> Self {
        failures.sort_by_key(|(row, _)| *row);
        failures.dedup_by_key(|(row, _)| *row);
        Self(failures)
    }

    /// Returns true if no row failed.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Failed rows, in order.
    pub fn iter(&self) -> impl Iterator<Item = &(usize, Error)> {
        self.0.iter()
    }

    /// Returns true if all rows of a batch failed, so that it needs no outputs.
    pub(crate) fn covers_all(&self, rows: usize) -> bool {
        rows > 0 && self.0.get(rows - 1).is_some_and(|(row, _)| *row == rows - 1)
    }

    /// Checks that all indices are rows of the batch.
    ///
    /// # Errors
    /// `Handler`: the message has the row.
    pub(crate) fn check(&self, model: &str, rows: usize) -> Result<()> {
        match self.0.last() {
            Some((row, _)) if *row >= rows => {
                Err(Error::handler(format!("model '{model}' failed row {row} of a batch of {rows} rows")))
            }
            _ => Ok(()),
        }
    }

    /// Error for the request whose rows begin at `first`, if one of them failed. With several rows, the message has the
    /// first failed row, counted from the start of the client's request.
    pub(crate) fn for_request(&self, first: usize, request: &InferRequest) -> Option<Error> {
        let from = self.0.partition_point(|(row, _)| *row < first);
        let (row, error) = self.0.get(from).filter(|(row, _)| *row < first + request.rows)?;
        let before = request.schedule.rows_before;
        if request.rows == 1 && before.is_none() {
            return Some(error.clone());
        }
        Some(error.in_row(row - first + before.unwrap_or(0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fp32, request};

    #[test]
    fn each_request_gets_the_error_of_its_first_failed_row() {
        let failure = |row: usize| (row, Error::invalid(format!("no {row}")));
        let failures = RowFailures::new(vec![failure(5), failure(0), failure(3)]);
        let error_text = |first, rows: usize| {
            let error = failures.for_request(first, &request(fp32(&[rows, 1], &vec![0.0; rows])));
            error.map(|error| error.message().to_owned())
        };
        assert_eq!(error_text(0, 1).unwrap(), "no 0");
        assert_eq!(error_text(1, 2), None);
        assert_eq!(error_text(1, 4).unwrap(), "row 2: no 3");
        assert_eq!(error_text(4, 2).unwrap(), "row 1: no 5");
        assert!(failures.check("m", 6).is_ok());
        assert_eq!(failures.check("m", 5).unwrap_err().message(), "model 'm' failed row 5 of a batch of 5 rows");
        assert!(!failures.covers_all(6) && !failures.covers_all(0));
    }

    #[test]
    fn row_numbers_of_a_part_count_from_the_start_of_its_request() {
        let failures = RowFailures::new(vec![(1, Error::invalid("no"))]);
        let mut part = request(fp32(&[1, 1], &[0.0]));
        part.schedule.rows_before = Some(8);
        assert_eq!(failures.for_request(1, &part).unwrap().message(), "row 8: no");
    }
}
