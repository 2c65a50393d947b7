//! Bodies of responses: errors, inferences, health.

use crate::{
    failure::{Failure, Result, Stage},
    http1::Head,
};
use penstock_core::{Error, Kind};
use penstock_wire::{
    ClientResponse, Limits,
    rest::{begin_response, error},
};

/// The error of a response with an error status.
pub(crate) fn refusal(head: &Head, body: &[u8]) -> Failure {
    let mut said = error::message_of(body);
    if said.is_empty() {
        said = format!("the server answered with status {}", head.status);
    }
    let mut error = Error::new(error::kind(head.status), said);
    if let Some(after) = head.retry_after {
        error = error.retry_after(after);
    }
    Failure::responded(error, head.status)
}

/// Decodes the body of an inference's response, which begins with `json_len` bytes of JSON, if that is given.
pub(crate) fn decoded(body: &[u8], json_len: Option<usize>) -> Result<ClientResponse> {
    let (json, tail) = body.split_at_checked(json_len.unwrap_or(body.len())).ok_or_else(short)?;
    let mut decoder = begin_response(json, tail.len(), &Limits::default())?;
    decoder.write(tail)?;
    Ok(decoder.finish()?)
}

/// `true` or `false`: the status, unless the body contradicts it.
pub(super) fn healthy(status: bool, body: &[u8]) -> Vec<u8> {
    let said = serde_json::from_slice::<serde_json::Value>(body).ok();
    let said =
        said.and_then(|said| said.get("ready").or_else(|| said.get("live")).and_then(serde_json::Value::as_bool));
    (status && said.unwrap_or(true)).to_string().into_bytes()
}

/// Error for a body that ends within its JSON.
pub(super) fn short() -> Failure {
    let error = Error::new(Kind::Internal, "the server's answer is shorter than the JSON that it announces");
    Failure { error, status: None, stage: Stage::Unknown }
}
