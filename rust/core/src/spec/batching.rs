//! Batching options of a model.

use super::RowCost;

/// Batching options. All row counts are sizes of the batch axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Batching {
    /// Maximum rows of one batch, and of one request.
    pub max_size: usize,
    /// Joins rows of different requests into one batch.
    pub dynamic: bool,
    /// Maximum wait of the oldest request for more requests, in nanoseconds; 0 adds no wait.
    pub max_delay_ns: u64,
    /// Sizes to cut to when the wait is over and more rows are there; ascending.
    pub preferred_sizes: Vec<usize>,
    /// Enables the learned hold for returning clients ([`crate::batch::returns`]).
    pub hold: bool,
    /// Treatment of a request with more rows than `max_size`.
    pub oversize: Oversize,
    /// Batch sizes that the handler accepts, ascending: a batch is padded to the next one. Empty for any size.
    pub sizes: Vec<usize>,
    /// Rows that pad a batch.
    pub padding: Padding,
    /// Retains inputs until a batch is answered, to run it again in halves if it ran out of memory.
    pub retry_on_oom: bool,
    /// Cost of a row and limit for a batch; `None` if rows alone limit a batch.
    pub cost: Option<RowCost>,
    /// Lengths that may share a batch, if rows may differ in length; `None` for all.
    pub window: Option<Window>,
    /// Latency target for the 99th percentile of requests, in nanoseconds.
    pub target_ns: Option<u64>,
    /// Refuses requests that cannot be answered within the target.
    pub reject_late: bool,
    /// Limit for the expected duration of a batch of several requests, in nanoseconds; `None` for no limit.
    pub max_duration_ns: Option<u64>,
}

/// Rows that pad a batch to an allowed size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Padding {
    /// Copies of the last row.
    #[default]
    Repeat,
    /// Zeros, or empty BYTES.
    Zeros,
}

/// Treatment of a request with more rows than one batch holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Oversize {
    /// The request is refused with an error.
    Refuse,
    /// The request is computed in several batches and answered as one.
    Split,
}

/// Row lengths that may share a batch.
#[derive(Clone, Debug, PartialEq)]
pub enum Window {
    /// Lengths in the same interval between these ascending edges. An edge belongs to the interval below it.
    Edges(Vec<usize>),
    /// Lengths within this factor, up or down, of the length of the first request.
    Ratio(f64),
}

impl Batching {
    /// Dynamic batching of at most `max_size` rows; all other options have their defaults.
    pub fn new(max_size: usize) -> Self {
        Self {
            max_size,
            dynamic: true,
            max_delay_ns: 0,
            preferred_sizes: Vec::new(),
            hold: true,
            oversize: Oversize::Refuse,
            sizes: Vec::new(),
            padding: Padding::default(),
            retry_on_oom: false,
            cost: None,
            window: None,
            target_ns: None,
            reject_late: false,
            max_duration_ns: None,
        }
    }

    /// Rows of the padded batch that the handler receives for `rows` rows.
    pub fn padded(&self, rows: usize) -> usize {
        let fits = self.sizes.iter().copied().find(|&size| size >= rows);
        fits.filter(|_| rows > 0).unwrap_or(rows)
    }
}

impl Window {
    pub(crate) fn admits(&self, first: usize, length: usize) -> bool {
        match self {
            Self::Edges(edges) => {
                let place = |length| edges.partition_point(|edge| *edge < length);
                place(first) == place(length)
            }
            // Length 0 counts as 1: a factor of zero would admit nothing else.
            Self::Ratio(ratio) => first.max(length) as f64 <= ratio * first.min(length).max(1) as f64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Window;

    #[test]
    fn window_is_bounded_by_edges_or_a_ratio() {
        let edges = Window::Edges(vec![4, 8]);
        let admitted = |window: &Window, first, lengths: &[usize]| -> Vec<usize> {
            lengths.iter().copied().filter(|&length| window.admits(first, length)).collect()
        };
        assert_eq!(admitted(&edges, 4, &[0, 1, 4, 5]), [0, 1, 4]);
        assert_eq!(admitted(&edges, 5, &[4, 5, 8, 9]), [5, 8]);
        assert_eq!(admitted(&edges, 9, &[8, 9, 1000]), [9, 1000]);
        let ratio = Window::Ratio(1.5);
        assert_eq!(admitted(&ratio, 6, &[3, 4, 6, 9, 10]), [4, 6, 9]);
        assert_eq!(admitted(&ratio, 0, &[0, 1, 2]), [0, 1]);
    }
}
