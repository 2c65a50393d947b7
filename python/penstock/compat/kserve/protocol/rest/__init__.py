"""HTTP bodies and routes."""
