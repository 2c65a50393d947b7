//! Server settings that clients read and change over both protocols.

mod log;
mod trace;

pub use log::{LogFormat, LogSettings};
pub use trace::TraceSettings;
