"""Profile for the optimized build of the wheel."""
