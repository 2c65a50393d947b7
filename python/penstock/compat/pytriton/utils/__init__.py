"""What scripts use beside servers and clients."""
