"""Records of a model: tensors, batching, scheduling, results. Plain data, below every mechanism."""
