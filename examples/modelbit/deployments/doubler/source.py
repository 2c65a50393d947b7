"""A minimal deployment."""


def doubler(half: float) -> float:
    """Returns twice the argument."""
    return half * 2
