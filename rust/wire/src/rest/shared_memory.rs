//! The bodies of the shared memory routes.

use penstock_core::{Error, Result};
use serde::{Deserialize, Serialize};

/// A region of shared memory, as its client registered it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Region {
    /// The name that requests use.
    pub name: String,
    /// The name of the shared memory object.
    pub key: String,
    /// Start of the region in the object, in bytes.
    pub offset: u64,
    /// Its bytes.
    pub byte_size: u64,
}

/// Reads the body of `POST /v2/systemsharedmemory/region/{region}/register`.
///
/// # Errors
/// `InvalidInput` that names the key that is missing or wrong.
pub fn registration(name: String, body: &[u8]) -> Result<Region> {
    #[derive(Deserialize)]
    struct Registration {
        key: String,
        #[serde(default)]
        offset: u64,
        byte_size: u64,
    }
    let read = serde_json::from_slice(body);
    let Registration { key, offset, byte_size } = read.map_err(|error| {
        Error::invalid(format!(
            "the registration of shared memory region '{name}' must be an object with 'key', 'byte_size' and perhaps \
             'offset': {error}"
        ))
    })?;
    Ok(Region { name, key, offset, byte_size })
}

/// The body of the status routes.
pub fn status(regions: &[Region]) -> Vec<u8> {
    // Strings and numbers in memory: this cannot fail.
    serde_json::to_vec(regions).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registration_is_parsed_and_listed() {
        let region = registration("r".to_owned(), br#"{"key":"/k","byte_size":64,"other":1}"#).unwrap();
        assert_eq!(region, Region { name: "r".to_owned(), key: "/k".to_owned(), offset: 0, byte_size: 64 });
        let shown = String::from_utf8(status(&[region])).unwrap();
        assert_eq!(shown, r#"[{"name":"r","key":"/k","offset":0,"byte_size":64}]"#);
        assert_eq!(status(&[]), b"[]");
    }

    #[test]
    fn malformed_registrations_are_refused_with_a_reason() {
        for (body, part) in [
            ("", "EOF"),
            ("[]", "invalid length"),
            (r#"{"byte_size":1}"#, "missing field `key`"),
            (r#"{"key":"k"}"#, "missing field `byte_size`"),
            (r#"{"key":"k","byte_size":-1}"#, "invalid value: integer `-1`"),
            (r#"{"key":"k","byte_size":18446744073709551616}"#, "invalid type: floating point"),
            (r#"{"key":"k","byte_size":1,"offset":"0"}"#, "invalid type: string \"0\""),
            (r#"{"key":5,"byte_size":1}"#, "invalid type: integer `5`"),
        ] {
            let error = registration("r".to_owned(), body.as_bytes()).unwrap_err();
            assert!(error.message().contains(part), "{}", error.message());
            assert!(error.message().contains("region 'r'"));
        }
    }
}
