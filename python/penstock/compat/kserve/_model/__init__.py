"""Models: stages, readiness, predictors and transfer to workers."""
