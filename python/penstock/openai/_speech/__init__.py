"""Text of recordings: transcriptions and translations."""
