"""The protocol's conformance cases: each is a test that is named after it, on every protocol that can carry it."""
