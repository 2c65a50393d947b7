"""From a user callable to a handler: type hints, signature, adapters, JSON documents."""
