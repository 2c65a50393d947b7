#!/bin/sh
# Runs every fuzz target for SECONDS (default 60), one after the other, with bounded memory and time for one input.
#   rust/wire/fuzz/run.sh [SECONDS] [TARGET ...]
# A crash ends the run with a failure; its input lies in artifacts/ and its text on the screen.
# Without the nightly toolchain or cargo-fuzz, and without a way to install them, it says so and succeeds.
set -eu

cd "$(dirname "$0")"
seconds=${1:-60}
[ $# -eq 0 ] || shift

skip() {
    echo "fuzz: skipped: $1"
    exit 0
}

command -v rustup >/dev/null || skip "rustup is not here, and without it there is no nightly toolchain"
if ! rustup run nightly rustc --version >/dev/null 2>&1; then
    rustup toolchain install nightly --profile minimal || skip "the nightly toolchain could not be installed"
fi
if ! cargo fuzz --version >/dev/null 2>&1; then
    cargo install cargo-fuzz --locked || skip "cargo-fuzz could not be installed"
fi

# `cargo fuzz list` prints the targets of Cargo.toml.
[ $# -gt 0 ] || set -- $(cargo +nightly fuzz list --fuzz-dir .)
for target in "$@"; do
    echo "fuzz: $target for $seconds s"
    mkdir -p "corpus/$target"
    seeds=""
    [ ! -d "seeds/$target" ] || seeds="seeds/$target"
    dictionary=""
    case $target in rest_* | cloud_event | repository | settings | shared_memory) dictionary="-dict=json.dict" ;; esac
    # shellcheck disable=SC2086 # both may be empty
    cargo +nightly fuzz run --fuzz-dir . -O -a "$target" "corpus/$target" $seeds -- \
        -max_total_time="$seconds" -rss_limit_mb=1024 -malloc_limit_mb=256 -timeout=10 -max_len=4096 \
        -print_final_stats=1 $dictionary
done
echo "fuzz: no crash"
