"""Server settings: reading, checking, access rules, tracing."""
