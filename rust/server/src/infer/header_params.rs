//! Headers that become parameters of a request, where the settings have a pattern.

use crate::settings::HeaderPattern;
use http::HeaderMap;
use penstock_core::{Error, Parameter, Result};
use penstock_wire::DecodedRequest;

/// Parameters of the protocol, which no header may set.
const RESERVED: [&str; 7] =
    ["sequence_id", "sequence_start", "sequence_end", "priority", "timeout", "headers", "binary_data_output"];

/// Metadata of a stream's client, which is neither a parameter nor an error.
const OF_STREAMS: &str = "triton_grpc_error";

/// Adds matching headers to a request's parameters, in place of those of the same name. Names are in
/// lower case. Only a handler that takes its context sees them.
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
        let Some(metadata) = &mut decoded.request.metadata else { continue };
        let values: Vec<&str> = headers.get_all(name).iter().filter_map(|value| value.to_str().ok()).collect();
        metadata.parameters.retain(|(known, _)| known != name);
        metadata.parameters.push((name.to_owned(), Parameter::String(values.join(", "))));
    }
    Ok(())
}
