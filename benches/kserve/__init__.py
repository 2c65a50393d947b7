"""KServe and Penstock side by side: the same scripts under both."""
