"""Folders of models: what is in them, which versions serve, and who changes that while the server runs."""
