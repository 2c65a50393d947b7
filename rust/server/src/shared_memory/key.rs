//! Names of shared memory objects that clients may use.

use penstock_core::{Error, Result};

/// Longest name of an object in bytes.
const MAX_BYTES: usize = 255;

/// Prefixes of other programs' objects: POSIX semaphores, and another server's own regions.
const RESERVED: [&str; 2] = ["sem.", "triton_python_backend_shm"];

/// Returns the object name of a key, without its leading slash.
///
/// # Errors
/// `InvalidInput` for an invalid or reserved name.
pub(super) fn object_name(key: &str) -> Result<&str> {
    let name = key.strip_prefix('/').unwrap_or(key);
    let is_name = !matches!(name, "" | "." | "..")
        && name.len() <= MAX_BYTES
        && !name.contains(|c: char| c == '/' || c.is_control());
    if !is_name {
        return Err(Error::invalid(format!(
            "shared memory key {key:?} is not an object's name: expected 1 to {MAX_BYTES} bytes without a slash within"
        )));
    }
    if let Some(prefix) = RESERVED.into_iter().find(|prefix| name.starts_with(prefix)) {
        return Err(Error::invalid(format!("shared memory key {key:?} is reserved, as names with '{prefix}' are")));
    }
    Ok(name)
}

#[cfg(test)]
mod tests {
    use super::object_name;
    use proptest::prelude::*;

    #[test]
    fn object_names_are_accepted_with_and_without_a_slash() {
        for (key, name) in [("/a", "a"), ("a", "a"), ("/a..b", "a..b"), ("psm_ü", "psm_ü")] {
            assert_eq!(object_name(key).unwrap(), name);
        }
    }

    #[test]
    fn paths_and_reserved_names_are_refused() {
        let long = "x".repeat(256);
        for key in ["", "/", "//", "//a", "/a/b", "../a", "/..", "..", ".", "a/", "a\0b", "a\nb", long.as_str()] {
            assert!(object_name(key).unwrap_err().message().contains("is not an object's name"), "{key:?}");
        }
        for key in ["/sem.x", "triton_python_backend_shm_region_1"] {
            assert!(object_name(key).unwrap_err().message().contains("is reserved"), "{key:?}");
        }
    }

    proptest! {
        #[test]
        fn object_name_stays_in_its_folder(key in "[/.a\\\\]{0,8}") {
            if let Ok(name) = object_name(&key) {
                let path = std::path::Path::new("/dev/shm").join(name);
                prop_assert_eq!(path.components().count(), 4);
                prop_assert!(path.file_name().is_some());
            }
        }
    }
}
