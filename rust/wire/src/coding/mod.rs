//! HTTP content codings: decompression of requests, compression of responses.

mod accept;
mod codings;
mod compress;
mod inflate;
#[cfg(test)]
mod tests;

pub use accept::choose;
pub use codings::{ACCEPTED, Coding};
pub use compress::compress;
pub use inflate::{InflateLimits, Inflater};
