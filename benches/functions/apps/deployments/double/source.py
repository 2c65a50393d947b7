"""A cheap function of one number."""


def double(x):
    """Returns twice the number."""
    return x * 2
