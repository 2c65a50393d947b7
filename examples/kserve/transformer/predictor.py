"""The predictor: brightness of small pictures. It knows nothing of what callers send."""

import argparse

import numpy as np
from kserve import Model, ModelServer, model_server


class Brightness(Model):
    """Rows of numbers between 0 and 1 in, their means out."""

    async def predict(self, payload, headers=None):
        """The mean of each row."""
        return {"predictions": [round(float(np.mean(row)), 3) for row in payload["instances"]]}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(parents=[model_server.parser])
    args, _ = parser.parse_known_args()
    model = Brightness(args.model_name)
    model.load()
    ModelServer().start([model])
