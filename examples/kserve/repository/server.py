"""A custom repository: a model per file in models/, loaded and unloaded while the server runs."""

import json
from pathlib import Path

from kserve import Model, ModelRepository, ModelServer

FOLDER = Path(__file__).parent / "models"


class Line(Model):
    """A linear function, whose two coefficients are in the file."""

    def load(self) -> bool:
        """Reads the file."""
        self.line = json.loads((FOLDER / f"{self.name}.json").read_text())
        self.ready = True
        return self.ready

    def predict(self, payload, headers=None):
        """Returns the function's values."""
        return {"predictions": [self.line["rise"] * x + self.line["start"] for x in payload["instances"]]}


class Lines(ModelRepository):
    """Finds models by name."""

    def load(self, name) -> bool:
        """Loads a model for `POST /v2/repository/models/NAME/load`; the client gets the text of its exceptions."""
        model = Line(name)
        model.load()
        self.update(model)
        return model.ready


if __name__ == "__main__":
    repository = Lines(str(FOLDER))
    repository.load("steep")
    ModelServer(registered_models=repository).start([])
