//! Tells the compiler which interpreter this is built for.

fn main() {
    pyo3_build_config::use_pyo3_cfgs();
}
