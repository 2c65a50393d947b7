"""The protocol's conformance cases: one test per case, named after it, on every applicable protocol."""
