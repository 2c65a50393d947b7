"""Container images: a Dockerfile and its context, and the programs that build them."""
