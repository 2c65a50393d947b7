"""A small network over four numbers of a customer, for all rows of a frame at once."""

import numpy as np

COLUMNS = ["age", "income", "visits", "spent"]
FIRST = np.linspace(-1, 1, 64).reshape(4, 16) / 40
SECOND = np.linspace(1, -1, 16)


def score(customers):
    """A score between 0 and 1 for each row of a frame."""
    hidden = np.tanh(customers[COLUMNS].to_numpy(float) @ FIRST)
    return 1 / (1 + np.exp(-(hidden @ SECOND)))
