"""Code that is loaded anew while it is served: the files, who looks at them, and how a signal finds the server."""
