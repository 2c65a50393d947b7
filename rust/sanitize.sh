#!/bin/sh
# Runs the Rust tests under tools that see what tests alone do not. Slow; for a change of who shares what, or of `unsafe`.
#   rust/sanitize.sh [thread] [address] [miri]      all three without arguments
# thread:  ThreadSanitizer, for data races in core, process, client and server.
# address: AddressSanitizer, for wild memory in the same, shared memory between processes included.
# miri:    an interpreter of Rust's own rules, for core; the hand-overs between threads in several schedules.
# Needs the nightly toolchain with rust-src and miri, which it installs with rustup if it can.
set -eu

cd "$(dirname "$0")/.."
target=$(rustc -vV | sed -n 's/^host: //p')
[ $# -gt 0 ] || set -- thread address miri

if ! rustup run nightly rustc --version >/dev/null 2>&1; then
    rustup toolchain install nightly --profile minimal
fi
rustup component add --toolchain nightly rust-src miri

sanitize() {
    CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/sanitize-$1" RUSTFLAGS="-Zsanitizer=$1" PROPTEST_CASES=16 \
        cargo +nightly test --locked -Zbuild-std --target "$target" --no-fail-fast --lib --tests \
        -p penstock-core -p penstock-process -p penstock-client -p penstock-server \
        --features penstock-core/testing,penstock-client/tls
}

interpret() {
    export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/miri" PROPTEST_CASES=1 PROPTEST_DISABLE_FAILURE_PERSISTENCE=1
    # Classification is arithmetic on many floats: nothing for Miri, and half an hour of it.
    MIRIFLAGS="-Zmiri-disable-isolation -Zmiri-ignore-leaks" \
        cargo +nightly miri test --locked -p penstock-core --features testing --lib --test pipeline --test streaming --test rows -- \
        --skip classify
    MIRIFLAGS="-Zmiri-disable-isolation -Zmiri-ignore-leaks -Zmiri-many-seeds=0..4" \
        cargo +nightly miri test --locked -p penstock-core --features testing --lib -- reply:: stream::
}

for tool in "$@"; do
    echo "sanitize: $tool"
    case $tool in
        thread | address) sanitize "$tool" ;;
        miri) interpret ;;
        *) echo "sanitize: there is no '$tool': thread, address or miri" >&2; exit 2 ;;
    esac
done
echo "sanitize: nothing found"
