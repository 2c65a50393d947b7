"""A repository of one's own: a model for each file in models/, loaded and unloaded while the server runs."""

import json
from pathlib import Path

from kserve import Model, ModelRepository, ModelServer

FOLDER = Path(__file__).parent / "models"


class Line(Model):
    """A line through a plane, of which the file has the two numbers."""

    def load(self) -> bool:
        """Reads the file."""
        self.line = json.loads((FOLDER / f"{self.name}.json").read_text())
        self.ready = True
        return self.ready

    def predict(self, payload, headers=None):
        """Where the line is at each place."""
        return {"predictions": [self.line["rise"] * x + self.line["start"] for x in payload["instances"]]}


class Lines(ModelRepository):
    """Finds models by their names."""

    def load(self, name) -> bool:
        """Called for `POST /v2/repository/models/NAME/load`. What it raises is what the caller reads."""
        model = Line(name)
        model.load()
        self.update(model)
        return model.ready


if __name__ == "__main__":
    repository = Lines(str(FOLDER))
    repository.load("steep")
    ModelServer(registered_models=repository).start([])
