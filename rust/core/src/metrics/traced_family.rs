//! Families of histograms with exemplars: the trace of a sampled request for each bucket.
//!
//! The text is written here, because exemplars of `prometheus-client` cannot be created outside of it.

use super::{
    histogram::{Exemplar, Histogram},
    text::{write_head, write_sample},
};
use std::{
    collections::BTreeMap,
    fmt::Write as _,
    sync::{Mutex, PoisonError},
    time::UNIX_EPOCH,
};

/// Histograms of one name by their labels, as the text form has them.
#[derive(Debug)]
pub(super) struct TracedFamily {
    series: Mutex<BTreeMap<String, Histogram>>,
    create: fn() -> Histogram,
}

impl TracedFamily {
    pub(super) fn new(create: fn() -> Histogram) -> Self {
        Self { series: Mutex::default(), create }
    }

    /// Returns the histogram of some labels.
    pub(super) fn get_or_create(&self, labels: String) -> Histogram {
        let mut series = self.series.lock().unwrap_or_else(PoisonError::into_inner);
        series.entry(labels).or_insert_with(self.create).clone()
    }

    /// Writes the family, which is in seconds.
    pub(super) fn write(&self, text: &mut String, name: &str, help: &str) {
        write_head(text, name, help, "histogram");
        // Writing to a `String` cannot fail.
        let _ = writeln!(text, "# UNIT {name} seconds");
        let series = self.series.lock().unwrap_or_else(PoisonError::into_inner);
        for (labels, histogram) in &*series {
            write(text, name, labels, histogram);
        }
    }
}

fn write(text: &mut String, name: &str, labels: &str, histogram: &Histogram) {
    let (now, exemplars) = (histogram.distribution(), histogram.exemplars());
    write_sample(text, &format!("{name}_sum"), labels, format_args!("{:?}", now.sum));
    write_sample(text, &format!("{name}_count"), labels, now.count());
    let mut below = 0;
    for (place, (bound, count)) in histogram.bounds().iter().zip(&now.counts).enumerate() {
        below += count;
        let _ = match bound.is_finite() {
            true => write!(text, "{name}_bucket{{le=\"{bound:?}\",{labels}}} {below}"),
            false => write!(text, "{name}_bucket{{le=\"+Inf\",{labels}}} {below}"),
        };
        if let Some(Some(Exemplar { trace_id, value, time })) = exemplars.get(place) {
            let time = time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
            let trace_id = u128::from_be_bytes(*trace_id);
            let _ = write!(text, " # {{trace_id=\"{trace_id:032x}\"}} {value:?} {time:.3}");
        }
        text.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_trace_of_each_bucket_is_its_exemplar() {
        let family = TracedFamily::new(|| Histogram::new([0.5, 1.0]));
        let histogram = family.get_or_create("model=\"m\"".to_owned());
        histogram.observe(0.25);
        histogram.observe_traced(0.25, Some(&[1; 16]));
        histogram.observe_traced(0.5, Some(&[2; 16]));
        histogram.observe_traced(0.125, None);
        let mut text = String::new();
        family.write(&mut text, "m_seconds", "Help");
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            &lines[..5],
            &[
                "# HELP m_seconds Help.",
                "# TYPE m_seconds histogram",
                "# UNIT m_seconds seconds",
                "m_seconds_sum{model=\"m\"} 1.125",
                "m_seconds_count{model=\"m\"} 4"
            ]
        );
        let (sample, exemplar) = lines[5].split_once(" # ").unwrap();
        assert_eq!(sample, "m_seconds_bucket{le=\"0.5\",model=\"m\"} 4");
        assert!(exemplar.starts_with("{trace_id=\"02020202020202020202020202020202\"} 0.5 "), "{exemplar}");
        assert_eq!(
            &lines[6..],
            &["m_seconds_bucket{le=\"1.0\",model=\"m\"} 4", "m_seconds_bucket{le=\"+Inf\",model=\"m\"} 4"]
        );
    }
}
