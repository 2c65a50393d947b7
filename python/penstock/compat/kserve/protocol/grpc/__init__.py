"""gRPC messages and service."""
