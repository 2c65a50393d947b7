//! Error responses: each status with its reasons, and one schema for all.

use super::{names::reference, site::ServerDescription};
use crate::rest::error::status;
use penstock_core::Kind;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// The statuses of any REST request: its path or its headers are over a limit.
pub(super) const ANY_ROUTE: [u16; 2] = [414, 431];

/// Timing headers of a response, and their components.
pub(super) const TIMING_HEADERS: &[(&str, &str)] = &[
    ("x-penstock-queue-seconds", "QueueSeconds"),
    ("x-penstock-compute-seconds", "ComputeSeconds"),
    ("x-penstock-batch-size", "BatchSize"),
];

/// The refusals of an inference request, by status.
pub(super) fn inference_statuses(site: &ServerDescription<'_>) -> Vec<u16> {
    // An operation exists for its method; a client that left reads no response.
    let kinds = Kind::ALL.into_iter().filter(|kind| !matches!(kind, Kind::MethodNotAllowed | Kind::Cancelled));
    let mut statuses: Vec<u16> = kinds.map(|kind| status(site.dialect.response_kind(kind))).chain(ANY_ROUTE).collect();
    statuses.sort_unstable();
    statuses.dedup();
    statuses
}

/// The reference to a refusal.
pub(super) fn refusal(status: u16) -> Value {
    reference("responses", &format!("Refused{status}"))
}

/// Every refusal, as components.
pub(super) fn components(site: &ServerDescription<'_>) -> Map<String, Value> {
    let mut reasons: BTreeMap<u16, Vec<String>> = BTreeMap::new();
    for kind in Kind::ALL {
        reasons.entry(status(site.dialect.response_kind(kind))).or_default().push(reason(kind, site));
    }
    let bounds = &site.bounds;
    reasons.insert(414, vec![format!("The path and query are longer than {}.", bytes(bounds.uri_bytes))]);
    let headers = format!("There are more than {} headers, or {} of them.", bounds.headers, bytes(bounds.header_bytes));
    reasons.insert(431, vec![headers]);
    let component = |(status, reasons): (u16, Vec<String>)| {
        let mut answer = json!({
            "description": reasons.join(" "),
            "content": {"application/json": {"schema": reference("schemas", "Error")}},
        });
        if matches!(status, 429 | 503) {
            answer["headers"] = json!({"Retry-After": reference("headers", "RetryAfter")});
        }
        (format!("Refused{status}"), answer)
    };
    reasons.into_iter().map(component).collect()
}

/// A size in the largest unit that divides it.
pub(super) fn bytes(size: usize) -> String {
    match size {
        size if size > 0 && size % (1 << 20) == 0 => format!("{} MiB", size >> 20),
        size if size > 0 && size % (1 << 10) == 0 => format!("{} KiB", size >> 10),
        size => format!("{size} bytes"),
    }
}

fn reason(kind: Kind, site: &ServerDescription<'_>) -> String {
    let text = match kind {
        Kind::InvalidInput => "The request is not what the protocol or the model's signature says.",
        Kind::NotFound => "There is no such model, version or route.",
        Kind::AlreadyExists => "There is one of that name already.",
        Kind::MethodNotAllowed => "The route exists, not for this method.",
        Kind::TooLarge => return format!("The body has more than {}.", bytes(site.bounds.body_bytes)),
        Kind::UnsupportedEncoding => "The body has a content encoding that is not read.",
        Kind::Unsupported => "A part of the protocol that is not served.",
        Kind::Unauthenticated => "The caller sent no key, or one that is not valid.",
        Kind::Forbidden => "The caller may not do this.",
        Kind::Throttled => "The caller exceeds its own limit.",
        Kind::Overloaded => "The model's queue is full, or all bodies together hold as many bytes as they may.",
        Kind::Unavailable => "The server or the model is starting, draining or stopped.",
        Kind::Timeout => "The deadline passed before the answer was there.",
        Kind::Cancelled => "The caller left before its request was read to the end.",
        Kind::Handler => "The model failed, or returned what its signature does not allow.",
        Kind::Internal => "A defect of the server.",
    };
    text.to_owned()
}
