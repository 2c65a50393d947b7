"""`@model`, its options, pipelines, and the resolution of what a server is given."""
