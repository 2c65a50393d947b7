"""Model repository: folders of models, version policies, and loads and unloads while the server runs."""
