//! Updates of metrics by handlers, and the rules for names and labels.

use crate::TokenUsage;

/// Names and values, sorted by name.
pub type Labels = Vec<(String, String)>;

/// Default upper bounds of histogram buckets: 5 ms to 10 s, in seconds.
pub const DEFAULT_BUCKETS: [f64; 11] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

/// Maximum labels of a metric.
pub const MAX_LABELS: usize = 16;

/// Beginnings of the names of the server's metrics.
const OWN_PREFIXES: [&str; 2] = ["penstock_", "process_"];

const MAX_CHARACTERS: usize = 128;
const SHAPE: &str = "letters, digits and underscores, not beginning with a digit, at most 128";
const RESERVED_LABELS: [&str; 4] = ["model", "version", "le", "quantile"];

/// Update of a metric that a handler defines.
#[derive(Clone, Debug, PartialEq)]
pub struct MetricUpdate {
    /// Name, without the `_total` of a counter.
    pub name: String,
    /// Labels, without those that the server adds.
    pub labels: Labels,
    /// Change of the value.
    pub change: Change,
}

/// Change of a metric's value.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// Adds to `penstock_custom_total{name="..."}`, where the label `name` is the metric's name.
    Custom(f64),
    /// Adds to a counter.
    Add(f64),
    /// Sets a gauge.
    Set(f64),
    /// Adds to a histogram.
    Observe(Observations),
    /// Counts the tokens of a request, in metrics of the server.
    Tokens(TokenUsage),
}

/// Observed values by bucket.
#[derive(Clone, Debug, PartialEq)]
pub struct Observations {
    /// Counts: one per bound, and one above all bounds.
    pub counts: Vec<u64>,
    /// Sum of the values.
    pub sum: f64,
}

impl Observations {
    /// Sorts values into buckets.
    pub fn of(values: &[f64], bounds: &[f64]) -> Self {
        let mut counts = vec![0; bounds.len() + 1];
        for value in values {
            counts[bounds.partition_point(|bound| bound < value)] += 1;
        }
        Self { counts, sum: values.iter().fold(0.0, |sum, value| sum + value) }
    }

    /// Adds observations with the same buckets.
    pub(crate) fn add(&mut self, other: &Self) {
        self.counts.iter_mut().zip(&other.counts).for_each(|(count, more)| *count += more);
        self.sum += other.sum;
    }
}

impl MetricUpdate {
    /// Increment of a counter. A name may end in `_total`, which the text form always shows.
    ///
    /// # Errors
    /// An invalid name or label, or a negative value; a message.
    pub fn counter(name: &str, value: f64, labels: Labels) -> Result<Self, String> {
        check_increment(name, value)?;
        Self::of(name.strip_suffix("_total").unwrap_or(name), labels, Change::Add(value))
    }

    /// New value of a gauge.
    ///
    /// # Errors
    /// An invalid name or label; a message.
    pub fn gauge(name: &str, value: f64, labels: Labels) -> Result<Self, String> {
        Self::of(name, labels, Change::Set(value))
    }

    /// Observations of a histogram with these bounds: all values or none.
    ///
    /// # Errors
    /// An invalid name or label, or a negative value; a message.
    pub fn histogram(name: &str, values: &[f64], labels: Labels, bounds: &[f64]) -> Result<Self, String> {
        if let Some(value) = values.iter().find(|value| !(**value >= 0.0 && value.is_finite())) {
            return Err(format!("histogram '{name}' takes numbers of 0 or more, got {value}"));
        }
        Self::of(name, labels, Change::Observe(Observations::of(values, bounds)))
    }

    /// Tokens of a request.
    pub fn tokens(usage: TokenUsage) -> Self {
        Self { name: String::new(), labels: Labels::new(), change: Change::Tokens(usage) }
    }

    fn of(name: &str, mut labels: Labels, change: Change) -> Result<Self, String> {
        labels.sort_unstable();
        labels.iter_mut().for_each(|(_, value)| cut(value));
        let update = Self { name: name.to_owned(), labels, change };
        update.check()?;
        Ok(update)
    }

    /// Checks an update of another process.
    ///
    /// # Errors
    /// A message.
    pub fn check(&self) -> Result<(), String> {
        let Self { name, labels, change } = self;
        match change {
            Change::Custom(value) => return check_increment(name, *value),
            Change::Tokens(usage) => return usage.check(),
            Change::Add(value) => check_increment(name, *value)?,
            Change::Set(_) => {}
            Change::Observe(Observations { sum, .. }) => check_increment(name, *sum)?,
        }
        if !has_shape(name) {
            return Err(format!("metric name '{}' is wrong, expected {SHAPE}", start(name)));
        }
        if let Some(prefix) = OWN_PREFIXES.into_iter().find(|prefix| name.starts_with(prefix)) {
            return Err(format!("metric name '{name}' is wrong: those that begin with '{prefix}' are the server's"));
        }
        if labels.len() > MAX_LABELS {
            return Err(format!("metric '{name}' has {} labels, expected at most {MAX_LABELS}", labels.len()));
        }
        for (label, value) in labels {
            if !has_shape(label) {
                return Err(format!("label '{}' of metric '{name}' is wrong, expected {SHAPE}", start(label)));
            }
            if RESERVED_LABELS.contains(&label.as_str()) || label.starts_with("__") {
                return Err(format!("label '{label}' of metric '{name}' is wrong: it is one of the server's own"));
            }
            if value.len() > MAX_CHARACTERS * 4 {
                return Err(format!("label '{label}' of metric '{name}' is longer than {MAX_CHARACTERS} characters"));
            }
        }
        Ok(())
    }
}

/// Checks an increment of a counter.
///
/// # Errors
/// A message.
pub fn check_increment(name: &str, value: f64) -> Result<(), String> {
    if value >= 0.0 && value.is_finite() {
        return Ok(());
    }
    Err(format!("counter '{}' can only grow, got {value}", start(name)))
}

fn has_shape(name: &str) -> bool {
    let known = |byte: u8| byte == b'_' || byte.is_ascii_alphanumeric();
    name.bytes().next().is_some_and(|first| !first.is_ascii_digit())
        && name.len() <= MAX_CHARACTERS
        && name.bytes().all(known)
}

fn start(text: &str) -> String {
    text.chars().take(MAX_CHARACTERS).collect()
}

fn cut(value: &mut String) {
    if let Some((end, _)) = value.char_indices().nth(MAX_CHARACTERS) {
        value.truncate(end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(pairs: &[(&str, &str)]) -> Labels {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn invalid_metric_names_labels_and_values_are_refused() {
        let gauge = |name: &str| MetricUpdate::gauge(name, 1.0, Labels::new());
        assert!(gauge("x_1").is_ok() && gauge("_x").is_ok());
        for name in ["", "1x", "a b", "ä", "a:b", &"x".repeat(129)] {
            assert!(gauge(name).unwrap_err().contains("is wrong, expected letters"), "{name}");
        }
        for name in ["penstock_x", "process_open_fds"] {
            assert!(gauge(name).unwrap_err().contains("are the server's"), "{name}");
        }
        let labelled = |label: &str| MetricUpdate::gauge("x", 1.0, labels(&[(label, "1")]));
        assert!(labelled("kind").is_ok());
        for label in ["model", "version", "le", "quantile", "__x"] {
            assert!(labelled(label).unwrap_err().contains("one of the server's own"), "{label}");
        }
        assert!(labelled("a-b").is_err());
        for value in [-1.0, f64::NAN, f64::INFINITY] {
            assert!(MetricUpdate::counter("x", value, Labels::new()).is_err());
            assert!(MetricUpdate::histogram("x", &[1.0, value], Labels::new(), &DEFAULT_BUCKETS).is_err());
        }
    }

    #[test]
    fn long_label_values_are_truncated_at_a_character() {
        let update = MetricUpdate::gauge("x", 1.0, labels(&[("kind", &"ü".repeat(300))])).unwrap();
        assert_eq!(update.labels[0].1, "ü".repeat(128));
    }

    #[test]
    fn bucket_bounds_are_inclusive() {
        let counts_of = |value| Observations::of(&[value], &[1.0, 2.0]).counts;
        assert_eq!(counts_of(0.0), [1, 0, 0]);
        assert_eq!(counts_of(1.0), [1, 0, 0]);
        assert_eq!(counts_of(1.5), [0, 1, 0]);
        assert_eq!(counts_of(9.0), [0, 0, 1]);
        let several = Observations { counts: vec![2, 0, 1], sum: 10.5 };
        assert_eq!(Observations::of(&[1.0, 9.0, 0.5], &[1.0, 2.0]), several);
    }
}
