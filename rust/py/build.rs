//! Tells the compiler which interpreter this is built for, and the crate which compiler builds it.

use std::{env, process::Command};

fn main() {
    pyo3_build_config::use_pyo3_cfgs();
    println!("cargo:rustc-env=PENSTOCK_RUSTC={}", compiler().unwrap_or_default());
}

/// Version of the compiler, as `rustc 1.95.0 (...)` has it.
fn compiler() -> Option<String> {
    let output = Command::new(env::var_os("RUSTC")?).arg("--version").output().ok()?;
    Some(String::from_utf8(output.stdout).ok()?.split_whitespace().nth(1)?.to_owned())
}
