"""The predictor: mean brightness of small pictures, as arrays."""

import argparse

import numpy as np
from kserve import Model, ModelServer, model_server


class Brightness(Model):
    """Computes the means of rows of numbers between 0 and 1."""

    async def predict(self, payload, headers=None):
        """Returns the mean of each row."""
        return {"predictions": [round(float(np.mean(row)), 3) for row in payload["instances"]]}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(parents=[model_server.parser])
    args, _ = parser.parse_known_args()
    model = Brightness(args.model_name)
    model.load()
    ModelServer().start([model])
