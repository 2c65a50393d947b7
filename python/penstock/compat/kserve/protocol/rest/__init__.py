"""What travels over HTTP."""
