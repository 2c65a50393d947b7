"""A cheap function of one number."""


def double(x):
    """Twice as much."""
    return x * 2
