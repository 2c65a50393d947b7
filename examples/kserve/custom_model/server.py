"""A custom model for V1, V2 and gRPC: the nearest of three flowers to four measurements."""

import argparse

import numpy as np
from kserve import Model, ModelServer, model_server
from kserve.utils.utils import get_predict_input, get_predict_response

FLOWERS = np.array([[5.0, 3.4, 1.5, 0.2], [5.9, 2.8, 4.3, 1.3], [6.6, 3.0, 5.6, 2.0]])
"""Mean measurements of each flower."""


class Flowers(Model):
    """Classifies rows of four measurements; returns a class number per row."""

    def load(self) -> bool:
        """Reads the weights, in a real model."""
        self.means = FLOWERS
        self.ready = True
        return self.ready

    def predict(self, payload, headers=None):
        """A plain function, which may block: Penstock runs it on threads, KServe in its event loop."""
        rows = np.asarray(get_predict_input(payload), np.float64)
        distances = ((rows[:, None, :] - self.means) ** 2).sum(axis=2)
        return get_predict_response(payload, distances.argmin(axis=1), self.name)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(parents=[model_server.parser])
    args, _ = parser.parse_known_args()
    model = Flowers(args.model_name)
    model.load()
    ModelServer().start([model])
