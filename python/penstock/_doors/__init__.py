"""Front doors for folders and files of other products: which there are, and which of them knows a path."""
