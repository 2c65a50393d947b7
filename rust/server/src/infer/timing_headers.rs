//! Headers with the times and the batch of an inference request.

use http::{HeaderMap, HeaderValue};
use penstock_core::Timings;
use std::time::Duration;

/// Header with the rows of the batch that computed a request.
pub(crate) const BATCH_SIZE_HEADER: &str = "x-penstock-batch-size";

/// Adds the headers with queue time, compute time and batch size.
pub(crate) fn timing_headers(headers: &mut HeaderMap, timings: Timings) {
    let seconds = |duration: Duration| format!("{:.6}", duration.as_secs_f64());
    let values = [
        ("x-penstock-queue-seconds", seconds(timings.queue)),
        ("x-penstock-compute-seconds", seconds(timings.compute)),
        (BATCH_SIZE_HEADER, timings.batch_rows.to_string()),
    ];
    for (name, value) in values {
        if let Ok(value) = HeaderValue::try_from(value) {
            headers.insert(name, value);
        }
    }
}
