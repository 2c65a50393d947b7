"""What a pod's container runs: a predictor, or a transformer where there is a predictor's host among the flags."""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path
from typing import Any

from kserve import Model, ModelRepository, ModelServer, model_server

FOLDER = Path(os.environ["POD_FOLDER"])
"""What it tells and is told, by files."""


class Predictor(Model):
    """Adds up rows. Asked to hold, it answers when there is a file that lets it."""

    def predict(self, payload: Any, headers: Any = None) -> Any:
        """The sum of each row."""
        if payload.get("hold"):
            (FOLDER / f"entered-{payload['hold']}").touch()
            while not (FOLDER / "go").exists():
                time.sleep(0.005)
        return {"predictions": [sum(row) for row in payload["instances"]], "by": os.getpid()}


class Transformer(Model):
    """Asks the predictor for ten times as much."""

    async def preprocess(self, payload: Any, headers: Any = None) -> Any:
        """Each row, ten times."""
        return {**payload, "instances": [[10 * number for number in row] for row in payload["instances"]]}

    async def postprocess(self, result: Any, headers: Any = None) -> Any:
        """Says who passed it on."""
        return {**result, "through": os.getpid()}


class Repository(ModelRepository):
    """Makes predictors of any name."""

    def load(self, name: str) -> bool:
        """One more."""
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
