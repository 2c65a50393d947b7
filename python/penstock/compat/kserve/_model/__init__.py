"""Models: base classes, stages, readiness, predictor calls and transfer to workers."""
