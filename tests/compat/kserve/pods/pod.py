"""The container of a pod: a predictor, or a transformer if the flags have a predictor's host."""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path
from typing import Any

from kserve import Model, ModelRepository, ModelServer, model_server

FOLDER = Path(os.environ["POD_FOLDER"])
"""The folder of marker files: `entered-*` for held requests, `go` to release them."""


class Predictor(Model):
    """Adds up rows; a held request waits for a file."""

    def predict(self, payload: Any, headers: Any = None) -> Any:
        """Returns the sum of each row."""
        if payload.get("hold"):
            (FOLDER / f"entered-{payload['hold']}").touch()
            while not (FOLDER / "go").exists():
                time.sleep(0.005)
        return {"predictions": [sum(row) for row in payload["instances"]], "by": os.getpid()}


class Transformer(Model):
    """Multiplies rows by ten for the predictor."""

    async def preprocess(self, payload: Any, headers: Any = None) -> Any:
        """Multiplies each row by ten."""
        return {**payload, "instances": [[10 * number for number in row] for row in payload["instances"]]}

    async def postprocess(self, result: Any, headers: Any = None) -> Any:
        """Adds the transformer's name."""
        return {**result, "through": os.getpid()}


class Repository(ModelRepository):
    """Creates predictors of any name."""

    def load(self, name: str) -> bool:
        """Adds a predictor."""
        model = Predictor(name)
        model.load()
        self.update(model)
        return bool(model.ready)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(parents=[model_server.parser])
    args, _ = parser.parse_known_args()
    kind = Transformer if args.predictor_host else Predictor
    model = kind(args.model_name)
    model.load()
    ModelServer(registered_models=Repository()).start([model])
