"""Serves the models of models.py, and a repository that makes more of them; says where."""

from __future__ import annotations

from common import NEW, tell_when_up
from kserve import Model, ModelRepository, ModelServer
from observe import free_ports

from models import MODELS, Double


class Repository(ModelRepository):
    """Makes models of any name but some."""

    async def load(self, name: str) -> bool:
        """Makes one, or fails to."""
        if name == "broken":
            raise RuntimeError("there are no weights")
        if name == "absent":
            return False
        self.update(Lasting(name) if name == "lasting" else Double(name))
        model = self.get_model(name)
        model.ready = name != "lazy"
        return bool(model.ready)


class Lasting(Double):
    """Says when it is stopped."""

    def stop(self) -> None:
        """Is what `unload` calls."""
        STOPPED.append(self.name)


class Stopped(Model):
    """Shows what was stopped."""

    def predict(self, payload: object, headers: object = None) -> object:
        """The names."""
        return {"predictions": STOPPED}


STOPPED: list[str] = []

if __name__ == "__main__":
    http, grpc = free_ports(2)
    models = [*MODELS(), Stopped("stopped")]
    for model in models:
        model.load()
    sleepy = Double("sleepy")
    if not NEW:
        # The newer dialect does not serve what is not ready at the start.
        from generative import Parrot

        models += [sleepy, Parrot("parrot")]
    tell_when_up(http, grpc=grpc)
    server = ModelServer(http_port=http, grpc_port=grpc, registered_models=Repository())
    server.start(models)
