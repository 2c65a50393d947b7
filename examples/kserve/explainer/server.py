"""A model that explains its scores: the contribution of each number."""

import argparse

import numpy as np
from kserve import Model, ModelServer, model_server
from kserve.errors import InvalidInput

WEIGHTS = np.array([0.5, -2.0, 1.0])


class Scores(Model):
    """Computes scores or explanations for rows of three numbers."""

    def preprocess(self, payload, headers=None):
        """Rejects invalid rows with status 400."""
        rows = np.asarray(payload["instances"], float)
        if rows.ndim != 2 or rows.shape[1] != len(WEIGHTS):
            raise InvalidInput(f"rows of {len(WEIGHTS)} numbers are expected, not {list(rows.shape)}")
        return rows

    def predict(self, payload, headers=None):
        """Returns the scores."""
        return {"predictions": (payload @ WEIGHTS).tolist()}

    def explain(self, payload, headers=None):
        """Returns each number's contribution to its row's score."""
        return {"explanations": (payload * WEIGHTS).tolist()}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(parents=[model_server.parser])
    args, _ = parser.parse_known_args()
    model = Scores(args.model_name)
    model.load()
    ModelServer().start([model])
