"""What an inference callable meets."""
