//! Chain of the lines: each has a number, and the BLAKE3 hash of the line before.

use super::event::AuditEvent;
use serde::{Deserialize, Serialize};

/// Hash in the first line.
pub(super) const NONE: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// Longest line, in bytes. Names in it are limited.
pub(super) const MAX_LINE_BYTES: usize = 16 << 10;

/// End of a chain of lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ChainEnd {
    /// Number of the last line; 0 before the first.
    pub(super) seq: u64,
    /// Hash of the last line.
    pub(super) hash: String,
}

/// A line, in the order of its fields.
#[derive(Serialize)]
struct Line<'a> {
    time: &'a str,
    seq: u64,
    client: Option<&'a str>,
    address: Option<&'a str>,
    action: &'a str,
    target: Option<&'a str>,
    outcome: &'a str,
    #[serde(skip_serializing_if = "is_zero")]
    skipped: u64,
    prev: &'a str,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// Place of a line in its chain.
#[derive(Deserialize)]
pub(super) struct Linked {
    pub(super) seq: u64,
    pub(super) prev: String,
}

impl Default for ChainEnd {
    fn default() -> Self {
        Self { seq: 0, hash: NONE.to_owned() }
    }
}

impl ChainEnd {
    /// Returns the end of a chain whose last line this is; `None` if it is not a line.
    pub(super) fn of(line: &[u8]) -> Option<(Self, Linked)> {
        let linked: Linked = serde_json::from_slice(line).ok()?;
        Some((Self { seq: linked.seq, hash: blake3::hash(line).to_hex().to_string() }, linked))
    }

    /// Formats the next line, without its end, and returns the chain with it.
    pub(super) fn append(&self, event: &AuditEvent, time: &str) -> (String, Self) {
        let line = Line {
            time,
            seq: self.seq + 1,
            client: event.client.as_deref(),
            address: event.address.as_deref(),
            action: event.action,
            target: event.target.as_deref(),
            outcome: event.outcome,
            skipped: event.skipped,
            prev: &self.hash,
        };
        // Texts and numbers can always be written.
        let line = serde_json::to_string(&line).unwrap_or_default();
        let hash = blake3::hash(line.as_bytes()).to_hex().to_string();
        (line, Self { seq: self.seq + 1, hash })
    }
}
