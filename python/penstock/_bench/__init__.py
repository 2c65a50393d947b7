"""Benchmarks of the command line: steps, tables, reports. The load itself is in `rust/client/src/load`."""
