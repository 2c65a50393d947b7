"""Files and batches: requests of a file, computed when there is nothing more urgent."""
