//! Many keys of clients.

use penstock_server::KeySettings;
use ring::digest::{SHA256, digest};
use std::{env, fmt::Write as _, fs, process};

/// Number of the keys.
const MANY: usize = 10_000;

/// The key of requests, the last one of the file.
pub(crate) const LAST: &str = "key-9999-of-the-instruction-counter";

/// Writes the file of keys.
pub(crate) fn settings() -> KeySettings {
    let mut text = String::new();
    for number in 0..MANY {
        let digest = digest(&SHA256, format!("key-{number}-of-the-instruction-counter").as_bytes());
        let hexadecimal: String = digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        // Writing into a `String` cannot fail.
        let _ = write!(text, "[[key]]\nname = 'client-{number}'\nsha256 = '{hexadecimal}'\n");
    }
    let file = env::temp_dir().join(format!("penstock-instructions-{}.toml", process::id()));
    fs::write(&file, text).expect("a folder for temporary files");
    KeySettings { file: Some(file), api_key: None }
}
