//! Counts and latencies of responses.

use crate::{options::Options, pace::Pace};
use hdrhistogram::{CreationError, Histogram};
use serde_json::{Value, json};
use std::{collections::BTreeMap, fs, path::PathBuf, time::Instant};

/// Up to this size responses are compared byte by byte, above it by length, to keep comparisons cheap.
const COMPARED: usize = 64 << 10;

/// Maximum bytes of the first error that are stored.
const ERROR_TEXT: usize = 300;

/// The outcome of a request.
pub(crate) enum Outcome<'a> {
    /// A response with a success status.
    Good { code: &'a str, body: &'a [u8] },
    /// An error status, or no response.
    Bad { code: &'a str, text: &'a [u8] },
}

/// The counts of one run.
pub(crate) struct Tally {
    seconds: f64,
    latencies_us: Histogram<u64>,
    codes: BTreeMap<String, u64>,
    bytes: u64,
    /// Successful responses, also outside the measurement.
    answered: u64,
    reconnects: u64,
    /// Successful responses that differ from the first.
    different: u64,
    first: Option<Vec<u8>>,
    first_error: Option<String>,
    save: Option<PathBuf>,
}

impl Tally {
    pub(crate) fn new(options: &Options) -> Result<Self, CreationError> {
        Ok(Self {
            seconds: options.seconds,
            latencies_us: Histogram::new(3)?,
            codes: BTreeMap::new(),
            bytes: 0,
            answered: 0,
            reconnects: 0,
            different: 0,
            first: None,
            first_error: None,
            save: options.save.clone(),
        })
    }

    /// Counts one request that started at `start`, if it ended while the run measures.
    pub(crate) fn count(&mut self, pace: &Pace, start: Instant, outcome: &Outcome<'_>) {
        let now = Instant::now();
        if let Outcome::Good { body, .. } = outcome {
            self.compare(body);
            self.answered += 1;
        }
        if !pace.measures(now) {
            return;
        }
        let (Outcome::Good { code, .. } | Outcome::Bad { code, .. }) = outcome;
        *self.codes.entry((*code).to_owned()).or_default() += 1;
        match outcome {
            Outcome::Good { body, .. } => {
                // A histogram without an upper bound refuses nothing.
                let _ = self.latencies_us.record(u64::try_from((now - start).as_micros()).unwrap_or(u64::MAX));
                self.bytes += body.len() as u64;
            }
            Outcome::Bad { text, .. } => {
                self.first_error.get_or_insert_with(|| text_of(text));
            }
        }
    }

    /// Counts a reconnection.
    pub(crate) fn reconnected(&mut self) {
        self.reconnects += 1;
    }

    pub(crate) fn summary(&self) -> Value {
        let good = self.latencies_us.len();
        let bad = self.codes.values().sum::<u64>() - good;
        let quantile = |share: f64| self.latencies_us.value_at_quantile(share);
        json!({
            "rps": good as f64 / self.seconds,
            "ok": good,
            "answered": self.answered,
            "errors": bad,
            "codes": self.codes,
            "different": self.different,
            "first_error": self.first_error,
            "reconnects": self.reconnects,
            "mean_us": self.latencies_us.mean(),
            "p50_us": quantile(0.5),
            "p90_us": quantile(0.9),
            "p99_us": quantile(0.99),
            "p999_us": quantile(0.999),
            "max_us": self.latencies_us.max(),
            "megabytes_s": self.bytes as f64 / self.seconds / 1e6,
        })
    }

    fn compare(&mut self, body: &[u8]) {
        let Some(first) = &self.first else {
            if let Some(path) = &self.save {
                // The reader reports the missing file.
                let _ = fs::write(path, body);
            }
            self.first = Some(body.to_vec());
            return;
        };
        let same = if body.len() <= COMPARED { first == body } else { first.len() == body.len() };
        self.different += u64::from(!same);
    }
}

fn text_of(bytes: &[u8]) -> String {
    String::from_utf8_lossy(&bytes[..bytes.len().min(ERROR_TEXT)]).into_owned()
}
