//! `penstock._config.served.Description`: the settings for operators.

use penstock_server::ConfigDescription;

/// The document as JSON, and its hash.
pub(crate) type Description = (Vec<u8>, String);

/// The description of settings, as Python has it.
pub(crate) fn description((json, hash): Description) -> ConfigDescription {
    ConfigDescription { json: json.into(), hash }
}
