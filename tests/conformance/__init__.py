"""The protocol's conformance cases: each is a test that is named after it, on every door that can carry it."""
