//! Headers that become parameters of a request, where the operator asks for it.

use crate::settings::HeaderPattern;
use http::HeaderMap;
use penstock_core::{Error, Parameter, Result};
use penstock_wire::DecodedRequest;

/// The names that mean something to the protocol; no header may set them.
const RESERVED: [&str; 7] =
    ["sequence_id", "sequence_start", "sequence_end", "priority", "timeout", "headers", "binary_data_output"];

/// What a stream's client says in metadata of that form; it is no parameter, and no mistake.
const OF_STREAMS: &str = "triton_grpc_error";

/// Adds the headers that match to a request's parameters, over those of the same names; names are in
/// lower case. Nobody but a handler that asks for its context sees them.
///
/// # Errors
/// `InvalidInput` for a header of a reserved name.
pub(crate) fn forward(pattern: &HeaderPattern, headers: &HeaderMap, decoded: &mut DecodedRequest) -> Result<()> {
    let names = headers.keys().map(http::HeaderName::as_str);
    for name in names.filter(|&name| name != OF_STREAMS && pattern.matches(name)) {
        if RESERVED.contains(&name) || name.starts_with("triton_") {
            return Err(Error::invalid(format!(
                "header '{name}' is forwarded as a parameter, and that name is reserved, expected a request without it"
            )));
        }
        let Some(caller) = &mut decoded.request.metadata else { continue };
        let values: Vec<&str> = headers.get_all(name).iter().filter_map(|value| value.to_str().ok()).collect();
        caller.parameters.retain(|(known, _)| known != name);
        caller.parameters.push((name.to_owned(), Parameter::String(values.join(", "))));
    }
    Ok(())
}
