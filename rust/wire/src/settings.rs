//! What the bodies of all settings have in common.

use penstock_core::{Error, Result};
use serde_json::{Map, Value};

/// The members of a body, which may be empty.
pub(crate) fn object(body: &[u8]) -> Result<Map<String, Value>> {
    if body.is_empty() {
        return Ok(Map::new());
    }
    match serde_json::from_slice(body) {
        Ok(Value::Object(members)) => Ok(members),
        Ok(_) => Err(Error::invalid("the body is not a JSON object, expected settings by name")),
        Err(error) => Err(Error::invalid(format!("the body is not valid JSON: {error}"))),
    }
}
