"""`@model`, its options, pipelines, and their definitions."""
