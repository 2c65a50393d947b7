"""PyTriton's interface: a script changes `pytriton` to `penstock.compat.pytriton` in its imports, and runs."""
