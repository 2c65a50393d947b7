"""Tensors, messages and routes of the inference protocols."""
