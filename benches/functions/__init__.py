"""The integrations of functions: what a call through each costs beside the plain path, and batches beside FastAPI."""
