"""The models, and a script for each server."""
