//! Slow requests: the parts of their durations, the last ones, and their lines.

mod record;
mod slow_requests;
mod stages;

pub(super) use record::SlowRecord;
pub(crate) use slow_requests::SlowRequests;
pub(super) use stages::Stages;
