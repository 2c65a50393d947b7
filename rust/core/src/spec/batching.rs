//! Batching options of a model.

use super::RowCost;

/// How requests are joined into batches. All row counts include the batch axis only.
#[derive(Clone, Debug, PartialEq)]
pub struct Batching {
    /// The most rows in one batch, and in one request.
    pub max_size: usize,
    /// Whether rows of different requests may share a batch.
    pub dynamic: bool,
    /// How long the oldest request may wait for company, in nanoseconds. Zero adds no wait.
    pub max_delay_ns: u64,
    /// Sizes that a batch is cut to when it may not wait longer and more is there; ascending.
    pub preferred_sizes: Vec<usize>,
    /// Whether the learned hold for returning callers is on.
    pub hold: bool,
    /// What happens to a request with more rows than `max_size`.
    pub oversize: Oversize,
    /// The sizes that a handler sees, ascending: a batch is filled up to the next one. Empty for any size.
    pub sizes: Vec<usize>,
    /// What it is filled up with.
    pub padding: Padding,
    /// Whether inputs are kept until a batch is answered, to run it again in halves if it was too large for the
    /// memory.
    pub retry_on_oom: bool,
    /// What rows cost, and how much a batch may; `None` where it is bounded by rows alone.
    pub cost: Option<RowCost>,
    /// Which lengths share a batch, where rows may differ in length; `None` for all.
    pub window: Option<Window>,
    /// The latency that batches are to keep for nearly all requests, in nanoseconds.
    pub target_ns: Option<u64>,
    /// Whether a request is refused that could not be answered within it.
    pub reject_late: bool,
    /// What a batch of several requests may be expected to take, in nanoseconds; `None` for any time.
    pub max_duration_ns: Option<u64>,
}

/// What fills a batch up to an allowed size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Padding {
    /// The last row again.
    #[default]
    Repeat,
    /// Zeros, and empty BYTES.
    Zeros,
}

/// What happens to a request with more rows than one batch holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Oversize {
    /// It is the client's error.
    Refuse,
    /// It is computed in several batches and answered as one.
    Split,
}

/// Which lengths are near enough to share a batch.
#[derive(Clone, Debug, PartialEq)]
pub enum Window {
    /// Those between the same two of these, ascending; a boundary belongs to what is below it.
    Edges(Vec<usize>),
    /// Those that are at most so many times as long, or as short, as those of the request that goes first.
    Ratio(f64),
}

impl Batching {
    /// Dynamic batching of at most `max_size` rows, with the defaults of all else.
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

    /// The rows that a handler sees for a batch of `rows`.
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
            // Of nothing, one step is as far away as from one.
            Self::Ratio(ratio) => first.max(length) as f64 <= ratio * first.min(length).max(1) as f64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Window;

    #[test]
    fn a_window_is_bounded_by_edges_or_by_a_ratio() {
        let edges = Window::Edges(vec![4, 8]);
        let near = |window: &Window, first, lengths: &[usize]| -> Vec<usize> {
            lengths.iter().copied().filter(|&length| window.admits(first, length)).collect()
        };
        assert_eq!(near(&edges, 4, &[0, 1, 4, 5]), [0, 1, 4]);
        assert_eq!(near(&edges, 5, &[4, 5, 8, 9]), [5, 8]);
        assert_eq!(near(&edges, 9, &[8, 9, 1000]), [9, 1000]);
        let ratio = Window::Ratio(1.5);
        assert_eq!(near(&ratio, 6, &[3, 4, 6, 9, 10]), [4, 6, 9]);
        assert_eq!(near(&ratio, 0, &[0, 1, 2]), [0, 1]);
    }
}
