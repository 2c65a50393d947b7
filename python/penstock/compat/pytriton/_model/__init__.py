"""Bound models: the arguments of `bind`, and the instances that run the callables."""
