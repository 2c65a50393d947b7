"""What travels over gRPC."""
